"""Program: writes the tables of metrics in `docs/METRICS.md`, from `pipeline.report.metrics` and `metric_table`."""

import re
from collections.abc import Iterable
from pathlib import Path

from pipeline.codec.metrics.metric_table import FORMS, STAGES, Form
from pipeline.report.metrics import FAMILIES, PREFIX

METRICS_PAPER = Path(__file__).parents[1] / "docs/METRICS.md"
HEAD = "| metric | labels | meaning | from |\n|---|---|---|---|\n"
PRODUCERS, BROKERS, CLUSTER = "| of producers |", "| of brokers |", "| of clusters |"


def with_metrics(text: str) -> str:
    """The paper with the tables as the families and the forms have them."""
    rows = "".join(
        f"| `{PREFIX}{name}` | {' '.join(f'`{label}`' for label in family.labels)} | {meaning} | `{family.table}` |\n"
        for family in FAMILIES
        for name, (_, meaning) in family.metrics.items()
    )
    text = re.sub(re.escape(HEAD) + r"(\|.*\n)*", lambda _: HEAD + rows, text)
    others = {f"{stage}timems" for stage in STAGES[:-1]}
    forms = [form for form in FORMS if form.metric.attribute.partition("_")[0] not in others]
    for head, prefixes in (
        (PRODUCERS, ("kafka_producer_",)),
        (BROKERS, ("kafka_server_", "kafka_network_", "kafka_log_", "kafka_cluster_")),
        (CLUSTER, ("kafka_topic_", "kafka_brokers", "kminion_", "confluent_")),
    ):
        table = format_names(head, [form for form in forms if form.metric.name.startswith(prefixes)])
        text = re.sub(re.escape(head) + r".*\n(\|.*\n)*", lambda _, table=table: table, text)
    return text


def format_names(head: str, forms: list[Form]) -> str:
    """A table: a row a metric, a column an exporter, in a cell the names it has there."""
    exporters = list(dict.fromkeys(form.exporter for form in forms))
    lines = [f"{head} unit | {' | '.join(exporters)} |", f"|{'---|' * (2 + len(exporters))}"]
    for metric in dict.fromkeys(form.metric for form in forms):
        named = [
            format_form_names(form for form in forms if form.metric == metric and form.exporter == exporter)
            for exporter in exporters
        ]
        what = f"{metric.meaning} (`{metric.name}`)"
        lines.append(f"| {what} | {metric.kind}{', ' if metric.unit else ''}{metric.unit} | {' | '.join(named)} |")
    return "\n".join(lines) + "\n"


def format_form_names(forms: Iterable[Form]) -> str:
    """Names with the labels that tell, each once."""
    names = []
    for form in forms:
        told = [
            f"{label}={'…' if values is None else values[0]}"
            for label, values in form.where.items()
            if label != "quantile" and not label.endswith("namespace")
        ]
        names.append(f"`{form.name}{'{' + ','.join(told) + '}' if told else ''}`")
    return " ".join(dict.fromkeys(names))


if __name__ == "__main__":
    METRICS_PAPER.write_text(with_metrics(METRICS_PAPER.read_text()))

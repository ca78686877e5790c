"""Program: writes the table of metrics in `docs/METRICS.md` from `pipeline.report.metric_families`."""

import re
from pathlib import Path

from pipeline.report.metric_families import FAMILIES, PREFIX

METRICS_PAPER = Path(__file__).parents[1] / "docs/METRICS.md"
HEAD = "| metric | labels | meaning | from |\n|---|---|---|---|\n"


def with_metrics(text: str) -> str:
    """The paper with the table as the families have it."""
    rows = "".join(
        f"| `{PREFIX}{name}` | {' '.join(f'`{label}`' for label in family.labels)} | {meaning} | `{family.table}` |\n"
        for family in FAMILIES
        for name, (_, meaning) in family.metrics.items()
    )
    return re.sub(re.escape(HEAD) + r"(\|.*\n)*", lambda _: HEAD + rows, text)


if __name__ == "__main__":
    METRICS_PAPER.write_text(with_metrics(METRICS_PAPER.read_text()))

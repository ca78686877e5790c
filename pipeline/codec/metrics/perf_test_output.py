"""Output of `kafka-producer-perf-test`: a line every five seconds, the total, and with `--print-metrics` all metrics.

The text carries one instant only, the producer's `start-time-ms` among the metrics; the lines' own come from it and from
their counts and rates. The metrics are those at the end of the run: their counters are the whole run's, their averages
cover Kafka's last 2 x 30 s.

References:
    `ProducerPerformance.java`: `%f` rates to 3.9, `%.1f` from 4.0; `ToolsUtils.printMetrics`.
"""

import math
import re
from collections.abc import Iterator

from pipeline.codec.metrics.metric_names import PERF_TEST_PREFIX, BadLine, MetricText, Series, TimedSample, name_series
from pipeline.errors import parser

WINDOW_MS = 5000
MB_BYTES = 1 << 20
_NUMBER = r"[-+]?(?:\d+(?:[.,]\d+)?(?:[eE][-+]?\d+)?|NaN|Infinity)"
_LINE = re.compile(
    rf"(?P<count>\d+) records sent, (?P<rate>{_NUMBER}) records/sec \((?P<mb>{_NUMBER}) MB/sec\), "
    rf"(?P<avg>{_NUMBER}) ms avg latency, (?P<max>{_NUMBER}) ms max latency"
    rf"(?:\.|, (?P<p50>{_NUMBER}) ms 50th, (?P<p95>{_NUMBER}) ms 95th, (?P<p99>{_NUMBER}) ms 99th, "
    rf"(?P<p999>{_NUMBER}) ms 99\.9th\.)"
)
_METRIC = re.compile(r"(?P<group>[\w.-]+):(?P<name>[\w.-]+):\{(?P<tags>.*)\}\s*: (?P<value>.*)")
_TAG = re.compile(r"([\w-]+)=(.*?)(?=, [\w-]+=|$)")
# The tool's own remarks, and lines of its logger (log4j's layout, slf4j-simple's).
_REMARK = re.compile(
    r"\s*|Metric Name\s+Value|Reading payloads from: .*|Number of messages read: \d+|\[[^\]]*\] (?:INFO|WARN|ERROR) .*"
    r"|(?:DEPRECATED|WARNING|Option) .*"
)


@parser
def parse_perf_test_output(text: str, *, ended_at_ms: int) -> MetricText:
    """Reads the output of one run, which ended at `ended_at_ms` where the text does not show the producer's start.

    Samples are named `kafka_perf_test_window_…` (lines), `kafka_perf_test_…` (total) and as an exporter would name the
    producer's own metrics.
    """
    lines, metrics = [], []
    strange: list[int] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if found := _LINE.fullmatch(line.strip()):
            lines.append(found)
        elif found := _METRIC.fullmatch(line.strip()):
            metrics.append(found)
        elif not _REMARK.fullmatch(line):
            strange.append(number)
    elapsed_ms = _elapsed_ms(lines)
    told_ms = next((float(m["value"]) for m in metrics if m["name"] == "start-time-ms"), None)
    started_at_ms = ended_at_ms - elapsed_ms if told_ms is None else round(told_ms)
    client_id = next((tag[1] for m in metrics for tag in _TAG.findall(m["tags"]) if tag[0] == "client-id"), "")
    samples = [*_lines(lines, client_id, started_at_ms), *_metrics(metrics, started_at_ms + elapsed_ms)]
    return MetricText(tuple(samples), tuple(_tell_strange(strange)))


def _tell_strange(lines: list[int]) -> Iterator[BadLine]:
    """One note for lines in a row: a stack trace has dozens."""
    first, count = 0, 0
    for at, number in enumerate(lines):
        first, count = first or number, count + 1
        if at + 1 == len(lines) or lines[at + 1] != number + 1:
            reason = "neither a line of kafka-producer-perf-test nor a metric"
            yield BadLine(first, reason if count == 1 else f"{count} lines: {reason}", "suspect")
            first, count = 0, 0


def _number(text: str) -> float:
    """A number as Java prints it; infinities, which stand for nothing recorded, are NaN."""
    value = float(text.replace(",", "."))
    return value if math.isfinite(value) else math.nan


def _span_ms(line: re.Match[str]) -> float:
    rate = _number(line["rate"])
    return int(line["count"]) / rate * 1000 if rate > 0 else WINDOW_MS


def _elapsed_ms(lines: list[re.Match[str]]) -> int:
    """Length of the run: from its total where there is one, else all lines together."""
    total = [line for line in lines if line["p50"]]
    return round(_span_ms(total[-1]) if total else sum(map(_span_ms, lines)))


def _lines(lines: list[re.Match[str]], client_id: str, started_at_ms: int) -> Iterator[TimedSample]:
    passed_ms = 0.0
    for line in lines:
        if line["p50"]:
            at_ms, kind = started_at_ms + round(_span_ms(line)), ""
        else:
            passed_ms += _span_ms(line)
            at_ms, kind = started_at_ms + round(passed_ms), "window_"
        values = {
            "record_count": _number(line["count"]),
            "records_per_s": _number(line["rate"]),
            "bytes_per_s": _number(line["mb"]) * MB_BYTES,
            "latency_avg_ms": _number(line["avg"]),
            "latency_max_ms": _number(line["max"]),
        }
        if line["p50"]:
            values |= {f"latency_{name}_ms": _number(line[name]) for name in ("p50", "p95", "p99", "p999")}
        labels = (("client_id", client_id),) if client_id else ()
        for name, value in values.items():
            canonical = f"{PERF_TEST_PREFIX}{kind}{name}"
            yield TimedSample(at_ms, Series(canonical, labels, canonical), value)


def _metrics(metrics: list[re.Match[str]], at_ms: int) -> Iterator[TimedSample]:
    for metric in metrics:
        labels = dict(_TAG.findall(metric["tags"]))
        value = metric["value"]
        if metric["name"] == "version":  # a text: it becomes a label
            labels["version"], value = value, "1"
        exposed_name = f"kafka_producer_{metric['group']}_{metric['name']}".replace("-", "_").replace(".", "_")
        series = name_series(exposed_name, labels)
        if series is not None and re.fullmatch(_NUMBER, value):
            shown = f"{metric['group']}:{metric['name']}"
            yield TimedSample(at_ms, Series(series.name, series.labels, shown), _number(value))

"""What `kafka-producer-perf-test` printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pipeline.sources.metrics.metric_source import MetricTexts

if TYPE_CHECKING:
    from pipeline.codec.metrics.metric_names import MetricText
    from pipeline.sources.metrics.metric_pages import MetricPage


class PerfTestOutput(MetricTexts):
    """What `kafka-producer-perf-test` printed, best with `--print-metrics`: files, or folders of `*.out` and `*.txt`."""

    rank = 140
    suffixes = (".out", ".txt", ".log")

    kind: Literal["perf_test_output"]

    @classmethod
    def parse_text(cls, page: MetricPage, text: str) -> MetricText:
        """Reads averages and quantiles; the run ended when the file was last changed, or at the instant in its name."""
        from pipeline.codec.metrics.perf_test_output import parse_perf_test_output

        return parse_perf_test_output(text, ended_at_ms=page.observed_at_ms)

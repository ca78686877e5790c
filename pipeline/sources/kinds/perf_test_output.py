"""Source of output of `kafka-producer-perf-test`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pipeline.codec.metrics.metric_names import MetricText
from pipeline.sources.metrics.metric_source import MetricTexts

if TYPE_CHECKING:
    from pipeline.sources.metrics.metric_pages import MetricPage


class PerfTestOutput(MetricTexts):
    """Output of `kafka-producer-perf-test`, best with `--print-metrics`: files, or folders of `*.out` and `*.txt`."""

    rank = 140
    suffixes = (".out", ".txt", ".log")

    kind: Literal["perf_test_output"]

    @classmethod
    def of_location(cls, location: str) -> dict[str, Any] | None:
        """A file that no other kind knows, or a folder with outputs in it (`*.log` there may be segments)."""
        path = Path(location)
        is_output = path.is_file() or any(file.suffix in {".out", ".txt"} for file in path.glob("*"))
        return {"paths": [str(path.resolve())]} if is_output else None

    @classmethod
    def parse_text(cls, page: MetricPage, text: str) -> MetricText:
        """Reads averages and quantiles; the run ended when the file was last changed, or at the instant in its name."""
        from pipeline.codec.metrics.perf_test_output import parse_perf_test_output

        return parse_perf_test_output(text, ended_at_ms=page.observed_at_ms)

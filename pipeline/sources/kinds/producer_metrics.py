"""Pages of producers' exporters, kept as files."""

from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from pipeline.config.section import Duration
from pipeline.sources.metrics.metric_source import PageFolder


class ProducerMetrics(PageFolder):
    """Exporter pages of producers: `<path>/<client>/<epoch ms>.prom`."""

    rank = 90

    kind: Literal["producer_metrics"]
    interval: Duration = timedelta(seconds=5)

    @classmethod
    def of_location(cls, location: str) -> dict[str, Any] | None:
        """A folder of pages, or one that holds it as `producers`."""
        path = Path(location).resolve()
        pages = path / "producers" if (path / "producers").is_dir() else path
        return {"path": str(pages)} if any(pages.glob("*/*.prom")) else None

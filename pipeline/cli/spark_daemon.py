"""Spark's Python daemon: workers share our kernels' modules, and PySpark from its wheel, not its archive: 0.2 CPU-s less a task."""

import gc
import sys
from importlib.metadata import distribution
from pathlib import Path

_WHEEL = Path(str(distribution("pyspark").locate_file("pyspark"))).resolve()
for archive in [place for place in sys.path if _WHEEL in Path(place).resolve().parents]:
    sys.path.remove(archive)
    sys.path_importer_cache.pop(archive, None)

from pyspark import daemon  # noqa: E402

import pipeline.jobs.ingest  # noqa: E402
import pipeline.jobs.replay  # noqa: E402
import pipeline.jobs.score_health  # noqa: E402, F401

if __name__ == "__main__":
    gc.freeze()
    daemon.manager()  # type: ignore[no-untyped-call]

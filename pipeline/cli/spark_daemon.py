"""Spark's Python daemon, whose workers have the modules of our kernels at hand and pay little for each task.

PySpark's archive on the path is read anew before each task, 0.06 CPU-s; after each the garbage collector looks at every module,
0.12. Here PySpark is the wheel's own folder, and modules are loaded once, before the daemon forks, out of the collector's sight.

References:
    `spark.python.daemon.module`; `pyspark/daemon.py`, whose `manager` forks; `setup_spark_files` in `pyspark/worker_util.py`.
"""

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

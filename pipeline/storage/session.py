"""The Spark session: one factory for jobs, command line and tests; failures of Spark and its JVM as one error of ours."""

import contextlib
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import delta.exceptions.captured  # noqa: F401 - makes Delta's conflicts typed exceptions instead of Py4JJavaError
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pipeline.config.pipeline_config import Spark
from pipeline.environment import make_spark_cache, private_temporary_folder
from pipeline.errors import PipelineError, SparkFailedError
from pipeline.files import replace_file
from pipeline.storage.frames import ROW_GROUP_BYTES
from pipeline.storage.java import archive_path, find_delta_jars, find_java, use_archive, write_java_shim
from pipeline.storage.locks import own_folder

_JVM_EXIT_TIMEOUT_S = 120
_LOG4J = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.alwaysWriteExceptions = false
# Messages hold values of tables, which must not act on the terminal.
appender.stderr.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: \
%replace{%m%n%ex{8}}\
{[\\\\x00-\\\\x08\\\\x0B-\\\\x1F\\\\x7F-\\\\x9F\\\\u200B-\\\\u200F\\\\u202A-\\\\u202E\\\\u2066-\\\\u2069]}{?}
# Spark's shell start raises the level to this logger's, and says so, unless they agree.
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
"""
_SETTINGS = {
    "spark.python.daemon.module": "pipeline.cli.spark_daemon",
    # Arrow's own allocator keeps what a task let go of: workers of `make run` hold 510 MiB with it, 260 without, as fast.
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # What one task writes into one file, as shuffled: Parquet makes about a fifth of it.
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "128m",
    # By bytes, and looked at after each row: a row of `silver.arrivals` holds up to a million records. With an eighth of them the
    # replay of 64 million records took 131 s instead of 204, and tables 326 MB instead of 186.
    "spark.hadoop.parquet.block.size": str(ROW_GROUP_BYTES),
    "spark.hadoop.parquet.page.size.row.check.min": "1",
    # Tables are small: a snapshot in 50 partitions or a listing by 10,000 tasks costs seconds.
    "spark.sql.shuffle.partitions": "4",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}
_local_folder = contextlib.ExitStack()  # of this process's session; locked for as long as the process lives


def create_session(
    spark_config: Spark, *, app_name: str = "partition-health", extra_conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Starts Spark with Delta, in UTC, or gives this process's session; `ConfigError` without Java or Delta's jars.

    Settings of `spark_config` win over ours, `extra_conf` over both. Collected timestamps are naive: collect `unix_millis(column)`.
    """
    cache = make_spark_cache()
    conf = {**_SETTINGS, **spark_config.conf, **(extra_conf or {})}
    conf = {name: value for name, value in conf.items() if value}
    conf.setdefault("spark.sql.warehouse.dir", str(cache / "warehouse"))  # stays empty: our tables name their location
    java = write_java_shim(find_java(), cache)
    jars = find_delta_jars(cache, java, conf)
    theirs = conf.get("spark.driver.extraJavaOptions", "")
    log4j = cache / "log4j2.properties"
    if not log4j.is_file() or log4j.read_text(encoding="utf-8") != _LOG4J:
        replace_file(log4j, _LOG4J.encode(), mode=0o644)
    ours = f"-Dlog4j2.configurationFile={log4j.as_uri()} -Duser.timezone=UTC"
    if spark_config.master.startswith("local["):
        conf.setdefault("spark.authenticate", "true")  # else any user of the machine fetches shuffled blocks, with keys
        # On the class path, where the archive of classes reaches them; executors of a cluster get them by name.
        class_path = (*jars, conf.get("spark.driver.extraClassPath"))
        conf["spark.driver.extraClassPath"] = os.pathsep.join(filter(None, class_path))
        ours = " ".join((ours, *_local_java_options(theirs), use_archive(archive_path(cache, java, jars))))
    else:
        conf["spark.jars"] = ",".join((*jars, *filter(None, [conf.get("spark.jars")])))
    if not is_running() and "spark.local.dir" not in conf and "SPARK_LOCAL_DIRS" not in os.environ:
        # What is shuffled holds keys; Spark's own folders of it are for all users of the machine, and stay after a kill.
        conf["spark.local.dir"] = str(_local_folder.enter_context(own_folder(private_temporary_folder())))
    conf["spark.driver.memory"] = spark_config.driver_memory
    conf["spark.driver.extraJavaOptions"] = f"{ours} {theirs}".strip()
    # Spark's Python logs each SQL error as JSON besides raising it.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    builder = SparkSession.builder.master(spark_config.master).appName(app_name)
    for key, value in conf.items():
        builder = builder.config(key, value)
    with _environment(_variables(java, spark_config.master, conf)):
        return builder.getOrCreate()


@contextlib.contextmanager
def running_session(spark_config: Spark, *, app_name: str = "partition-health") -> Iterator[SparkSession]:
    is_guest = is_running()
    spark = create_session(spark_config, app_name=app_name)
    try:
        yield spark
    finally:
        if not is_guest:
            stop_session(spark)


def is_running() -> bool:
    return SparkContext._active_spark_context is not None  # noqa: SLF001 - the only way to ask


def is_lost(wait_s: float = 0) -> bool:
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - the only way to ask
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process is not None and process.wait(wait_s) is not None
    return False


def count_spark_tasks() -> tuple[int, int]:
    context = SparkContext._active_spark_context  # noqa: SLF001 - the only way to ask
    if context is None or is_lost():
        return 0, 0
    tracker = context.statusTracker()
    stages = [stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number))]
    return sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)


def describe_jobs(what: str) -> None:
    context = SparkContext._active_spark_context  # noqa: SLF001 - the only way to ask
    if context is not None:
        context.setJobDescription(what)


def stop_session(spark: SparkSession, *, timeout_s: float = _JVM_EXIT_TIMEOUT_S) -> None:
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - pyspark offers no other way to end its JVM
    # a JVM that is gone
    with contextlib.suppress(Py4JError, ConnectionError), warnings.catch_warnings(action="ignore"):
        spark.stop()
    if gateway is None:
        return
    with contextlib.suppress(Py4JError, ConnectionError):
        gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()  # the JVM ends when this pipe does
        process.wait(timeout_s)
    _local_folder.close()
    SparkContext._gateway = None  # noqa: SLF001 - nothing public lets go of a gateway
    SparkContext._jvm = None  # noqa: SLF001 - likewise


def _local_java_options(theirs: str) -> Iterator[str]:
    # The optimising compiler costs more (half of all CPU time) than it gives. Without it the JVM reserves 48 MB for code,
    # which a run fills: it would then interpret the rest.
    yield "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
    if "GC" not in theirs:  # two collectors at once are an error
        # Without these the heap begins at a 64th of the machine's memory, and keeps what one large answer made of it.
        # An ingest of 12 windows: 668 MB with them and two of glibc's arenas, 836 MB without.
        yield "-XX:+UseSerialGC -Xms128m -XX:MaxNewSize=48m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20"


def _variables(java: Path, master: str, conf: Mapping[str, str]) -> dict[str, str]:
    # Without PYSPARK_PYTHON the workers run whatever `python3` the path holds. Spark heeds its own setting in its launcher
    # alone: a packed environment has another path on executors than here.
    python = conf.get("spark.pyspark.python", sys.executable)
    variables = {"JAVA_HOME": str(java), "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": sys.executable}
    if master.startswith("local"):
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
        variables["MALLOC_ARENA_MAX"] = "2"
    return variables


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ[name] for name in variables if name in os.environ}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
        os.environ.update(before)


_SHOWN = 600
_JVM_ENDS_S = 5  # from the end of its sockets to its own


class SparkErrors(contextlib.AbstractContextManager["SparkErrors"]):
    """Context that turns exceptions of Spark into a `SparkFailedError` of one line; the exception stays as its cause."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        is_answer = isinstance(error, PySparkException | Py4JJavaError)
        is_ours = not isinstance(error, Exception) or isinstance(error, PipelineError)
        if not is_ours and is_lost(0 if is_answer else _JVM_ENDS_S):  # pyspark raises errors of sockets, and assertions
            raise SparkFailedError("Spark failed: its JVM has ended, killed or out of memory; run again") from error
        if isinstance(error, PySparkException | Py4JError):
            if isinstance(error, Py4JJavaError):  # its own text asks the JVM, which may be gone
                text = str(error.args[0]).rstrip(":\n") + f" ({type(error.java_exception).__name__})"
                with contextlib.suppress(Py4JError, ConnectionError):
                    text = str(error.java_exception.toString())
            else:
                text = str(error)
            before_stack = text.partition("JVM stacktrace")[0].partition("\n\tat ")[0]
            lines = [line.strip() for line in before_stack.splitlines() if line.strip()]
            ends = lines[:1] + lines[1:][-1:]
            said = (
                " ... ".join(ends)[:_SHOWN] or type(error).__name__
            )  # of a task's error the last line names the cause
            raise SparkFailedError(f"Spark failed: {said}") from error

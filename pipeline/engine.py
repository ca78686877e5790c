"""What engine runs a DataFrame: classic Spark, Spark Connect or Sail; a process uses one kind of PySpark's functions at a time."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipeline.config.storage import Folder, RemoteFolder

CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"  # environment variable by which PySpark chooses the kind of its expressions
_sail_sessions: set[int] = set()
_slots: dict[int, int] = {}


@contextlib.contextmanager
def connect_mode(*, is_on: bool = True) -> Iterator[None]:
    """Has PySpark's functions make expressions of Spark Connect, or of classic Spark, within a block."""
    before = os.environ.pop(CONNECT_MODE, None)  # PySpark asks whether it is there
    if is_on:
        os.environ[CONNECT_MODE] = "1"
    try:
        yield
    finally:
        os.environ.pop(CONNECT_MODE, None)
        if before is not None:
            os.environ[CONNECT_MODE] = before


def note_sail(spark: SparkSession) -> None:
    """Remembers that a session is Sail's: it answers as any behind Spark Connect."""
    _sail_sessions.add(id(spark))


def is_sail(spark: SparkSession) -> bool:
    return id(spark) in _sail_sessions


def reads_files_in_tasks(spark: SparkSession, folder: Folder) -> bool:
    """Whether tasks read a table's files by themselves: Spark has no client of object stores, Sail stops at text views."""
    return isinstance(folder, RemoteFolder) or is_sail(spark)


def count_task_slots(spark: SparkSession) -> int:
    """How many tasks run at a time, as the engine says; asked once a session."""
    if id(spark) not in _slots:
        # a range without a number of partitions has one for each slot
        ids = spark.range(1 << 16).select(F.spark_partition_id())
        _slots[id(spark)] = (os.cpu_count() or 1) if is_sail(spark) else ids.distinct().count()
    return _slots[id(spark)]


def describe_work(what: str) -> None:
    """Says what the queries of this thread are for, where classic Spark runs in this process: its UI and event log show it."""
    if (session := _classic_session()) is not None:
        session.describe_jobs(what)


def count_engine_tasks() -> tuple[int, int] | None:
    """Tasks done, and tasks in all, of the stages that classic Spark runs now; None where it does not run in this process."""
    session = _classic_session()
    return None if session is None else session.count_spark_tasks()


def _classic_session() -> Any:  # noqa: ANN401 - a module of a layer above, or None
    """`storage.session`, if classic Spark runs in this process; a process without it never imports it."""
    session = sys.modules.get("pipeline.storage.session")
    return session if session is not None and session.is_running() else None

"""A JVM that starts with Spark's classes at hand: an archive of class-data sharing, made once for Java, Spark and Delta's jars.

Java 17 archives no serializable lambda, which most of Scala's are: 3,400 of them are made at every start of `sql`.

`-XX:ArchiveClassesAtExit` (JEP 350) writes the classes that a run loaded. The JVM checks the archive against its own
build and the class path, and starts without it where they differ.
"""

import tempfile
from pathlib import Path

from pipeline.config.pipeline_config import Spark
from pipeline.storage.catalog import FOR_FEW_ROWS, register_copies
from pipeline.storage.jars import QUIET
from pipeline.storage.locks import holding
from pipeline.storage.session import create_session, find_archive, stop_session
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables.gold import BROKER_SHARE


def make_archive() -> Path | None:
    """Makes the archive where it is missing, in about 20 CPU-s; gives its path, None where this Java cannot write one.

    `ConfigError` without a usable Java or Delta's jars, `subprocess.TimeoutExpired` if Java takes more than five minutes.
    """
    spark_config = Spark(master="local[2]")
    path = find_archive(spark_config)
    with holding(path.parent, "lock"), tempfile.TemporaryDirectory(dir=path.parent) as folder:
        if path.is_file():
            return path
        draft = Path(folder) / path.name
        options = {"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={draft} {QUIET}"}
        spark = create_session(spark_config, app_name="classes", extra_conf=options)
        table = str(table_path(Path(folder), BROKER_SHARE))
        spark.range(3).mapInArrow(lambda batches: batches, "id bigint").write.format("delta").save(table)
        spark.read.format("delta").load(table).groupBy("id").count().orderBy("id").toArrow()
        spark.range(3).groupBy("id").applyInArrow(lambda rows: rows, "id bigint").toArrow()
        for name, value in FOR_FEW_ROWS.items():
            spark.conf.set(name, value)
        register_copies(spark, Path(folder), (BROKER_SHARE,), Path(folder))
        spark.sql("SELECT id, avg(id) AS mean FROM gold.broker_share GROUP BY id ORDER BY mean DESC LIMIT 3").toArrow()
        stop_session(spark, timeout_s=300)
        if not draft.is_file():
            return None
        draft.replace(path)
    return path

"""Runs the whole pipeline for a window by Spark's own operator, where a cluster's `spark-submit` is what starts Spark's drivers.

Needs `apache-airflow-providers-apache-spark`, and beside it `pyspark-client` of pyspark's own version: another overwrites its files.
The connection `spark_default` names the master, as `spark.master` of the configuration does; `PARTITION_HEALTH_CONFIG` the
configuration. The operator (6.3.4) has no deferrable mode: its task waits with the driver. In cluster mode its `durable` finds a
driver again that outlived its worker. The command delivers its mails itself, so this takes the place of our DAGs.
"""

import os
from datetime import UTC, datetime
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Param

JARS = os.environ.get("DELTA_JARS")  # delta's, with commas, where `spark-submit` cannot fetch them from Maven

with DAG(
    dag_id="example_run_by_spark_submit",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    params={"window": Param("2026-11-21T09:00:00Z/PT1H", type="string")},
    doc_md=__doc__,
    tags=["example", "partition-health"],
) as dag:
    SparkSubmitOperator(
        task_id="run",
        conn_id="spark_default",
        application=str(Path(__file__).with_name("partition_health_job.py")),
        jars=JARS,
        packages=None if JARS else "io.delta:delta-spark_4.1_2.13:4.3.1",
        application_args=["run", "--window", "{{ params.window }}"],
        conf={"spark.driver.extraJavaOptions": "-Duser.timezone=UTC"},
    )

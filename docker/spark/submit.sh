#!/usr/bin/env bash
# Runs a command of partition-health by a cluster's own spark-submit; the driver runs here.
# usage: SPARK_MASTER=yarn DELTA_JARS=a.jar,b.jar submit.sh COMMAND…
#   submit.sh run --config /etc/partition-health/partition-health.yaml
# `spark.master` of the configuration is the same master. DELTA_JARS: those of the image, or what resolve-jars.sh brings.
# SPARK_HOME: the cluster's own Spark, of the version that is locked here; else that of pyspark. PYTHON: the environment's.
set -euo pipefail

: "${SPARK_MASTER:?as spark.master in the configuration}" "${DELTA_JARS:?paths of the jars of Delta, with commas}"
python=${PYTHON:-python}
home=${SPARK_HOME:-$("$python" -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent)')}

# What a JVM needs before it starts; the rest is the configuration's, which the driver reads.
SPARK_HOME=$home PYSPARK_DRIVER_PYTHON=$python exec "$home/bin/spark-submit" \
    --master "$SPARK_MASTER" \
    --deploy-mode client \
    --driver-memory "${DRIVER_MEMORY:-2g}" \
    --jars "$DELTA_JARS" \
    --conf spark.driver.extraJavaOptions=-Duser.timezone=UTC \
    "$(dirname "$0")/../../dags/example_dags/partition_health_job.py" "$@"

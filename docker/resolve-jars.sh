#!/usr/bin/env bash
# Resolves Maven coordinates with the Ivy inside pyspark and copies the jars Spark does not ship itself.
# usage: resolve-jars.sh TARGET COORDINATE…
# Another repository than the public one: DEFAULT_ARTIFACT_REPOSITORY, which Ivy reads from the environment.
set -euo pipefail

target=$1
shift
ivy=$(mktemp -d)
trap 'rm -rf "$ivy"' EXIT

coordinates=$(IFS=,; printf '%s' "$*")
# An empty application: packages are resolved before it starts, and a session is not needed for that.
printf '' > "$ivy/nothing.py"
# user.home: the machine's own ~/.m2 must not stand in for the repository.
SPARK_SUBMIT_OPTS="-Duser.home=$ivy" PYSPARK_PYTHON=python PYSPARK_DRIVER_PYTHON=python \
    spark-submit --master 'local[1]' --conf "spark.jars.ivy=$ivy" --packages "$coordinates" "$ivy/nothing.py"

mkdir -p "$target"
for coordinate in "$@"; do
    group=${coordinate%%:*}
    cp "$ivy/jars/$group"_*.jar "$target/"
done
chmod 0444 "$target"/*.jar
ls -l "$target"

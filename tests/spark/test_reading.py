"""The SQL of the document about reading from outside, in Spark."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from pipeline.storage.frames import arrow_schema
from pipeline.storage.java import delta_package
from pipeline.tables.gold import BROKER_SHARE

PAPER = (Path(__file__).parents[2] / "docs" / "READING.md").read_text()
EXAMPLE = (Path(__file__).parents[2] / "dags/example_dags/run_by_spark_submit.py").read_text()


def test_the_query_runs(classic, tmp_path):
    row = {"cluster": "prod", "window_start": datetime(2026, 11, 21, 9, tzinfo=UTC), "broker_id": 4, "share_ratio": 1.5}
    schema = pa.schema([field.with_nullable(True) for field in arrow_schema(BROKER_SHARE)])
    write_deltalake(tmp_path / "gold" / "broker_share", pa.Table.from_pylist([row], schema))
    (query,) = re.findall(r"```sql\n(.*?)```", PAPER, re.DOTALL)
    (found,) = classic.sql(query.format(warehouse=tmp_path)).collect()
    assert (found.broker_id, found.share_ratio) == (4, 1.5)


def test_the_package_is_the_one_we_use():
    assert f"--packages {delta_package()}" in PAPER
    assert f'"{delta_package()}"' in EXAMPLE

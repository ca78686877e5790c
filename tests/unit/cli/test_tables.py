"""The data dictionary against the declarations it is printed from."""

import json
import subprocess
import sys

import pytest

from pipeline.cli import main
from pipeline.tables import TABLES


def test_every_table_is_listed_with_its_grain(capsys):
    assert main(["tables"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [table.name for table in TABLES]
    assert all(line.endswith(table.grain) for line, table in zip(lines[1:], TABLES, strict=True))


@pytest.mark.parametrize("name", ["gold.broker_share", "broker_share"])
def test_a_table_is_described_column_by_column(capsys, name):
    assert main(["tables", name]) == 0
    out = capsys.readouterr().out
    table = next(table for table in TABLES if table.name == "gold.broker_share")
    named = [line.split()[0].rstrip("*") for line in out.splitlines()[3:] if not line.startswith(" ")]
    assert named == list(table.column_names)
    assert "broker_id*" in out


def test_as_json_it_holds_every_column_with_its_meaning(capsys):
    assert main(["tables", "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)["tables"]
    found = {t["name"]: {c["name"]: (c["type"], c["meaning"]) for c in t["columns"]} for t in tables}
    assert found == {t.name: {c.name: (c.type, c.doc) for c in t.columns} for t in TABLES}


def test_an_unknown_table_is_a_usage_error_that_names_a_similar_one(capsys):
    assert main(["tables", "borker_share"]) == 2
    assert "gold.broker_share" in capsys.readouterr().err


def test_it_starts_without_any_framework():
    code = "import sys; from pipeline.cli import main; main(['tables']); print({'pyspark', 'pandas', 'pyarrow', 'airflow', 'numpy'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"

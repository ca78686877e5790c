"""Rows as values, and back: they are those that the rows were made of."""

import pyarrow as pa
import pytest

from pipeline.model.incident import IncidentChange
from pipeline.model.verdict import Verdict
from pipeline.model.window import instant_of
from pipeline.tables.gold import VERDICTS
from pipeline.tables.incidents import INCIDENTS
from pipeline.tables.values import row_of, values_of
from tests.incident_rows import new_change, new_verdict

INSTANTS_MS = (0, 1, 1_795_251_600_123, 253_402_300_799_999)
CHANGES = [new_change("new", at_ms, value=None, peak_value=1.5) for at_ms in INSTANTS_MS]
VERDICT = new_verdict(60_000, above=0, value=None, reason="é")


@pytest.mark.parametrize(("values", "table"), [(CHANGES, INCIDENTS), ([VERDICT], VERDICTS), ([], VERDICTS)])
def test_values_of_a_table_are_those_of_its_rows(values, table):
    kind = Verdict if table is VERDICTS else IncidentChange
    rows = [row_of(value, table) for value in values]
    held = pa.Table.from_pylist(rows) if rows else pa.table({"rule": pa.array([], pa.string())})
    assert values_of(kind, held) == values


def test_an_instant_that_is_not_known_stays_so():
    known = {**row_of(CHANGES[0], INCIDENTS), "since": None}
    rows = pa.Table.from_pylist([known, {**known, "since": instant_of(7)}])
    assert [one.since_ms for one in values_of(IncidentChange, rows)] == [None, 7]

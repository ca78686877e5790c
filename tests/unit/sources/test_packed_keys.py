"""Rows about keys come out of their packing as they went in."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pipeline.sources.records.key_questions import Question
from pipeline.sources.records.key_rows import SCHEMA, KeyRowMaker
from pipeline.sources.records.key_scan import iter_window_keys
from pipeline.sources.records.packed_keys import KEYS, PACKED_SCHEMA, pack_rows, unpack_rows
from tests.unit.sources.test_key_scan import KEYS as RECORD_KEYS
from tests.unit.sources.test_key_scan import SECRET, SETTINGS, batch, segment


def rows_of(tmp_path, **maker):
    made = KeyRowMaker(settings=SETTINGS, **{"secret": SECRET, **maker})
    read = segment(tmp_path, batch(0, RECORD_KEYS), batch(6, [None, None], hour=1))
    return [made.make_rows(read, found) for found in iter_window_keys(read, SETTINGS)]


MAKERS = {
    "ids": {},
    "clear keys": {"clear_topics": frozenset({"orders"})},
    "answers": {"questions": (Question("orders", "java-builtin", "", 3),)},
    "counts only": {"secret": None, "questions": (Question("orders", "java-builtin", "", 3),)},
}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("piece_keys", [2, 1000])
def test_rows_come_out_as_they_went_in(tmp_path, maker, piece_keys):
    rows = rows_of(tmp_path, **maker)
    packed = [piece for batch in rows for piece in pack_rows(batch, piece_keys)]
    assert {piece.schema for piece in packed} == {PACKED_SCHEMA}
    assert all(piece.num_rows > 0 for piece in packed)
    unpacked = pa.Table.from_batches(unpack_rows(packed), SCHEMA)
    assert unpacked.to_pylist() == pa.Table.from_batches(rows, SCHEMA).to_pylist()
    some = pa.Table.from_batches(unpack_rows(packed, ("key_id", "kind")))
    assert some.to_pylist() == unpacked.select(["key_id", "kind"]).to_pylist()


def test_a_packed_row_says_how_many_keys_it_holds(tmp_path):
    packed = pa.Table.from_batches([piece for batch in rows_of(tmp_path) for piece in pack_rows(batch)])
    assert [row["key_count"] for row in packed.to_pylist() if row["kind"] == KEYS] == [len({*RECORD_KEYS} - {None})]
    assert not {b"longer than sixteen bytes"} & {key for row in packed.to_pylist() for key in row.values()}

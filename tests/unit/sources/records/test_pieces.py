"""Pieces of a scan joined and spread: every row once, whatever the sizes; what the summary of a log says of its batches' times."""

import pyarrow as pa
import pytest

from pipeline.sources.records.pieces import Kind, Piece, join_pieces, summarise_scan
from pipeline.sources.records.segment_scan import scan_segment
from tests.arrivals import write_log
from tests.batches import make_batch, make_records

START_MS, MINUTE_MS, HOUR_MS = 1_800_000_000_000, 60_000, 3_600_000


def keys(*ids):
    return pa.table({"key_id": [f"{number:04d}" for number in ids], "record_count": list(ids)})


@pytest.mark.parametrize("piece_rows", [1, 5, 1000])
def test_pieces_are_joined_by_kind_in_their_order(piece_rows):
    pieces = [Piece(Kind.KEYS, keys(*range(n))) for n in (3, 0, 4, 1)] + [Piece(Kind.OTHERS, keys(9))]
    joined = list(join_pieces(pieces, piece_rows))
    assert [piece.rows.num_rows for piece in joined].count(0) == 0
    found = [row["record_count"] for kind, rows in joined if kind is Kind.KEYS for row in rows.to_pylist()]
    assert found == [0, 1, 2, 0, 1, 2, 3, 0]
    if piece_rows == 1000:
        assert len(joined) == 2


def test_many_small_pieces_take_little_more_room_than_their_rows():
    """As where a task reads a segment of one batch after the other."""
    before, held = pa.total_allocated_bytes(), []

    def pieces():
        for number in range(9_999):
            yield Piece(Kind.KEYS, keys(number))
            held.append(pa.total_allocated_bytes() - before)

    (joined,) = join_pieces(pieces())
    assert joined.rows["record_count"].to_pylist() == [*range(9_999)]
    assert max(held) < 3 * joined.rows.nbytes


def test_arrivals_count_their_records():
    assert Piece(Kind.ARRIVALS, pa.table({"record_count": [3, 4]})).row_count == 7


@pytest.mark.parametrize(
    ("back_ms", "late_of", "named"),
    [(6 * HOUR_MS, range(1, 100), 1), (6 * HOUR_MS, range(1, 9), 0), (MINUTE_MS // 2, range(1, 100), 0)],
)
def test_times_of_past_windows_are_named_where_they_are_a_tenth_of_the_bytes(tmp_path, back_ms, late_of, named):
    stamps_ms = [START_MS - (back_ms if at in late_of and at % 11 else 0) for at in range(100)]
    batches = [make_batch(make_records(1, base_offset=at, start_ms=ms)) for at, ms in enumerate(stamps_ms)]
    read = write_log(tmp_path, 0, batches)
    scanned = scan_segment(read, START_MS + HOUR_MS)
    rows = summarise_scan(read, scanned, MINUTE_MS, is_file=True).to_pylist()
    problems = [row["reason"] for row in rows if row["row_kind"] == "problem"]
    assert len(problems) == named
    assert all("message.timestamp.type=LogAppendTime" in reason for reason in problems)

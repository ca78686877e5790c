"""What the summary of a log says about its batches' times."""

import pytest

from pipeline.sources.records.pieces import summarise_scan
from pipeline.sources.records.segment_scan import scan_segment
from tests.arrivals import write_log
from tests.batches import make_batch, make_records

START_MS, MINUTE_MS, HOUR_MS = 1_800_000_000_000, 60_000, 3_600_000


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

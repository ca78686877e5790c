"""Arrivals of made segments, each record's instant, size, key and partition known beforehand."""

import struct
from dataclasses import replace

import numpy as np
import pytest

from pipeline.calibration.session_traffic import NO_KEY
from pipeline.codec.records.key_ids import make_key_ids, number_of_id
from pipeline.model.log import Codec, TimestampType
from pipeline.model.window import TimeWindow
from pipeline.simulator.engine.batches import measure_body_bytes
from tests.arrivals import HOUR_MS, SECRET, WINDOW_START_MS, join, read_chunks, read_sessions, settings_for, write_log
from tests.batches import START_MS, make_batch, make_marker, make_records, make_wrapper
from tests.record_writers import write_message

MINUTE_MS = 60_000


def number_of(key):
    return number_of_id(*make_key_ids(SECRET, [key]))


def test_records_of_all_partitions_come_in_order_of_time_with_their_sizes_and_keys(tmp_path):
    first = [replace(r, timestamp_ms=START_MS + 4 * i) for i, r in enumerate(make_records(3, value=b"v" * 100))]
    other = make_records(2, start_ms=START_MS + 2, key=None, value=None)
    reads = [
        write_log(tmp_path, 0, [make_batch(first, producer_id=7, producer_epoch=2)]),
        write_log(tmp_path, 5, [make_batch(other, producer_id=7, producer_epoch=2, codec=Codec.LZ4)]),
    ]
    (session,) = read_sessions(reads)
    assert (session.topic, session.producer_id, session.producer_epoch) == ("orders", 7, 2)
    assert (session.at_ms - START_MS).tolist() == [0, 2, 3, 4, 8]
    assert session.partition.tolist() == [0, 5, 5, 0, 0]
    keyed, keyless = measure_body_bytes(2, 100), measure_body_bytes(-1, -1)
    assert session.body_bytes.tolist() == [keyed, keyless, keyless, keyed, keyed]
    keys = [None if index == NO_KEY else session.keys[index] for index in session.key_index]
    assert keys == [number_of(b"k0"), None, None, number_of(b"k1"), number_of(b"k2")]


def test_bytes_of_headers_and_long_deltas_are_those_of_the_body_alone(tmp_path):
    headers = (("name", b"x" * 70), ("none", None))
    records = [
        replace(r, timestamp_ms=START_MS + 40_000 * (i > 0), offset=500 * i)
        for i, r in enumerate(make_records(2, key=b"key", value=b"v" * 9000, headers=headers))
    ]
    (session,) = read_sessions([write_log(tmp_path, 0, [make_batch(records)])])
    header_bytes = 1 + (1 + 4 + 2 + 70) + (1 + 4 + 1)
    assert session.body_bytes.tolist() == [measure_body_bytes(3, 9000, header_bytes)] * 2


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("is_wrapped", [True, False])
def test_legacy_formats_are_measured_as_records_of_today(tmp_path, magic, is_wrapped):
    records = make_records(2, key=b"key", value=b"v" * 100)
    later = make_batch(make_records(1, base_offset=5, key=b"key", value=b"v" * 100))
    legacy = [make_wrapper(records, magic=magic)] if is_wrapped else [write_message(r, magic=magic) for r in records]
    (session,) = read_sessions([write_log(tmp_path, 0, [*legacy, later])])
    assert len(session) == 3
    assert set(session.body_bytes.tolist()) == {measure_body_bytes(3, 100)}
    # format 0 has no timestamps: append order places its records
    assert session.outlier_record_count == (2 if magic == 0 else 0)


def test_a_batch_belongs_to_one_window_with_all_its_records_and_a_record_to_its_own_minute(tmp_path):
    edge_ms = WINDOW_START_MS
    records = [replace(r, timestamp_ms=edge_ms + ms) for r, ms in zip(make_records(2), (-5, 10), strict=True)]
    before = make_batch(make_records(1, start_ms=edge_ms - 20))
    rows = join(read_chunks([write_log(tmp_path, 0, [before, make_batch(replace_offsets(records, 1))])]))
    found = rows.select(["window_start_ms", "minute_start_ms", "gap_ms"]).to_pylist()
    assert found == [
        {"window_start_ms": edge_ms, "minute_start_ms": edge_ms - MINUTE_MS, "gap_ms": [MINUTE_MS - 5]},
        {"window_start_ms": edge_ms, "minute_start_ms": edge_ms, "gap_ms": [10]},
    ]


def replace_offsets(records, first):
    return [replace(record, offset=first + i) for i, record in enumerate(records)]


def test_log_append_time_is_said_and_gives_all_records_of_a_batch_one_instant(tmp_path):
    appended = make_batch(make_records(3), attributes=8, max_timestamp_ms=START_MS + 50)
    created = make_batch(make_records(2, base_offset=3, start_ms=START_MS + 60))
    (session,) = read_sessions([write_log(tmp_path, 0, [appended, created])])
    assert session.timestamp_types == ("CreateTime", "LogAppendTime")
    assert session.timestamp_type == "LogAppendTime"
    assert (session.at_ms - START_MS).tolist() == [50, 50, 50, 60, 61]


def test_timestamps_far_off_are_counted_and_placed_at_the_record_ahead(tmp_path):
    offsets_ms = (0, 5, -700_000, 8, 6)
    records = [replace(r, timestamp_ms=START_MS + ms) for r, ms in zip(make_records(5), offsets_ms, strict=True)]
    (session,) = read_sessions([write_log(tmp_path, 0, [make_batch(records)])])
    assert (session.at_ms - START_MS).tolist() == [0, 5, 5, 6, 8]
    assert (session.outlier_record_count, session.late_record_count) == (1, 1)


def test_a_batch_whose_time_is_out_of_line_is_placed_by_append_order(tmp_path):
    day_ms = 86_400_000
    batches = [
        make_batch(make_records(2, base_offset=2 * i, start_ms=START_MS + 10 * i + (400 * day_ms) * (i == 3)))
        for i in range(7)
    ]
    (session,) = read_sessions([write_log(tmp_path, 0, batches)])
    assert session.outlier_record_count == 2
    assert (session.at_ms - START_MS).tolist() == [0, 1, 10, 11, 20, 21, 21, 21, 40, 41, 50, 51, 60, 61]


def test_producers_without_idempotence_are_pooled_and_epochs_of_transactions_are_one_session(tmp_path):
    batches = [
        make_batch(make_records(1)),
        make_batch(make_records(1, base_offset=1), producer_id=9, producer_epoch=0, attributes=16),
        make_marker(2, producer_id=9),
        make_batch(make_records(1, base_offset=3), producer_id=9, producer_epoch=1, attributes=16),
        make_marker(4, producer_id=9),
        make_batch(make_records(1, base_offset=5), producer_id=9, producer_epoch=1),
    ]
    sessions = read_sessions([write_log(tmp_path, 0, batches)])
    assert [(s.producer_id, s.producer_epoch, len(s)) for s in sessions] == [(-1, -1, 1), (9, -1, 2), (9, 1, 1)]
    assert [s.is_pooled for s in sessions] == [True, False, False]


def test_aborted_records_are_among_the_others_and_counted_and_markers_are_not(tmp_path):
    def batch(offset, producer_id):
        records = make_records(2, base_offset=offset)
        return make_batch(records, producer_id=producer_id, producer_epoch=0, attributes=16)

    batches = [
        batch(0, 8),
        batch(2, 9),
        make_marker(4, producer_id=9, commit=False),
        batch(5, 9),
        make_marker(7, producer_id=8, commit=True),
        make_marker(8, producer_id=9, commit=True),
        batch(9, 8),
    ]
    sessions = read_sessions([write_log(tmp_path, 0, batches)])
    assert [(s.producer_id, len(s), s.aborted_record_count) for s in sessions] == [(8, 4, 0), (9, 4, 2)]


def test_a_transaction_that_ends_in_a_later_segment_is_looked_up_in_its_index(tmp_path):
    records = make_records(2)
    read = write_log(tmp_path, 0, [make_batch(records, producer_id=8, producer_epoch=0, attributes=16)])
    later = tmp_path / "orders-0" / f"{2:020d}.txnindex"
    later.write_bytes(struct.pack(">hqqqq", 0, 8, 0, 5, 6))
    (session,) = read_sessions([read])
    assert session.aborted_record_count == 2


def test_batches_that_cannot_be_read_are_counted_and_the_rest_is_read(tmp_path):
    broken = bytearray(make_batch(make_records(4, base_offset=1, start_ms=START_MS + 1)))
    broken[-3] ^= 0xFF
    batches = [make_batch(make_records(1)), bytes(broken), make_batch(make_records(1, base_offset=5))]
    (session,) = read_sessions([write_log(tmp_path, 0, batches)])
    assert (len(session), session.unreadable_record_count) == (2, 4)


def test_only_unreadable_batches_leave_a_row_without_records(tmp_path):
    broken = bytearray(make_batch(make_records(4)))
    broken[-3] ^= 0xFF
    rows = join(read_chunks([write_log(tmp_path, 0, [bytes(broken)])]))
    assert rows.select(["record_count", "unreadable_record_count", "gap_ms", "keys"]).to_pylist() == [
        {"record_count": 0, "unreadable_record_count": 4, "gap_ms": [], "keys": []}
    ]


def test_gaps_of_compaction_leave_the_records_there_are(tmp_path):
    records = [record for record in make_records(10) if record.offset % 3 == 0]
    (session,) = read_sessions([write_log(tmp_path, 0, [make_batch(records, base_offset=0, last_offset=9)])])
    assert (session.at_ms - START_MS).tolist() == [0, 3, 6, 9]


def test_missing_minutes_have_no_rows(tmp_path):
    batches = [make_batch(make_records(1, base_offset=i, start_ms=START_MS + i * 5 * MINUTE_MS)) for i in range(3)]
    assert join(read_chunks([write_log(tmp_path, 0, batches)])).num_rows == 3
    (session,) = read_sessions([write_log(tmp_path, 0, batches)])
    assert (session.at_ms - START_MS).tolist() == [0, 5 * MINUTE_MS, 10 * MINUTE_MS]


def test_without_a_secret_keys_are_told_apart_from_none_and_empty_ones_only(tmp_path):
    records = [replace(r, key=key) for r, key in zip(make_records(4), (b"a", None, b"", b"b"), strict=True)]
    (session,) = read_sessions([write_log(tmp_path, 0, [make_batch(records)])], settings_for(secret=None))
    assert session.key_index.tolist() == [-2, NO_KEY, -3, -2]
    assert len(session.keys) == 0


def test_an_empty_key_has_an_id(tmp_path):
    (session,) = read_sessions([write_log(tmp_path, 0, [make_batch(make_records(1, key=b""))])])
    assert session.keys.tolist() == [number_of(b"")]


def test_windows_and_slices_that_are_not_wanted_are_left_out(tmp_path):
    batches = [make_batch(make_records(1, base_offset=i, start_ms=START_MS + i * HOUR_MS)) for i in range(2)]
    read = write_log(tmp_path, 0, batches)
    assert [len(session) for session in read_sessions([read])] == [1]
    both = TimeWindow(WINDOW_START_MS, WINDOW_START_MS + 2 * HOUR_MS)
    assert [len(session) for session in read_sessions([read], settings_for(span=both))] == [2]
    slices = (TimeWindow(START_MS + HOUR_MS, START_MS + HOUR_MS + 1),)
    (session,) = read_sessions([read], settings_for(span=both, slices=slices))
    assert session.at_ms.tolist() == [START_MS + HOUR_MS]


def test_uncommitted_offsets_and_files_that_are_gone_give_nothing(tmp_path):
    read = write_log(tmp_path, 0, [make_batch(make_records(2)), make_batch(make_records(2, base_offset=2))])
    assert [len(session) for session in read_sessions([replace(read, high_watermark=2)])] == [2]
    assert read_chunks([replace(read, path=str(tmp_path / "gone.log"))]) == []


def test_a_legacy_topic_with_append_time_says_so(tmp_path):
    wrapper = make_wrapper(make_records(2), magic=1, timestamp_type=TimestampType.LOG_APPEND_TIME)
    (session,) = read_sessions([write_log(tmp_path, 0, [wrapper])])
    assert session.timestamp_types == ("LogAppendTime",)
    assert np.diff(session.at_ms).tolist() == [0]

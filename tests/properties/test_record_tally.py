"""Sums over records and over headers, against counts made here one by one."""

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.codec.log.batch_headers import HEADER_ROW, HeaderScan, sum_headers
from pipeline.codec.records.key_table import TOP_KEY_COUNT, RecordTally
from pipeline.codec.records.record_scan import RECORD_ROW, RecordScan
from pipeline.model.log import Codec
from pipeline.model.log_tree import FrequentKey, HeaderSums, RecordSummary

KEYS = st.one_of(st.none(), st.integers(0, 30).map(lambda n: b"key-%d" % n), st.binary(max_size=20))
RECORDS = st.tuples(
    KEYS, st.integers(-1, 50), st.integers(0, 3), st.one_of(st.just(-1), st.integers(0, 2**41)), st.booleans()
)
CHUNKS = st.lists(st.lists(RECORDS, max_size=60), min_size=1, max_size=5)


def make_scan(records) -> RecordScan:
    """A chunk whose batch 0 holds data and batch 1 is a control batch."""
    headers = np.zeros(2, HEADER_ROW)
    headers["magic"], headers["attributes"] = 2, [0, 0x20]
    rows = np.zeros(len(records), RECORD_ROW)
    keys = [record[0] for record in records]
    rows["key_length"] = [-1 if key is None else len(key) for key in keys]
    for name, place in (("value_length", 1), ("header_count", 2), ("timestamp_ms", 3), ("batch_index", 4)):
        rows[name] = [record[place] for record in records]
    return RecordScan(
        headers=HeaderScan(rows=headers, problems=(), valid_bytes=0, file_bytes=0),
        rows=rows,
        key_offsets=np.cumsum([0, *(len(key or b"") for key in keys)]).astype(np.int64),
        key_data=np.frombuffer(b"".join(key or b"" for key in keys), np.uint8),
    )


def count_by_hand(records) -> RecordSummary:
    data = [record for record in records if not record[4]]
    stamps = [record[3] for record in data if record[3] >= 0]
    keys = Counter(record[0] for record in data if record[0] is not None)
    return RecordSummary(
        min_timestamp_ms=min(stamps, default=None),
        max_timestamp_ms=max(stamps, default=None),
        null_key_count=sum(record[0] is None for record in data),
        distinct_key_count=len(keys),
        tombstone_count=sum(record[1] < 0 for record in data),
        key_bytes=sum(len(record[0] or b"") for record in data),
        value_bytes=sum(max(record[1], 0) for record in data),
        header_count=sum(record[2] for record in data),
        top_keys=tuple(FrequentKey(key=key, record_count=n) for key, n in keys.most_common(TOP_KEY_COUNT)),
    )


@settings(max_examples=200)
@given(chunks=CHUNKS)
def test_records_are_counted_whatever_the_chunks(chunks):
    tally = RecordTally()
    for chunk in chunks:
        tally.add(make_scan(chunk))
    assert tally.summary() == count_by_hand([record for chunk in chunks for record in chunk])


def test_nothing_was_counted():
    assert RecordTally().summary() == count_by_hand([])


def test_a_table_that_grows():
    keys = [b"%d" % (i * i % 50_021) for i in range(60_000)]
    records = [(key, 1, 0, 1, False) for key in keys]
    tally = RecordTally()
    for start in range(0, len(records), 7_000):
        tally.add(make_scan(records[start : start + 7_000]))
    assert tally.summary() == count_by_hand(records)


HEADERS = st.fixed_dictionaries(
    {
        "base_offset": st.integers(0, 1000),
        "last_offset": st.integers(0, 1000),
        "base_timestamp_ms": st.integers(-1, 10**13),
        "max_timestamp_ms": st.integers(-1, 10**13),
        "producer_id": st.integers(-1, 4),
        "record_count": st.integers(0, 9),
        "attributes": st.integers(0, 0x7F).filter(lambda bits: bits & 7 < 5),
        "magic": st.integers(0, 2),
        "crc_ok": st.booleans(),
        "flaw": st.sampled_from([0, 0, 0, 1, 2]),
    }
)


def sum_by_hand(batches) -> HeaderSums:
    usable = [batch for batch in batches if not batch["flaw"]]
    missing, next_offset = 0, None
    for batch in usable:
        missing += 0 if next_offset is None else max(0, batch["base_offset"] - next_offset)
        next_offset = batch["last_offset"] + 1
    firsts = []
    for batch in usable:
        is_append_time = batch["magic"] > 0 and batch["attributes"] & 8
        is_hidden = batch["magic"] > 1 and batch["attributes"] & 0x40 and not is_append_time
        times = [batch["max_timestamp_ms"]] + ([] if is_append_time else [batch["base_timestamp_ms"]])
        if batch["record_count"] and not is_hidden and min(times) >= 0:
            firsts.append(min(times))
    return HeaderSums(
        damaged_batch_count=len(batches) - len(usable),
        crc_error_count=sum(not batch["crc_ok"] for batch in batches),
        record_count=sum(batch["record_count"] for batch in usable),
        control_batch_count=sum(batch["magic"] > 1 and batch["attributes"] & 0x20 > 0 for batch in usable),
        missing_offset_count=missing,
        min_timestamp_ms=min(firsts, default=None),
        max_timestamp_ms=max((b["max_timestamp_ms"] for b in usable if b["max_timestamp_ms"] >= 0), default=None),
        magics=tuple(sorted({batch["magic"] for batch in batches})),
        codecs=tuple(sorted({Codec(batch["attributes"] & 7).name.lower() for batch in usable})),
        producer_ids=tuple(sorted({batch["producer_id"] for batch in usable} - {-1})),
    )


@settings(max_examples=300)
@given(batches=st.lists(HEADERS, max_size=12))
def test_headers_are_added_up(batches):
    rows = np.zeros(len(batches), HEADER_ROW)
    for row, fields in zip(rows, batches, strict=True):
        for name, value in fields.items():
            row[name] = value
    assert sum_headers(HeaderScan(rows=rows, problems=(), valid_bytes=0, file_bytes=0)) == sum_by_hand(batches)

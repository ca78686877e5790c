"""Recorded arrivals: every record once, whatever the cut; the order follows from sizes and keys and never from partitions.

Oracle of the packing: the same record by record.
"""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.calibration.arrival_rows import CHUNK_SCHEMA
from pipeline.calibration.session_traffic import iter_sessions
from pipeline.calibration.within_ms import ArrivedRecords, put_in_order
from pipeline.codec.log.segment import scan_reply
from pipeline.codec.records.arrival_layout import NO_WINDOW, SUMS
from pipeline.codec.records.arrivals import ArrivalPacker, BatchTimes
from pipeline.codec.records.record_reader import decode_reply
from pipeline.model.log import Codec
from tests.arrivals import SECRET, join
from tests.batches import START_MS, make_batch, make_records
from tests.oracles.arrivals import pack_plainly

MINUTE_MS = 60_000

RECORDS = st.lists(
    st.tuples(
        st.integers(0, 3),  # partition
        st.integers(0, 2 * MINUTE_MS - 1).flatmap(lambda ms: st.sampled_from([ms, ms % 3])),
        st.integers(7, 12),  # body
        st.integers(-2, 3),  # key number, 0 for none
    ),
    min_size=1,
    max_size=80,
)


def make_chunks(records, *, chunk_records):
    """Chunks of so many records of a partition, each with the records of one minute."""
    rows = []
    for partition in sorted({record[0] for record in records}):
        own = [record for record in records if record[0] == partition]
        for start in range(0, len(own), chunk_records):
            piece = own[start : start + chunk_records]
            rows += [
                chunk_row(partition, minute, [r for r in piece if r[1] // MINUTE_MS == minute])
                for minute in sorted({record[1] // MINUTE_MS for record in piece})
            ]
    return [pa.RecordBatch.from_pylist(rows, schema=CHUNK_SCHEMA)]


def chunk_row(partition, minute, records):
    at_ms = np.array([record[1] % MINUTE_MS for record in records], np.uint16)
    key_number = np.array([record[3] for record in records], np.int64)
    session = {"topic": "orders", "topic_id": "", "producer_id": 7, "producer_epoch": 0, "timestamp_type": "CreateTime"}
    counts = {"record_count": len(records), "unreadable_record_count": 1, "aborted_record_count": 2}
    counts |= {"outlier_record_count": 3, "late_record_count": 4, "key_digest": 5, "first_ms": int(at_ms.min())}
    return {
        **session,
        **counts,
        "partition": partition,
        "window_start_ms": 0,
        "minute_start_ms": minute * MINUTE_MS,
        "at_ms": at_ms.tobytes(),
        "body_bytes": np.array([record[2] for record in records], np.int32).tobytes(),
        "key_number": key_number.tobytes() if key_number.any() else b"",
    }


def read(rows):
    """Time, size and key of each record in the order of the rows, and the partitions."""
    (session,) = iter_sessions(rows)
    keys = np.where(session.key_index < 0, 0, np.append(session.keys, 0)[session.key_index])
    ordered = list(zip(session.elapsed_ms + session.start_ms, session.body_bytes, keys, strict=True))
    return [tuple(map(int, record)) for record in ordered], session.partition.tolist()


@given(records=RECORDS, chunk_records=st.integers(1, 90), chunk_rows=st.integers(1, 5))
def test_every_record_comes_once_in_order_of_time(records, chunk_records, chunk_rows):
    rows = join(make_chunks(records, chunk_records=chunk_records), chunk_rows=chunk_rows)
    ordered, partitions = read(rows)
    assert Counter(zip(partitions, ordered, strict=True)) == Counter((r[0], r[1:]) for r in records)
    assert [record[0] for record in ordered] == sorted(record[1] for record in records)
    for row in rows.to_pylist():
        assert min(row["gap_ms"]) >= 0
        assert row["keys"] == sorted(set(row["keys"]))


@given(records=RECORDS, chance=st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_the_recorded_partitions(records, chance):
    """The law that lets a replay of keyless records take the arrivals and nothing of where they went."""
    moved = [(chance.randrange(4), *record[1:]) for record in records]
    chance.shuffle(moved)
    ordered, _ = read(join(make_chunks(records, chunk_records=7)))
    assert read(join(make_chunks(moved, chunk_records=5)))[0] == ordered


@given(RECORDS, st.integers(1, 90), st.integers(1, 40), st.integers(1, 4))
def test_rows_do_not_depend_on_chunks_or_on_how_many_records_are_held(records, chunk_records, block, chunk_rows):
    chunks = make_chunks(records, chunk_records=chunk_records)
    expected = join(make_chunks(records, chunk_records=90), records_per_row=16)
    found = join(chunks, chunk_rows=chunk_rows, block_records=block, records_per_row=16)
    counted = list(SUMS)
    key = [("minute_start_ms", "ascending"), ("part", "ascending")]
    assert found.drop_columns(counted).sort_by(key) == expected.drop_columns(counted).sort_by(key)
    for name in counted:
        assert sum(found[name].to_pylist()) == sum(chunks[0][name].to_pylist())


def test_a_minute_has_no_digest_where_one_of_its_chunks_has_none():
    (chunks,) = make_chunks([(0, 1, 1, 1), (0, 2, 1, 1), (0, MINUTE_MS, 1, 1)], chunk_records=1)
    place = chunks.schema.get_field_index("key_digest")
    chunks = chunks.set_column(place, "key_digest", pa.array([None, 2**63 - 1, 2**63 - 1]))
    assert join([chunks])["key_digest"].to_pylist() == [None, 2**63 - 1]


def test_records_of_a_millisecond_are_drawn_anew_in_each():
    records = [(0, ms, body, 0) for ms in range(200) for body in (7, 8)]
    ordered, _ = read(join(make_chunks(records, chunk_records=90)))
    assert 60 < [record[1] for record in ordered[::2]].count(7) < 140


@given(records=RECORDS, chance=st.randoms(use_true_random=False), hash_bits=st.integers(0, 3))
def test_unequal_records_of_one_hash_do_not_let_the_partition_decide(records, chance, hash_bits):
    moved = [(chance.choice([0, 1, 70_000]), *record[1:]) for record in records]
    chance.shuffle(moved)
    hashes = np.ones(2, np.uint64)
    first, second = (put_in_order(as_records(some), hashes, hash_bits=hash_bits) for some in (records, moved))
    for name in ("group", "at_ms", "body_bytes", "key_number"):
        assert getattr(first, name).tolist() == getattr(second, name).tolist()


def as_records(records):
    by_minute = sorted(records, key=lambda record: record[1] // MINUTE_MS)
    partition, at_ms, body_bytes, key_number = (np.array(column) for column in zip(*by_minute, strict=True))
    return ArrivedRecords(
        group=at_ms // MINUTE_MS,
        at_ms=(at_ms % MINUTE_MS).astype(np.uint16),
        body_bytes=body_bytes.astype(np.int32),
        partition=partition.astype(np.int32),
        key_number=key_number.astype(np.int64),
    )


def make_log(chance):
    batches, offset = [], 0
    for number in range(chance.randint(1, 12)):
        records = []
        for _ in range(chance.randint(1, 12)):
            at_ms = START_MS + 900 * number + chance.randint(0, 1500) - 3_000_000 * (chance.random() < 0.05)
            (record,) = make_records(1, base_offset=offset, start_ms=at_ms)
            value = chance.choice([None, b"x" * chance.randint(0, 9000)])
            key = chance.choice([None, b"", b"k%d" % chance.randint(0, 20)])
            headers = (("h", b"v" * chance.randint(0, 100)),) * chance.randint(0, 2)
            records.append(replace(record, key=key, value=value, headers=headers))
            offset += 1
        producer = {"producer_id": chance.randint(-1, 2), "producer_epoch": chance.randint(-1, 1)}
        attributes = chance.choice([0, 0, 8, 16])
        batch = bytearray(make_batch(records, codec=chance.choice(list(Codec)), attributes=attributes, **producer))
        if chance.random() < 0.1:
            batch[-2] ^= 0x55
        batches.append(bytes(batch))
    return b"".join(batches)


def pack(packer, scan, times):
    packed = packer.pack(scan, times)
    ends = np.concatenate([[0], np.cumsum(packed.groups["record_count"])])
    numbers = np.zeros(ends[-1], np.int64) if packed.key_number is None else packed.key_number
    columns = (packed.at_ms, packed.body_bytes, numbers)
    return sorted(
        (group.tolist(), *(column[first:end].tolist() for column in columns))
        for group, first, end in zip(packed.groups, ends[:-1], ends[1:], strict=True)
    )


@pytest.mark.parametrize("secret", [None, SECRET])
@pytest.mark.parametrize("seed", range(40))
def test_records_are_packed_as_one_by_one(seed, secret):
    chance = random.Random(seed)
    data = make_log(chance)
    headers = scan_reply(data, name="made")
    (scan,) = decode_reply(data, headers)
    batches = np.arange(len(headers))
    event_ms = np.maximum.accumulate(headers.max_timestamp_ms.astype(np.int64))
    times = BatchTimes(
        window_start_ms=np.where(batches % 5 == 4, NO_WINDOW, event_ms - event_ms % MINUTE_MS),
        event_time_ms=event_ms,
        is_outlier=batches % 7 == 6,
        is_aborted=headers.is_transactional,
    )
    packer = ArrivalPacker(secret, is_clear=bool(seed % 2))
    plain = pack_plainly(scan, times, secret, is_clear=bool(seed % 2))
    assert pack(packer, scan, times) == plain
    assert pack(packer, scan, times) == plain  # keys are known now


def test_keys_beyond_the_room_are_numbered_all_the_same():
    data = make_batch(make_records(300, key=b"k%d"))
    (scan,) = decode_reply(data, scan_reply(data, name="made"))
    (event_ms,) = scan.headers.max_timestamp_ms.tolist()
    times = BatchTimes(
        window_start_ms=np.array([event_ms - event_ms % MINUTE_MS]),
        event_time_ms=np.array([event_ms]),
        is_outlier=np.array([False]),
        is_aborted=np.array([False]),
    )
    plain = pack_plainly(scan, times, SECRET, is_clear=False)
    assert pack(ArrivalPacker(SECRET, most_keys=32), scan, times) == plain

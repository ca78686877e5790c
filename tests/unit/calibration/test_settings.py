"""Settings and codec where one part of the evidence says more than another."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.calibration.partitioner.clients import Bounds, ClientChoice
from pipeline.calibration.partitioner.settings import estimate_ratio, infer_settings, measure_compression, measure_plain
from pipeline.calibration.partitioner.switch_rules import RuleEvidence, SwitchRule
from pipeline.calibration.session_traffic import SessionBatches, SessionTraffic
from pipeline.simulator.clients.client import Compression

CLIENT = ClientChoice("java-builtin", "kafka-clients", "3.9.1", "3.3 to 3.9", 0.0, True)
FULL = Bounds(8192.0, 7876, 8397.0, "full")
OPEN = Bounds(None, 7876, None, "not full")


def make_session(counts, *, batch_bytes, record_ratio, body_bytes=198, codec="lz4"):
    """Batches of so many records that take so many bytes each, and a part of their records' bytes."""
    counts = np.array(counts, np.int64)
    total = int(counts.sum())
    whole = np.zeros(total, np.int32)
    traffic = SessionTraffic(
        topic="t", topic_id="", producer_id=7, producer_epoch=0, start_ms=0, elapsed_ms=np.arange(total, dtype=np.int32),
        body_bytes=np.full(total, body_bytes, np.int32), partition=whole, key_index=whole - 1, keys=np.zeros(0, np.int64),
    )  # fmt: skip  # fields of a value, several a line
    none = np.zeros(len(counts), np.int64)
    sizes = 61 + batch_bytes + np.round(record_ratio * (body_bytes + 2) * counts).astype(np.int64)
    return traffic, SessionBatches(none, none, none, none, counts, sizes, codec)


def infer_batch_size(bounds, limit_bytes):
    """`batch.size` by what full batches say and by where runs end."""
    evidence = RuleEvidence({}, {}, 100, limit_bytes, 0, 0.5, 0.9, {})
    traffic, batches = make_session([3, 3], batch_bytes=0, record_ratio=1.0, codec="none")
    told = {"linger": Bounds(0.0, 0, 5.0, ""), "batch_bytes": bounds, "rule": SwitchRule.BYTES, "evidence": evidence}
    return infer_settings(CLIENT, traffic, batches, **told)["batch.size"].value


@pytest.mark.parametrize(
    ("bounds", "limit_bytes", "value"),
    [
        (FULL, 8192, "8192"),
        (FULL, 8000, "8000"),
        (FULL, 27_336, "8192"),  # bursts within a millisecond: runs are not told apart, full batches are
        (OPEN, 27_336, "27336"),
    ],
)
def test_full_batches_bound_where_runs_may_end(bounds, limit_bytes, value):
    """A run of the built-in partitioner is `batch.size` bytes; a full batch is, too."""
    assert infer_batch_size(bounds, limit_bytes) == value


def test_small_batches_compress_less():
    """Eighty bytes a batch and half of the records' bytes."""
    found = measure_compression(*make_session([1, 2, 5, 9, 30], batch_bytes=80, record_ratio=0.5))

    assert found == Compression(500_000, 80)


def test_a_few_full_batches_that_compress_better_change_little_of_small_ones():
    """As lz4's: most batches hold one record, and some of 70 take a fifth less than these tell."""
    counts = [1] * 900 + [2] * 80 + [8] * 10 + [70] * 3
    traffic, batches = make_session(counts, batch_bytes=80, record_ratio=0.5)
    sizes = np.where(batches.record_count == 70, batches.size_bytes * 8 // 10, batches.size_bytes)
    found = measure_compression(traffic, replace(batches, size_bytes=sizes))
    plain = measure_plain(traffic, batches)
    told = 61 + found.overhead_bytes + found.ratio_ppm * plain / 1_000_000
    assert told.sum() == pytest.approx(sizes.sum(), abs=len(sizes))
    assert told[0] == pytest.approx(sizes[0], rel=0.05)


def test_batches_that_the_cleaner_emptied_tell_nothing_of_compression():
    traffic, batches = make_session([0, 1, 2, 5, 0], batch_bytes=80, record_ratio=0.5)
    assert measure_compression(traffic, batches) == Compression(500_000, 80)
    _, emptied = make_session([0, 0], batch_bytes=0, record_ratio=0.5)
    assert measure_compression(traffic, emptied) is None
    assert estimate_ratio(traffic, emptied) == pytest.approx(1.05)
    assert 0 < estimate_ratio(traffic, batches) <= 1.1


@pytest.mark.parametrize(("counts", "batch_bytes"), [([4, 4, 4], 80), ([1, 2, 5], -20)])
def test_batches_that_tell_no_more_give_one_ratio(counts, batch_bytes):
    """All alike, or small ones that compress better."""
    traffic, batches = make_session(counts, batch_bytes=batch_bytes, record_ratio=0.5)
    stored = int(batches.size_bytes.sum()) - 61 * len(counts)

    assert measure_compression(traffic, batches) == Compression(round(1e6 * stored / (200 * sum(counts))))


def test_records_of_several_sizes_are_measured_by_their_bytes():
    """Small records come many at a time, large ones alone: by their number a batch's bytes are told wrongly."""
    counts = np.tile([1, 10, 2, 20], 50)
    body_bytes = np.repeat(np.tile([998, 98, 998, 98], 50), counts)
    traffic, batches = make_session(counts, batch_bytes=0, record_ratio=0.0)
    traffic = replace(traffic, body_bytes=body_bytes.astype(np.int32))
    plain = np.add.reduceat(body_bytes + 2, np.cumsum(counts) - counts)
    stored = replace(batches, base_ms=np.cumsum(counts), size_bytes=61 + 100 + plain // 2)

    assert measure_compression(traffic, stored) == Compression(500_000, 100)
    assert measure_compression(traffic.choose(slice(0, len(traffic) - 1)), stored) != Compression(500_000, 100)


def test_batches_that_claim_millions_of_records_take_no_memory():
    """Their arrivals are not kept; a count that is not known is -1."""
    traffic, batches = make_session([1, 2, 5], batch_bytes=80, record_ratio=0.5)
    claimed = replace(batches, record_count=np.array([1, -1, 10**12]))

    assert measure_plain(traffic, claimed).tolist() == [200, -200, 200 * 10**12]


def test_the_ratio_that_a_client_assumes_follows_the_worst_of_its_batches():
    """Kafka's estimate rises at once and falls by 0.005 a batch: one bad batch of fifty keeps it high."""
    even, bad = make_session([10] * 500, batch_bytes=0, record_ratio=0.5), np.arange(500) % 50 == 0
    traffic, batches = even
    uneven = replace(batches, size_bytes=batches.size_bytes + 600 * bad)

    assert estimate_ratio(traffic, replace(batches, codec="none")) == 1
    assert estimate_ratio(*even) == pytest.approx(1.05 * (0.5 + 0.5 * 100 / 500 / 2), rel=0.02)
    assert estimate_ratio(traffic, uneven) > 1.05 * 0.65

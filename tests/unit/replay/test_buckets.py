"""A bucket of keys through all candidates. Oracle: `replay_slowly`, one key after the other by `choose_partition`."""

import random
from collections import Counter
from math import lcm

import numpy as np
import pytest

from pipeline.config.replay import Candidate
from pipeline.partitioners.strategy import choose_partition
from pipeline.replay.keyed.buckets import replay_bucket
from pipeline.replay.keyed.plan import resolve_strategy
from pipeline.replay.keyed.sums import BYTES, NAMED, NO_HASH, RECORDS, TOP_KEY_COUNT, MoveTotals, merge_sums
from tests.unit.replay.recorded_keys import (
    HOUR_MS,
    Traffic,
    hash_columns,
    key_id_of,
    plan_of,
    replay,
    replay_slowly,
    traffic_columns,
    windows_of,
)

STRATEGIES = (
    *("java-builtin", "librdkafka-consistent", "librdkafka-consistent_random", "sarama-hash", "sarama-reference-hash"),
    *("sarama-custom-crc", "kafkajs-legacy", "platformatic", "scala-default", "pulsar-java-string", "pulsar-murmur3"),
)
COUNTS = (1, 5, 12, 16, 24, 97)


def some_traffic(rng, *, key_count=60, window_count=3):
    """Keys of many lengths, the empty one and bytes that are no text among them; some lie on two partitions."""
    keys = [b"", b"\xff\xfe\x80", *(rng.randbytes(rng.randrange(1, 40)) for _ in range(key_count // 2))]
    keys += [f"user-{number}".encode() for number in range(key_count // 2)]
    java = resolve_strategy("java-builtin")
    traffic = []
    for window in range(window_count):
        for key in keys:
            places = {choose_partition(java, key, 12)} | ({rng.randrange(12)} if rng.random() < 0.3 else set())
            if rng.random() < 0.7:
                traffic += [
                    Traffic(window, place, key, rng.randrange(1, 9), rng.randrange(100, 999), rng.randrange(2), 50)
                    for place in places
                ]
    rng.shuffle(traffic)
    return traffic


@pytest.fixture(scope="module")
def replayed():
    traffic = some_traffic(random.Random(11))
    candidates = [
        Candidate(name=f"{name} {count}", partitioner=name, partitions=count) for name in STRATEGIES for count in COUNTS
    ]
    windows = windows_of(2, first=1)
    plan = plan_of(candidates, windows=windows, committed=windows_of(1))
    return plan, traffic, replay(plan, traffic)


def of_candidate(plan, found, name, window):
    """What becomes of the keys in a window."""
    (number,) = [n for n, one in enumerate(plan.topics[0].assignments) if one.candidate == name]
    return found[0, plan.window_starts_ms.index(window * HOUR_MS)].assigned[number]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", STRATEGIES)
def test_keys_lie_and_move_as_one_by_one(replayed, name, count):
    plan, traffic, found = replayed
    for window in (1, 2):
        sums = of_candidate(plan, found, f"{name} {count}", window)
        slow = replay_slowly(name, count, traffic, window, before=window - 1)
        assert +Counter(dict(enumerate(sums.cells[:, RECORDS].tolist()))) == +slow["records"]
        assert +Counter(dict(enumerate(sums.cells[:, BYTES].tolist()))) == +slow["bytes"]
        assert {
            "moved_keys": sums.totals.moved_keys,
            "moved_records": sums.totals.moved_records,
            "moved_bytes": sums.totals.moved_bytes,
            "at_risk_keys": sums.totals.at_risk_keys,
        } == {name: slow[name] for name in ("moved_keys", "moved_records", "moved_bytes", "at_risk_keys")}


def test_a_window_that_only_comes_before_is_not_replayed(replayed):
    plan, _, found = replayed
    assert plan.window_starts_ms[0] == 0
    assert found.keys() == {(0, 1), (0, 2)}


def test_totals_and_heaviest_keys_are_those_of_the_traffic(replayed):
    plan, traffic, found = replayed
    for window in (1, 2):
        told = found[0, window]
        sizes, records = Counter(), Counter()
        for row in traffic:
            if row.window == window:
                sizes[row.key] += row.size_bytes
                records[row.key] += row.record_count
        assert told.keys[:4] == (len(sizes), records.total(), sizes.total(), max(sizes.values()))
        assert told.recorded[NAMED].sum(axis=0).tolist() == [records.total(), sizes.total()]
        heaviest = sorted(sizes, key=lambda key: (-sizes[key], key_id_of(key)))[:TOP_KEY_COUNT]
        assert [key.key_id for key in told.top_keys] == [key_id_of(key)[:16] for key in heaviest]
        assert [key.size_bytes for key in told.top_keys] == [sizes[key] for key in heaviest]
        assert [key.record_count for key in told.top_keys] == [records[key] for key in heaviest]
        java = resolve_strategy("java-builtin")
        (number,) = [n for n, one in enumerate(plan.topics[0].assignments) if one.candidate == "java-builtin 97"]
        assert [key.partitions[number] for key in told.top_keys] == [
            choose_partition(java, key, 97) for key in heaviest
        ]


@pytest.mark.parametrize("new_count", [24, 16, 13])
def test_another_partition_count_moves_the_share_of_keys_that_arithmetic_says(new_count):
    rng = random.Random(12)
    java = resolve_strategy("java-builtin")
    keys = {rng.randbytes(12) for _ in range(20_000)}
    traffic = [Traffic(0, choose_partition(java, key, 12), key, 1, 100) for key in sorted(keys)]
    windows = windows_of(1)
    plan = plan_of([Candidate(name="more", partitioner="java-builtin", partitions=new_count)], windows=windows)
    sums = of_candidate(plan, replay(plan, traffic), "more", 0)
    stay = min(12, new_count) / lcm(12, new_count)
    deviation = (stay * (1 - stay) * len(keys)) ** 0.5
    assert abs(len(keys) * (1 - stay) - sums.totals.moved_keys) < 4 * deviation


def test_a_key_that_stays_is_at_no_risk_and_one_without_hashes_is_told_apart():
    java = resolve_strategy("java-builtin")
    place = choose_partition(java, b"stays", 12)
    traffic = [Traffic(window, place, b"stays", 1, 10) for window in (0, 1)] + [Traffic(1, 3, b"lost", 2, 20)]
    windows = windows_of(2)
    plan = plan_of([Candidate(name="java", partitioner="java-builtin")], windows=windows)
    columns = traffic_columns(traffic, ["orders"], list(plan.window_starts_ms))
    found = merge_sums(replay_bucket(plan, columns, hash_columns([b"stays"]), {}))
    assert [where for where, sums in found.items() if NO_HASH in sums.recorded] == [(0, 1)]
    assert found[0, 1].recorded[NO_HASH][3].tolist() == [2, 20]
    assert of_candidate(plan, found, "java", 1).totals == MoveTotals()


def test_sums_do_not_depend_on_the_order_of_rows(replayed):
    plan, traffic, found = replayed
    again = replay(plan, sorted(traffic, key=lambda row: (row.key, row.partition)))
    assert again.keys() == found.keys()
    for where, sums in found.items():
        other = again[where]
        assert other.keys == sums.keys
        assert np.array_equal(other.recorded[NAMED], sums.recorded[NAMED])
        assert [key[:3] for key in other.top_keys] == [key[:3] for key in sums.top_keys]
        assert other.assigned.keys() == sums.assigned.keys()
        for number, (cells, totals) in sums.assigned.items():
            assert other.assigned[number].totals == totals
            assert np.array_equal(other.assigned[number].cells, cells)

"""Keys with traffic as plain values, and a keyed replay in plain Python: one key after the other, by `choose_partition`."""

import hashlib
from collections import Counter
from dataclasses import dataclass

import numpy as np

from pipeline.errors import InputError
from pipeline.model.window import TimeWindow
from pipeline.partitioners.registry import HASH_COLUMNS
from pipeline.partitioners.strategy import KeyRule, choose_partition
from pipeline.replay.keyed.buckets import replay_bucket
from pipeline.replay.keyed.plan import plan_keys, resolve_strategy
from pipeline.replay.keyed.sums import merge_sums
from tests.oracles.hashes import hash_key

HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Traffic:
    """Records of one key on one partition in one window."""

    window: int
    partition: int
    key: bytes
    record_count: int
    size_bytes: int
    count_error: int = 0
    size_error_bytes: int = 0
    topic: str = "orders"


def windows_of(count, *, first=0):
    return [TimeWindow(number * HOUR_MS, (number + 1) * HOUR_MS) for number in range(first, first + count)]


def key_id_of(key):
    return hashlib.blake2b(key, digest_size=16, key=b"a secret of the tests").hexdigest()


def numbers_of(keys):
    ids = [key_id_of(key) for key in keys]
    return {"key": np.array([int(text[:16], 16) for text in ids], dtype=np.uint64)}


def stored_hash(name, key):
    try:
        return hash_key(name, key)
    except UnicodeDecodeError:
        return -1


def hash_columns(keys):
    columns = {
        column: np.array([stored_hash(name, key) for key in keys], dtype=np.int64)
        for name, column in HASH_COLUMNS.items()
    }
    return numbers_of(keys) | columns | {"is_empty": np.array([not key for key in keys], dtype=np.bool_)}


def traffic_columns(traffic, topics, starts_ms):
    """Columns as a packed payload holds them; windows by their place in the plan."""
    amounts = ("record_count", "size_bytes", "count_error", "size_error_bytes")
    return numbers_of([row.key for row in traffic]) | {
        "topic": np.array([topics.index(row.topic) for row in traffic], dtype=np.uint8),
        "window": np.array([starts_ms.index(row.window * HOUR_MS) for row in traffic], dtype=np.uint8),
        "partition": np.array([row.partition for row in traffic], dtype=np.uint16),
        **{name: np.array([getattr(row, name) for row in traffic], dtype=np.int64) for name in amounts},
    }


def plan_of(candidates, *, windows, committed=(), partition_count=12, topics=("orders",), partitioners=None):
    counts = {(topic, "id"): {window.start_ms: partition_count for window in windows} for topic in topics}
    return plan_keys(
        windows, frozenset({*windows, *committed}), counts, candidates, partitioners=partitioners or {}, bucket_count=1
    )


def replay(plan, traffic):
    """What `replay_bucket` says of all keys as one bucket, by number of the topic and of the window."""
    topics = [topic.topic for topic in plan.topics]
    columns = traffic_columns(traffic, topics, list(plan.window_starts_ms))
    return merge_sums(replay_bucket(plan, columns, hash_columns(sorted({row.key for row in traffic})), {}))


def _choose(strategy, key, partition_count):
    """The partition, or None where the key does not decide or is refused: its records stay."""
    if strategy.rule_of(key) in {KeyRule.KEYLESS, KeyRule.REFUSED}:
        return None
    try:
        return choose_partition(strategy, key, partition_count)
    except InputError:
        return None


def replay_slowly(strategy_name, partition_count, traffic, window, *, before=None):
    """Records per partition and what moves of a topic's traffic in a window, key after key; `before` is the stored window before."""
    strategy = resolve_strategy(strategy_name)
    records, sizes, moved = Counter(), Counter(), Counter()
    moved_keys, at_risk_keys = set(), set()
    for row in traffic:
        if row.window != window:
            continue
        decided = _choose(strategy, row.key, partition_count)
        chosen = row.partition if decided is None else decided
        if chosen < partition_count:
            records[chosen] += row.record_count
            sizes[chosen] += row.size_bytes
        if chosen != row.partition:
            moved_keys.add(row.key)
            moved["records"] += row.record_count
            moved["bytes"] += row.size_bytes
        was = {other.partition for other in traffic if other.window == before and other.key == row.key}
        if decided is not None and was - {chosen}:
            at_risk_keys.add(row.key)
    return {
        "records": records,
        "bytes": sizes,
        "moved_keys": len(moved_keys),
        "moved_records": moved["records"],
        "moved_bytes": moved["bytes"],
        "at_risk_keys": len(at_risk_keys),
    }

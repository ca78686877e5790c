"""Rows of the replay's gold tables from simulated topics, beside what the keyed replay says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.replay.estimates import (
    Loads,
    measure_effective_partitions,
    measure_peak_to_mean,
    of_loads,
    of_range,
)
from pipeline.replay.placements import draw_placements, measure_broker_peak
from pipeline.replay.unit_runs import CELL_BATCHES, CELL_BYTES, CELL_LOG_BYTES, CELL_RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pipeline.replay.simulated_topic import RecordedTopic, SimulatedTopic

    Row = dict[str, Any]

SIMULATED = "simulated"
"""What became of records without a key."""


def partition_rows(simulated: SimulatedTopic, partitioner: str) -> Iterator[Row]:
    """Rows of `gold.replay_results`, as far as a simulation tells them; nothing of keys.

    Args:
        simulated: The topic under a candidate.
        partitioner: The strategy that was followed.
    """
    recorded, count = simulated.recorded, simulated.partition_count
    batches = simulated.batch_counts()
    shares = simulated.shares(CELL_LOG_BYTES, of_brokers=False)
    keeps_leaders = count >= recorded.partition_count
    for partition in range(max(count, recorded.partition_count)):
        is_there = partition < count
        was_there = partition < recorded.partition_count
        yield {
            "partition": partition,
            "partitioner": partitioner,
            "partition_count": count,
            "seed_count": simulated.seed_count,
            "leader_id": recorded.leaders.get(partition, -1) if was_there and keeps_leaders else -1,
            **of_loads("record_count", simulated.records, partition if is_there else None),
            **of_loads("size_bytes", simulated.sizes, partition if is_there else None),
            **(of_range("batch_count", batches[partition]) if is_there else {}),
            "key_count": None,
            "recorded_record_count": int(recorded.records[partition]) if was_there else 0,
            "recorded_size_bytes": int(recorded.sizes[partition]) if was_there else 0,
            **of_loads("log_size_bytes", simulated.log_sizes, partition if is_there else None),
            **(of_range("log_share", shares[partition]) if is_there else {}),
            "recorded_batch_count": int(recorded.batches[partition]) if was_there else 0,
            "recorded_log_size_bytes": int(recorded.log_sizes[partition]) if was_there else 0,
        }


def broker_rows(simulated: SimulatedTopic) -> Iterator[Row]:
    """Rows of `gold.replay_brokers`.

    Args:
        simulated: The topic under a candidate.
    """
    recorded = simulated.recorded
    all_led = all(leader >= 0 for leader in recorded.leaders.values())
    is_known = simulated.partition_count == recorded.partition_count
    totals = (int(recorded.records.sum()), int(recorded.sizes.sum())) if all_led else (None, None)
    brokers, records = simulated.by_broker(CELL_RECORDS, totals[0])
    _, sizes = simulated.by_broker(CELL_BYTES, totals[1])
    _, batches = simulated.by_broker(CELL_BATCHES)
    _, log_sizes = simulated.by_broker(CELL_LOG_BYTES)
    shares = simulated.shares(CELL_BYTES, of_brokers=True)
    log_shares = simulated.shares(CELL_LOG_BYTES, of_brokers=True)
    size_total, log_total = int(recorded.sizes.sum()), sum(recorded.broker_log_sizes.values())
    for number, broker_id in enumerate(brokers):
        led = [partition for partition, leader in recorded.leaders.items() if leader == broker_id]
        led_bytes = int(recorded.sizes[led].sum())
        log_bytes = recorded.broker_log_sizes.get(broker_id, 0)
        yield {
            "broker_id": broker_id,
            "placement": "known" if is_known else "drawn",
            **of_loads("record_count", records, number),
            **of_loads("size_bytes", sizes, number),
            "recorded_record_count": int(recorded.records[led].sum()),
            "recorded_size_bytes": led_bytes,
            **of_range("share", shares[number]),
            "recorded_share": led_bytes / size_total if size_total else None,
            **of_loads("batch_count", batches, number),
            **of_loads("log_size_bytes", log_sizes, number),
            **of_range("log_share", log_shares[number]),
            "recorded_log_size_bytes": log_bytes,
            "recorded_log_share": log_bytes / log_total if log_total else None,
        }


def recorded_columns(recorded: RecordedTopic) -> Row:
    """Columns of `gold.scenario_comparison` about what was recorded."""
    sizes = Loads(recorded.sizes, recorded.sizes, recorded.sizes)
    count = recorded.partition_count
    placements = draw_placements(recorded.leaders, recorded.broker_ids, count, count, seed="")
    return {
        "baseline_partition_count": count,
        "partition_count": count,
        "record_count": int(recorded.records.sum()),
        "size_bytes": int(recorded.sizes.sum()),
        "key_count": 0,
        "keyed_record_count": 0,
        "keyed_size_bytes": 0,
        "keyless_record_count": recorded.keyless_count,
        "baseline_peak_to_mean": measure_peak_to_mean(sizes).value,
        "baseline_effective_partitions": measure_effective_partitions(sizes).value,
        "baseline_broker_peak_to_mean": measure_broker_peak(placements, sizes).value,
        "top_keys": {},
    }


def skew_columns(simulated: SimulatedTopic) -> Row:
    """Columns of `gold.scenario_comparison` about shares, where records without a key were simulated."""
    return {
        "partition_count": simulated.partition_count,
        "keyless_rule": SIMULATED,
        "unknown_record_count": 0,
        **of_range("peak_to_mean", simulated.peak_to_mean(of_brokers=False)),
        **of_range("effective_partitions", simulated.effective_partitions()),
        **of_range("broker_peak_to_mean", simulated.peak_to_mean(of_brokers=True)),
    }


def run_columns(simulated: SimulatedTopic) -> Row:
    """Columns of `gold.scenario_comparison` that only a simulation tells: batches, throughput, latency."""
    sent = simulated.sent_counts()
    log_bytes = simulated.log_sizes
    return {
        "seed_count": simulated.seed_count,
        "replayed_record_count_low": sent.low,
        "replayed_record_count_high": sent.high,
        **of_range("lost_record_count", simulated.lost_counts()),
        "log_size_bytes": int(log_bytes.median.sum()),
        "log_size_bytes_low": int(log_bytes.low.sum()),
        "log_size_bytes_high": int(log_bytes.high.sum()),
        **of_range("records_per_batch", simulated.records_per_batch()),
        **of_range("throughput_records_per_s", simulated.throughput_per_s()),
        **of_range("latency_p50_ms", simulated.latency_ms(0.5)),
        **of_range("latency_p99_ms", simulated.latency_ms(0.99)),
    }


def batch_columns(simulated: SimulatedTopic) -> dict[int, Row]:
    """By partition, the columns of `gold.replay_results` that only a simulation tells; keys say the rest exactly."""
    told = ("batch_count", "log_size_bytes", "log_share", "recorded_batch_count", "recorded_log_size_bytes")
    return {row["partition"]: _only(row, told) for row in partition_rows(simulated, "")}


def broker_batch_columns(simulated: SimulatedTopic) -> dict[int, Row]:
    """The same of `gold.replay_brokers`, by broker."""
    told = ("batch_count", "log_size_bytes", "log_share", "recorded_log_size_bytes", "recorded_log_share")
    return {row["broker_id"]: _only(row, told) for row in broker_rows(simulated)}


def records_per_batch(records: NDArray[Any], batches: NDArray[Any]) -> float | None:
    """As recorded; None without a batch."""
    return float(records.sum() / batches.sum()) if batches.sum() else None


def _only(row: Row, names: tuple[str, ...]) -> Row:
    return {name: value for name, value in row.items() if name.removesuffix("_low").removesuffix("_high") in names}

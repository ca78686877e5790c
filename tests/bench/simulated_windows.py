"""Windows of traffic whose balance is known: every kind of placement, balanced or with one broker planted hot.

A window is 60 slots of a minute. What is placed independently differs: records (each a batch of its own), batches of
uneven size, sticky runs of 16 small batches from 8 producers, or equal keys. Keys keep their partitions over a series of
windows, everything else is drawn anew.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.measures.broker_share import measure_broker_columns
from pipeline.measures.window_loads import WindowLoads
from pipeline.model.verdict import BrokerLoad
from tests.loads import rows_of

PLACEMENTS = ("records", "batches", "sticky runs", "1,000 keys", "100,000 keys")
SLOTS, HOUR_MS = 60, 3_600_000
RECORD_BYTES = 512.0
RECORDS_PER_BATCH, SIZE_CV = 16, 1.3
BATCHES_PER_RUN, RECORDS_PER_SMALL_BATCH, PRODUCERS = 16, 2, 8
FEW_RUNS = 4_000


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What a series of windows is drawn from; `planted` is the true share ratio of broker 0, 1 for balanced."""

    partition_count: int
    broker_count: int
    record_count: int
    placement: str
    planted: float = 1.0

    @property
    def leaders(self):
        return np.arange(self.partition_count) % self.broker_count

    @property
    def chances(self):
        """Expected part of every partition; that of keys has their luck besides."""
        brokers, own = self.broker_count, self.leaders == 0
        ratio = np.where(own, self.planted, (brokers - self.planted) / (brokers - 1))
        return ratio / ratio.sum()

    @property
    def key_count(self):
        return int(self.placement.split()[0].replace(",", "")) if self.placement.endswith("keys") else 0


@dataclass(frozen=True, kw_only=True)
class Window:
    """Bytes and squared batch bytes by slot and partition."""

    size_bytes: np.ndarray
    squared: np.ndarray


def draw_series(traffic, window_count, rng):
    """Windows one after another; yields each with the effective number of its keys (0 without keys)."""
    chances = traffic.chances
    if traffic.key_count:
        of_key = rng.integers(0, traffic.partition_count, traffic.key_count)
        luck = np.bincount(of_key, minlength=traffic.partition_count) / traffic.key_count
        chances = luck * chances / (luck * chances).sum()
        if traffic.planted != 1.0:  # the planted ratio is meant to be the whole truth of the brokers
            by_broker = np.bincount(traffic.leaders, chances)
            wanted = np.bincount(traffic.leaders, traffic.chances)
            chances = chances * (wanted / by_broker)[traffic.leaders]
    for _ in range(window_count):
        yield _draw(traffic, chances, rng)


def _draw(traffic, chances, rng):
    slots = rng.multinomial(traffic.record_count, np.full(SLOTS, 1 / SLOTS))
    if traffic.placement == "batches":
        counts = rng.multinomial(-(-slots // RECORDS_PER_BATCH), chances)
        mean = RECORDS_PER_BATCH * RECORD_BYTES
        shape = 1 / SIZE_CV**2
        return Window(
            size_bytes=rng.gamma(np.maximum(counts * shape, 1e-300), mean / shape) * (counts > 0),
            squared=counts * mean**2 * (1 + SIZE_CV**2),
        )
    if traffic.placement == "sticky runs":
        return _draw_runs(traffic, chances, rng)
    counts = rng.multinomial(slots, chances)
    return Window(size_bytes=counts * RECORD_BYTES, squared=counts * RECORD_BYTES**2)


def _draw_runs(traffic, chances, rng):
    """Every producer fills one partition after another, all through the hour: at low volume a run lasts many minutes."""
    batch = RECORDS_PER_SMALL_BATCH * RECORD_BYTES
    run_count = max(1, traffic.record_count // (BATCHES_PER_RUN * RECORDS_PER_SMALL_BATCH))
    if run_count > FEW_RUNS:
        runs = rng.multinomial(rng.multinomial(run_count, np.full(SLOTS, 1 / SLOTS)), chances)
        batches = runs * BATCHES_PER_RUN
    else:
        batches = np.zeros((SLOTS, traffic.partition_count))
        for producer in range(min(PRODUCERS, run_count)):
            own = run_count // PRODUCERS + (producer < run_count % PRODUCERS)
            partition = np.repeat(rng.choice(traffic.partition_count, own, p=chances), BATCHES_PER_RUN)
            at = (np.arange(own * BATCHES_PER_RUN) + rng.random()) / (own * BATCHES_PER_RUN)
            np.add.at(batches, (np.minimum((at * SLOTS).astype(int), SLOTS - 1), partition), 1)
    return Window(size_bytes=batches * batch, squared=batches * batch**2)


def measure(traffic, window, start_ms):
    """The window as the health gate sees it: through the same measures as in the pipeline."""
    partitions, leaders = traffic.partition_count, traffic.leaders
    size = window.size_bytes.sum(axis=0)
    records, keys = size.sum() / RECORD_BYTES, traffic.key_count
    is_keyed = np.full(partitions, 1.0 if keys else np.nan)
    loads = WindowLoads(
        topics=(("traffic", ""),),
        topic=np.zeros(partitions, np.int64),
        partition=np.arange(partitions, dtype=np.int64),
        leader_id=leaders.astype(np.int64),
        size_bytes=size.astype(np.int64),
        record_count=(size / RECORD_BYTES).astype(np.int64),
        batch_count=np.ones(partitions, np.int64),
        batch_bytes_squared=window.squared.sum(axis=0).astype(np.float64),
        is_leader=np.ones(partitions, np.bool_),
        heavy_ratio=is_keyed * 0.0,
        light_ratio=is_keyed,
        # equal keys whose records are drawn: N records of K keys
        light_unit_count=np.array([records * keys / (records + keys) if keys else np.nan]),
    )
    by_broker = np.zeros((SLOTS, traffic.broker_count))
    np.add.at(by_broker.T, leaders, window.size_bytes.T)
    squared = window.squared.sum(axis=1) / traffic.broker_count
    slots = [
        (slot, broker, by_broker[slot, broker], squared[slot])
        for slot in range(SLOTS)
        for broker in range(traffic.broker_count)
    ]
    rows = rows_of(measure_broker_columns(loads, {}, range(traffic.broker_count), slots))
    return [
        BrokerLoad(
            window_start_ms=start_ms,
            broker_id=row.broker_id,
            size_bytes=row.size_bytes,
            record_count=row.record_count,
            share=row.share,
            expected_share=row.expected_share,
            share_ratio=row.share_ratio,
            effective_unit_count=row.effective_unit_count,
            ratio_without_luck=row.ratio_without_luck,
        )
        for row in rows
    ]

"""Windows of traffic whose truth is known: what each broker carries in the long run, given the keys and their places.

A cluster is drawn from a wide law: brokers of unequal capacity, several topics, partitions no multiple of brokers, keys of
equal weight or Zipf's, rates that follow the day, each topic at its own hour, traffic in bursts. Leaders are given out as
Kafka does, in turn from a random broker on, a broker of twice the capacity twice a round. So few clusters are even, and
none is even by construction. What is placed independently differs by topic: records, batches of uneven size, sticky runs of
16 small batches from 8 producers, bursts of which all batches go to one partition, records by key, sessions by key.

Keys and leaders stay over a series of windows, everything else is drawn anew.
"""

from dataclasses import dataclass, replace

import numpy as np

from pipeline.measures.broker_share import measure_broker_columns
from pipeline.measures.window_loads import WindowLoads
from pipeline.model.verdict import BrokerLoad
from tests.loads import rows_of

SLOTS, HOUR_MS, DAY_HOURS = 60, 3_600_000, 24
RECORD_BYTES, RECORD_CV = 512.0, 0.8
PRODUCERS, FEW_RUNS = 8, 4_000
MEGABYTE = 1e6


@dataclass(frozen=True, kw_only=True)
class Placement:
    """What is placed independently: a unit of so many batches, of so many records each; `unit_cv` of its batches."""

    name: str
    records_per_batch: int
    batches_per_unit: int = 1
    unit_cv: float = 0.0
    is_keyed: bool = False
    lasts: bool = False  # a unit is sent over time, not at once

    @property
    def records_per_unit(self):
        return self.records_per_batch * self.batches_per_unit

    @property
    def size_cv(self):
        """Of a unit's bytes."""
        return np.hypot(self.unit_cv, RECORD_CV / np.sqrt(self.records_per_unit))


PLACEMENTS = (
    Placement(name="records", records_per_batch=1),
    Placement(name="batches", records_per_batch=16, unit_cv=1.3),
    Placement(name="sticky runs", records_per_batch=2, batches_per_unit=16, lasts=True),
    Placement(name="bursts", records_per_batch=16, batches_per_unit=20, unit_cv=1.3),
    Placement(name="keys", records_per_batch=1, is_keyed=True),
    Placement(name="keys in sessions", records_per_batch=2, batches_per_unit=10, is_keyed=True),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Topic:
    """`records` an hour, over the day; `chances` is the long-run part of each partition, its keys' luck included."""

    placement: Placement
    leaders: np.ndarray
    chances: np.ndarray
    records: float
    peak_hour: int = 0

    def rate(self, hour, swing):
        return self.records * (1 + swing * np.cos(2 * np.pi * (hour - self.peak_hour) / DAY_HOURS))


@dataclass(frozen=True, kw_only=True, eq=False)
class Cluster:
    """What a series of windows is drawn from; `swing` of the day (0 for none), spread of the slots' rates (0 for even)."""

    capacities: np.ndarray
    topics: tuple[Topic, ...]
    swing: float = 0.0
    slot_spread: float = 0.0

    @property
    def fair(self):
        return self.capacities / self.capacities.sum()

    @property
    def bytes_per_hour(self):
        return RECORD_BYTES * sum(topic.records for topic in self.topics)

    def share(self, hour=None):
        """Long-run share of each broker, at an hour or over the whole day."""
        carried = np.zeros(len(self.capacities))
        for topic in self.topics:
            rate = topic.records if hour is None else topic.rate(hour, self.swing)
            carried += np.bincount(topic.leaders, topic.chances * rate, len(carried))
        return carried / carried.sum()

    def ratio(self, hour=None):
        """Long-run share over fair share."""
        return self.share(hour) / self.fair

    def scatter(self, hour):
        """By how much chance moves each broker's ratio from one window at that hour to another: a standard deviation."""
        total, variance = 0.0, np.zeros(len(self.capacities))
        for topic in self.topics:
            rate, unit = topic.rate(hour, self.swing), topic.placement.records_per_unit
            squares = rate * unit * (1 + topic.placement.size_cv**2)
            variance += np.bincount(topic.leaders, topic.chances * squares, len(variance))
            total += rate
        share = self.share(hour)
        return np.sqrt(variance * (1 - 2 * share) + share**2 * variance.sum()) / total / self.fair

    def planted(self, ratio):
        """The same, with broker 0 at so many times its share at every hour; the others keep their proportions."""
        share, wanted = self.share(), ratio * self.fair[0]
        factors = np.where(np.arange(len(share)) == 0, wanted / share[0], (1 - wanted) / (1 - share[0]))
        moved = []
        for topic in self.topics:
            chances = topic.chances * factors[topic.leaders]
            whole = chances.sum()
            moved.append(replace(topic, chances=chances / whole, records=topic.records * whole, peak_hour=0))
        return replace(self, topics=tuple(moved))


def draw_cluster(rng, *, brokers=None, placement=None):
    """One cluster of the law."""
    count = brokers or int(rng.choice([3, 4, 5, 6, 9, 12, 30]))
    uneven = rng.random() < 1 / 3
    capacities = rng.choice([1.0, 1.0, 2.0], count) if uneven else np.ones(count)
    turn = np.repeat(np.arange(count), capacities.astype(int))
    topic_count = int(rng.choice([1, 1, 2, 4, 8]))
    records = 10 ** rng.uniform(3, 8) * (np.arange(1, topic_count + 1) ** -1.0)
    topics = tuple(_draw_topic(rng, rng.permutation(turn), size, placement) for size in records)
    return Cluster(
        capacities=capacities,
        topics=topics,
        swing=float(rng.choice([0.0, 0.0, 0.8])),
        slot_spread=float(rng.choice([0.0, 1.0])),
    )


def _draw_topic(rng, turn, records, placement):
    placement = placement or PLACEMENTS[rng.integers(len(PLACEMENTS))]
    partitions = max(len(turn), int(rng.choice([3, 8, 10, 16, 24, 50, 100, 200])))
    leaders = turn[(np.arange(partitions) + rng.integers(len(turn))) % len(turn)]
    chances = np.full(partitions, 1 / partitions)
    if placement.is_keyed:
        keys = round(10 ** rng.uniform(2.5, 5.5))
        weights = np.arange(1, keys + 1) ** -rng.choice([0.0, 0.6, 1.0, 1.2])
        chances = np.bincount(rng.integers(0, partitions, keys), weights / weights.sum(), partitions)
    return Topic(
        placement=placement, leaders=leaders, chances=chances, records=float(records), peak_hour=int(rng.integers(24))
    )


@dataclass(frozen=True, kw_only=True)
class Window:
    """By topic: bytes and squared batch bytes by slot and partition."""

    size_bytes: list[np.ndarray]
    squared: list[np.ndarray]


def draw_series(cluster, window_count, rng, first_hour=0):
    """Windows of an hour, one after another."""
    for hour in range(first_hour, first_hour + window_count):
        drawn = [
            _draw(topic, topic.rate(hour, cluster.swing), _draw_slots(cluster, rng), rng) for topic in cluster.topics
        ]
        yield Window(size_bytes=[size for size, _ in drawn], squared=[squared for _, squared in drawn])


def _draw_slots(cluster, rng):
    """Parts of the hour's traffic by slot; where it comes in bursts some slots have ten times what others have."""
    weights = np.exp(rng.normal(0, cluster.slot_spread, SLOTS))
    return weights / weights.sum()


def _draw(topic, records, slots, rng):
    """Bytes and squared batch bytes of one topic, each of shape (slots, partitions)."""
    placement = topic.placement
    units = records / placement.records_per_unit
    if placement.lasts and units <= FEW_RUNS:
        batches = _draw_runs(topic, max(1, round(units)), slots, rng)
    else:
        counts = rng.poisson(np.outer(slots * units, topic.chances))
        batches = counts * float(placement.batches_per_unit)
        if placement.unit_cv and placement.batches_per_unit > 1:
            batches = np.ceil(_spread(counts, placement.batches_per_unit, placement.unit_cv, rng))
    batch = placement.records_per_batch * RECORD_BYTES
    own_cv = placement.unit_cv if placement.batches_per_unit == 1 else 0.0
    cv = np.hypot(own_cv, RECORD_CV / np.sqrt(placement.records_per_batch))
    return _spread(batches, batch, cv, rng), batches * batch**2 * (1 + cv**2)


def _spread(counts, mean, cv, rng):
    """Sums of so many positive numbers of that mean and deviation."""
    shape = 1 / cv**2
    return rng.gamma(np.maximum(counts * shape, 1e-300), mean / shape) * (counts > 0)


def _draw_runs(topic, run_count, slots, rng):
    """Batches where every producer fills one partition after another, all through the hour."""
    each = topic.placement.batches_per_unit
    batches, ends = np.zeros((SLOTS, len(topic.chances))), np.cumsum(slots)
    for producer in range(min(PRODUCERS, run_count)):
        own = run_count // PRODUCERS + (producer < run_count % PRODUCERS)
        partition = np.repeat(rng.choice(len(topic.chances), own, p=topic.chances), each)
        at = (np.arange(own * each) + rng.random()) / (own * each)
        np.add.at(batches, (np.minimum(np.searchsorted(ends, at), SLOTS - 1), partition), 1)
    return batches


def measure(cluster, window, start_ms):
    """The window as the health gate sees it: through the same measures as in the pipeline."""
    topics, brokers = cluster.topics, len(cluster.capacities)
    sizes = np.concatenate([size.sum(axis=0) for size in window.size_bytes])
    leaders = np.concatenate([topic.leaders for topic in topics])
    count, unknown = len(sizes), np.full(len(sizes), np.nan)
    loads = WindowLoads(
        topics=tuple((f"topic-{number}", "") for number in range(len(topics))),
        topic=np.repeat(np.arange(len(topics)), [len(topic.leaders) for topic in topics]),
        partition=np.concatenate([np.arange(len(topic.leaders)) for topic in topics]),
        leader_id=leaders.astype(np.int64),
        size_bytes=sizes.astype(np.int64),
        record_count=(sizes / RECORD_BYTES).astype(np.int64),
        batch_count=np.ones(count, np.int64),
        batch_bytes_squared=np.concatenate([squared.sum(axis=0) for squared in window.squared]),
        is_leader=np.ones(count, np.bool_),
        heavy_ratio=unknown,  # keys decide what a mail names as the cause, not whether a broker is above
        light_ratio=unknown,
        light_unit_count=np.full(len(topics), np.nan),
    )
    by_slot = np.concatenate([size.T for size in window.size_bytes])
    carried = np.zeros((brokers, SLOTS))
    np.add.at(carried, leaders, by_slot)
    squared = sum(of_topic.sum(axis=1) for of_topic in window.squared) / brokers
    slots = [
        (slot, broker, carried[broker, slot], squared[slot])
        for slot in range(SLOTS)
        for broker in range(brokers)
        if squared[slot] > 0
    ]
    capacities = dict(enumerate(cluster.capacities.tolist()))
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
        for row in rows_of(measure_broker_columns(loads, capacities, range(brokers), slots))
    ]

"""`traffic` of a producer in a scenario file: when records come, how large, where to; files of recorded arrivals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import Field, model_validator

from pipeline.arrays import Ints
from pipeline.codec.records.arrival_layout import measure_field_bytes
from pipeline.config.section import Problems, WrongValuesError
from pipeline.errors import ConfigError
from pipeline.model.window import LATEST_MS
from pipeline.partitioners.assignment import assign_partitions
from pipeline.partitioners.registry import find_strategy
from pipeline.partitioners.strategy import choose_partition
from pipeline.simulator.clients.client import MS, PLACEMENTS, SECOND
from pipeline.simulator.distributions import Distribution
from pipeline.simulator.engine.batches import FIXED_BODY_BYTES
from pipeline.simulator.scenario import scenario
from pipeline.simulator.scenario.measured import MEASURED_PERF_TEST_OVERSLEEP
from pipeline.simulator.scenario.quantities import ExistingFile, Quantity, QuantityS, ScenarioPart, Seconds, Share


def read_recorded(path: Path, topic: scenario.Topic, strategy: str) -> scenario.Recorded:
    """Reads a CSV or Parquet file in the order of at_ms; the strategy, by name, places keys. `ConfigError`."""
    table = _read_table(path)
    at_ms = _numbers(table, "at_ms", path, np.float64)
    value_bytes = _numbers(table, "value_bytes", path, np.int64)
    if not len(at_ms):
        raise ConfigError(f"{path} has no row")
    order = np.argsort(at_ms, kind="stable")
    partition, key_bytes = _place_rows(table, path, topic, strategy)
    body_bytes = FIXED_BODY_BYTES + measure_field_bytes(value_bytes) + measure_field_bytes(key_bytes) + 1
    return scenario.Recorded(
        due_ns=np.rint(at_ms[order] * MS).astype(np.int64),
        body_bytes=body_bytes[order],
        partition=partition[order],
        target=np.zeros(len(order), np.int64),
    )


def _read_table(path: Path) -> pa.Table:
    try:
        if path.suffix == ".parquet":
            return pq.read_table(path)
        options = pa.csv.ConvertOptions(column_types={"key": pa.string()}, strings_can_be_null=True)
        return pa.csv.read_csv(path, convert_options=options)
    except (pa.ArrowInvalid, OSError) as error:
        raise ConfigError(f"{path}: {error}") from error


def _numbers(table: pa.Table, name: str, path: Path, kind: type[np.float64 | np.int64]) -> NDArray[Any]:
    if name not in table.column_names:
        raise ConfigError(f"{path}: column {name} is missing; found {', '.join(table.column_names)}")
    column = table.column(name)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)) or column.null_count:
        raise ConfigError(f"{path}: column {name} holds {column.type}; expected numbers without gaps")
    numbers: NDArray[Any] = column.to_numpy().astype(kind)
    if len(numbers) and not (numbers.min() >= 0 and numbers.max() <= LATEST_MS):  # nor is NaN
        raise ConfigError(f"{path}: column {name} has {numbers.min()} to {numbers.max()}; expected 0 to {LATEST_MS}")
    return numbers


def _place_rows(table: pa.Table, path: Path, topic: scenario.Topic, strategy: str) -> tuple[Ints, Ints]:
    count = len(topic.leaders)
    partition = np.full(table.num_rows, scenario.KEYLESS, np.int64)
    key_bytes = np.full(table.num_rows, -1, np.int64)
    if "key" in table.column_names:
        key = table.column("key").cast(pa.large_binary()).combine_chunks()
        is_keyed = key.is_valid().to_numpy(zero_copy_only=False)
        placed = assign_partitions(find_strategy(strategy), key, count)
        partition[is_keyed] = np.maximum(placed[is_keyed], scenario.KEYLESS)
        key_bytes[:] = pc.fill_null(pc.binary_length(key), -1).to_numpy()
    if "partition" in table.column_names:
        named = table.column("partition").fill_null(-1).to_numpy().astype(np.int64)
        if len(named) and (named.max() >= count or named.min() < -1):
            raise ConfigError(f"{path}: column partition reaches {named.max()}; {topic.name} has {count}")
        partition[named >= 0] = named[named >= 0]
    return partition, key_bytes


_WEIGHTS = 1_000_000_000
_MOST_RATE_PER_S = 100_000_000
Rate = Annotated[float, Field(ge=0.000001, le=_MOST_RATE_PER_S)]


def _spread(records_per_s: float, *, is_random: bool) -> Distribution:
    gap_ns = max(1, round(SECOND / records_per_s))
    return Distribution.exponential(gap_ns) if is_random else Distribution.constant(gap_ns)


class PerfTestArrivals(ScenarioPart):
    kind: Literal["perf_test"]
    """as of kafka-producer-perf-test --throughput: in bursts; 0 records_per_s is no throttle"""
    records_per_s: int = Field(ge=0, le=_MOST_RATE_PER_S)

    def build(self) -> scenario.Arrivals:
        return scenario.PerfTest(self.records_per_s, MEASURED_PERF_TEST_OVERSLEEP)


class SteadyArrivals(ScenarioPart):
    kind: Literal["constant", "poisson"]
    """evenly spaced, or a Poisson process"""
    records_per_s: Rate

    def build(self) -> scenario.Arrivals:
        return scenario.Gaps(_spread(self.records_per_s, is_random=self.kind == "poisson"))


class OnOffArrivals(ScenarioPart):
    kind: Literal["on_off"]
    """records come while on, and not while off"""
    records_per_s: Rate
    on_s: QuantityS
    off_s: QuantityS
    spacing: Literal["even", "poisson"] = "even"

    def build(self) -> scenario.Arrivals:
        return scenario.OnOff(_spread(self.records_per_s, is_random=self.spacing == "poisson"), self.on_s, self.off_s)


class RecordedArrivals(ScenarioPart):
    kind: Literal["recorded"]
    file: ExistingFile
    """.parquet or .csv with columns at_ms, value_bytes; where there, key and partition"""


class KeysSection(ScenarioPart):
    share: Share = 1
    """of the records"""
    count: int = Field(ge=1, le=1_000_000)
    """different keys"""
    bytes: int = Field(ge=1, le=10_000)
    """length of each"""
    zipf_exponent: float = Field(0, ge=0, le=10)
    """how much more frequent the first ones are; 0: all alike"""

    @model_validator(mode="after")
    def _distinct(self) -> "KeysSection":
        least = len(str(self.count - 1))
        if self.bytes < least:
            raise WrongValuesError((("bytes",), f"found {self.bytes}; expected {least} or more for {self.count} keys"))
        return self


class ExplicitSection(ScenarioPart):
    share: Share
    """of the records"""
    partitions: tuple[Annotated[int, Field(ge=0)], ...] = Field(min_length=1)


class TrafficSection(ScenarioPart):
    topic: str | None = None
    """the only topic where not given; or, by weight,"""
    topics: dict[str, Annotated[float, Field(ge=0.000001, allow_inf_nan=False)]] | None = Field(None, min_length=1)
    """such as {orders: 3, bills: 1}"""
    arrivals: Annotated[
        PerfTestArrivals | SteadyArrivals | OnOffArrivals | RecordedArrivals, Field(discriminator="kind")
    ]
    """one of"""
    records: int | None = Field(None, ge=1, lt=2**63)
    """the end: after this many records, or"""
    duration_s: Annotated[Seconds, Field(ge=1e-9)] | None = None
    """after this long"""
    start_s: Seconds = 0
    value_bytes: Quantity | None = None
    keys: KeysSection | None = None
    explicit: ExplicitSection | None = None
    threads: int = Field(1, ge=1, le=10_000)
    """how many sending threads alike"""

    @model_validator(mode="after")
    def _fits(self) -> "TrafficSection":
        problems = Problems()
        if self.topic is not None and self.topics is not None:
            problems.found.append((("topics",), "topic and topics; expected one of them"))
        if isinstance(self.arrivals, RecordedArrivals):
            given = self.model_fields_set - {"topic", "arrivals", "start_s"}
            problems.found += [((name,), "not with recorded arrivals: the recording says it") for name in given]
        else:
            if self.records is None and self.duration_s is None:
                problems.found.append(((), "key records or duration_s is missing: traffic needs an end"))
            if self.value_bytes is None:
                problems.found.append(((), "key value_bytes is missing"))
        if self.keys and self.explicit and self.keys.share + self.explicit.share > 1 + 1e-9:
            problem = "shares of keyed and explicit records add up to more than 1"
            problems.found.append((("explicit",), problem))
        problems.check()
        return self

    def build(self, topics: Sequence[scenario.Topic], strategy: str) -> tuple[scenario.Traffic, ...]:
        """The traffic of each thread; the producer's strategy, by name, places keys, else `WrongValuesError`."""
        weights = self._weigh_topics(topics)
        start_ns = round(self.start_s * SECOND)
        if isinstance(self.arrivals, RecordedArrivals):
            [topic] = weights
            problems = Problems()
            with problems.at("arrivals", "file"):
                recorded = read_recorded(self.arrivals.file, topics[topic], strategy)
            problems.check()
            return (scenario.Traffic(recorded, targets=(scenario.Target(topic),), start_ns=start_ns),)
        traffic = scenario.Traffic(
            arrivals=self.arrivals.build(),
            value_bytes=self.value_bytes or Distribution(),
            targets=self._make_targets(weights, topics, strategy),
            record_count=self.records or 0,
            start_ns=start_ns,
            end_ns=start_ns + round(self.duration_s * SECOND) if self.duration_s else 0,
        )
        return (traffic,) * self.threads

    def _weigh_topics(self, topics: Sequence[scenario.Topic]) -> dict[int, float]:
        index_of = {topic.name: number for number, topic in enumerate(topics)}
        if self.topics is not None:
            return {index_of[name]: weight for name, weight in self.topics.items()}
        if self.topic is None and len(topics) > 1:
            raise WrongValuesError(((), "key topic is missing: there are several"))
        return {0 if self.topic is None else index_of[self.topic]: 1.0}

    def _make_targets(
        self, weights: Mapping[int, float], topics: Sequence[scenario.Topic], strategy: str
    ) -> tuple[scenario.Target, ...]:
        keyed_share = self.keys.share if self.keys else 0.0
        explicit_share = self.explicit.share if self.explicit else 0.0
        total = math.fsum(weights.values())
        parts: list[tuple[float, scenario.Target]] = []
        for topic, weight in weights.items():
            part, count = weight / total, len(topics[topic].leaders)
            # `KEYLESS` where a partitioner draws; a strategy that hashes a missing key names a partition
            partition = None if strategy in PLACEMENTS else choose_partition(find_strategy(strategy), None, count)
            keyless = scenario.Target(topic, partition=scenario.KEYLESS if partition is None else partition)
            parts.append((part * (1 - keyed_share - explicit_share), keyless))
            if self.keys and keyed_share:
                keyed = _target_keys(self.keys, topic, count, strategy)
                parts += [(part * keyed_share * share, target) for share, target in keyed]
            if self.explicit and explicit_share:
                explicit = _target_explicit(self.explicit, topic, count)
                parts += [(part * explicit_share * share, target) for share, target in explicit]
        kept = [(share, target) for share, target in parts if share > 1e-12]
        if len(kept) == 1:
            return (kept[0][1],)
        return tuple(replace(target, weight=max(1, round(share * _WEIGHTS))) for share, target in kept)


def _target_explicit(explicit: ExplicitSection, topic: int, count: int) -> list[tuple[float, scenario.Target]]:
    each = 1 / len(explicit.partitions)
    outside = [number for number, partition in enumerate(explicit.partitions) if partition >= count]
    if outside:
        problems = (f"found {explicit.partitions[n]}; expected a partition from 0 to {count - 1}" for n in outside)
        at = (("explicit", "partitions", number) for number in outside)
        raise WrongValuesError(*zip(at, problems, strict=True))
    return [(each, scenario.Target(topic, partition=partition, is_explicit=True)) for partition in explicit.partitions]


def _target_keys(keys: KeysSection, topic: int, count: int, strategy: str) -> list[tuple[float, scenario.Target]]:
    """The share of each partition under a Zipf distribution of keys: decimal numbers, filled up with zeros."""
    column = pa.array([b"%0*d" % (keys.bytes, rank) for rank in range(keys.count)], pa.large_binary())
    partitions = np.asarray(assign_partitions(find_strategy(strategy), column, count))
    if (partitions < 0).any():  # the strategy looks at no key: all are placed like records without one
        return [(1.0, scenario.Target(topic, partition=scenario.KEYLESS, key_bytes=keys.bytes))]
    popularity = np.arange(1, keys.count + 1, dtype=np.float64) ** -keys.zipf_exponent
    shares = np.bincount(partitions, popularity, minlength=count) / popularity.sum()
    used = np.flatnonzero(shares > 0).tolist()
    return [(float(shares[p]), scenario.Target(topic, partition=p, key_bytes=keys.bytes)) for p in used]

"""`cluster` and `topics` of a scenario file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from pipeline.simulator.clients.client import MS
from pipeline.simulator.scenario.distribution import PPM, ZERO, Distribution, Steps
from pipeline.simulator.scenario.measured import MEASURED_OVERSLEEP, MEASURED_SERVICE
from pipeline.simulator.scenario.quantities import parse_distribution, parse_ms, parse_seconds, parse_steps_ms
from pipeline.simulator.scenario.scenario import Broker, ErrorWindow, Service, Topic
from pipeline.simulator.scenario.yaml_entries import Entry, gather_each

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BROKER_KEYS = ("capacity", "delay_ms", "service", "handlers", "replica_wait_ms", "quota_bytes_per_s", "errors")
"""Besides `id`."""
_MOST_BROKERS = 1_000
_MOST_PARTITIONS = 100_000


@dataclass(frozen=True)
class BrokerSection:
    """A broker as written: a variant may replace single keys.

    Attributes:
        place: Where it stands.
        broker_id: Kafka's.
        keys: The others.
    """

    place: Entry
    broker_id: int
    keys: Mapping[str, Entry]

    def with_keys(self, keys: Mapping[str, Entry]) -> BrokerSection:
        """The broker with some keys replaced."""
        return replace(self, keys={**self.keys, **keys})

    @property
    def capacity(self) -> float:
        """How fast it is, relative to the others: service times are divided by it, its fair share grows with it."""
        entry = self.keys.get("capacity")
        return 1.0 if entry is None else entry.number(least=0.001, most=1_000)

    def build(self) -> Broker:
        """The broker.

        Raises:
            ConfigError: A value is impossible.
        """
        keys = self.keys
        delay = parse_steps_ms(keys["delay_ms"]) if "delay_ms" in keys else Steps()
        service = _parse_service(keys["service"]) if "service" in keys else MEASURED_SERVICE
        return Broker(
            broker_id=self.broker_id,
            service=scale_service(service, self.capacity),
            handler_count=keys["handlers"].whole() if "handlers" in keys else 0,
            delay_ns=delay,
            oversleep_ns=MEASURED_OVERSLEEP if any(delay.values) else ZERO,
            replica_wait_ns=parse_distribution(keys["replica_wait_ms"], MS) if "replica_wait_ms" in keys else ZERO,
            quota_bytes_per_s=keys["quota_bytes_per_s"].whole(least=1) if "quota_bytes_per_s" in keys else 0,
            errors=_parse_errors(keys["errors"]) if "errors" in keys else (),
        )


def parse_brokers(entry: Entry) -> tuple[BrokerSection, ...]:
    """The brokers: a list, or how many with ids from 0.

    Raises:
        ConfigError: A key, a value or an id that cannot be.
    """
    if not entry.is_list:
        count = entry.whole(least=1, most=_MOST_BROKERS)
        return tuple(BrokerSection(entry, broker_id, {}) for broker_id in range(count))
    brokers = gather_each(entry.items(), parse_broker)
    seen: dict[int, BrokerSection] = {}
    for broker in brokers:
        if broker.broker_id in seen:
            raise broker.place.error(
                f"broker {broker.broker_id} twice; first in line {seen[broker.broker_id].place.line}"
            )
        seen[broker.broker_id] = broker
    if not brokers:
        raise entry.error("no broker; expected at least one")
    return tuple(brokers)


def parse_broker(entry: Entry) -> BrokerSection:
    """One broker, checked key by key.

    Raises:
        ConfigError: A key or a value that cannot be.
    """
    keys = entry.mapping(known=BROKER_KEYS, needed=("id",))
    broker = BrokerSection(entry, keys.pop("id").whole(most=2**31 - 1), keys)
    broker.build()
    return broker


def parse_topics(entry: Entry, broker_ids: Sequence[int]) -> tuple[Topic, ...]:
    """The topics.

    Args:
        entry: The list.
        broker_ids: Of the scenario, in their order.

    Raises:
        ConfigError: A key or a value that cannot be, or a leader that is no broker.
    """
    items = entry.items()
    topics = gather_each(items, lambda item: _parse_topic(item, broker_ids))
    topics = _lead_in_turn(items, topics, len(broker_ids))
    if not topics:
        raise entry.error("no topic; expected at least one")
    for place, topic in enumerate(topics):
        if topic.name in (other.name for other in topics[:place]):
            raise entry.items()[place].error(f"topic {topic.name} twice")
    return tuple(topics)


def check_every_broker_leads(brokers: Sequence[BrokerSection], topics: Sequence[Topic]) -> None:
    """Checks that no broker is without partitions.

    Raises:
        ConfigError: One is.
    """
    leading = {leader for topic in topics for leader in topic.leaders}

    def check(numbered: tuple[int, BrokerSection]) -> None:
        place, broker = numbered
        if place not in leading:
            raise broker.place.error(
                f"broker {broker.broker_id} leads no partition; expected every broker to lead one:"
                " give it one in `leaders` of a topic, raise `partitions`, or leave the broker out"
            )

    gather_each(list(enumerate(brokers)), check)


def _parse_topic(entry: Entry, broker_ids: Sequence[int]) -> Topic:
    keys = entry.mapping(known=("name", "partitions", "leaders", "metadata_order"), needed=("name",))
    if "leaders" in keys:
        leaders = tuple(_parse_leader(item, broker_ids) for item in keys["leaders"].items())
        count = len(leaders)
        if not count:
            raise keys["leaders"].expect("a broker id for each partition")
        if "partitions" in keys and keys["partitions"].whole(least=1) != count:
            raise keys["leaders"].error(f"{count} leaders for {keys['partitions'].text()} partitions")
    elif "partitions" in keys:
        count = keys["partitions"].whole(least=1, most=_MOST_PARTITIONS)
        leaders = (0,) * count  # see _lead_in_turn
    else:
        raise entry.error("key partitions or leaders is missing")
    if all(leader < 0 for leader in leaders):
        raise entry.error("no partition has a leader; expected at least one")
    return Topic(keys["name"].text(), leaders, _parse_order(keys.get("metadata_order"), leaders))


def _lead_in_turn(entries: Sequence[Entry], topics: Sequence[Topic], broker_count: int) -> list[Topic]:
    """Gives topics without `leaders` theirs: in turn over the brokers, on from where the topic before stopped."""
    placed, turn = [], 0
    for entry, topic in zip(entries, topics, strict=True):
        if "leaders" in entry.mapping():
            placed.append(topic)
            continue
        count = len(topic.leaders)
        placed.append(replace(topic, leaders=tuple((turn + place) % broker_count for place in range(count))))
        turn += count
    return placed


def _parse_leader(entry: Entry, broker_ids: Sequence[int]) -> int:
    if entry.is_null:
        return -1
    broker_id = entry.whole()
    if broker_id not in broker_ids:
        raise entry.expect(f"a broker of the cluster ({', '.join(map(str, broker_ids))}), or null for no leader")
    return broker_ids.index(broker_id)


def _parse_order(entry: Entry | None, leaders: Sequence[int]) -> tuple[int, ...]:
    if entry is None:
        return ()
    order = tuple(item.whole() for item in entry.items())
    led = [partition for partition, leader in enumerate(leaders) if leader >= 0]
    if sorted(order) != led:
        raise entry.error(f"found {list(order)}; expected each partition with a leader once: {led}")
    return order


def _parse_service(entry: Entry) -> Service:
    known = ("request_ms", "idle", "partition_ms", "kib_ms", "warm_up_ratio", "warm_up_s")
    keys = entry.mapping(known=known, needed=("request_ms",))
    return Service(
        request_ns=parse_distribution(keys["request_ms"], MS),
        idle=_parse_idle(keys["idle"]) if "idle" in keys else (),
        partition_ns=parse_ms(keys["partition_ms"]) if "partition_ms" in keys else 0,
        kib_ns=parse_ms(keys["kib_ms"]) if "kib_ms" in keys else 0,
        warm_up_percent=round(keys["warm_up_ratio"].number(least=1) * 100) if "warm_up_ratio" in keys else 100,
        warm_up_ns=parse_seconds(keys["warm_up_s"]) if "warm_up_s" in keys else 0,
    )


def _parse_idle(entry: Entry) -> tuple[tuple[int, Distribution], ...]:
    steps = []
    for item in entry.items():
        keys = item.mapping(needed=("after_ms", "request_ms"))
        steps.append((parse_ms(keys["after_ms"]), parse_distribution(keys["request_ms"], MS)))
    if any(first >= second for (first, _), (second, _) in pairwise(steps)):
        raise entry.error("after_ms must rise")
    return tuple(steps)


def scale_service(service: Service, capacity: float) -> Service:
    """A broker so many times as fast: its service times divided by that."""
    if capacity == 1:
        return service
    return replace(
        service,
        request_ns=_divide(service.request_ns, capacity),
        idle=tuple((after_ns, _divide(request, capacity)) for after_ns, request in service.idle),
        partition_ns=round(service.partition_ns / capacity),
        kib_ns=round(service.kib_ns / capacity),
    )


def _divide(distribution: Distribution, by: float) -> Distribution:
    points = tuple((probability, round(value / by)) for probability, value in distribution.points)
    return Distribution(points, round(distribution.mean / by))


def _parse_errors(entry: Entry) -> tuple[ErrorWindow, ...]:
    windows = gather_each(entry.items(), _parse_error_window)
    for first, second in pairwise(windows):
        if second.start_ns < first.end_ns:
            raise entry.error("error windows overlap or do not rise")
    return tuple(windows)


def _parse_error_window(entry: Entry) -> ErrorWindow:
    keys = entry.mapping(known=("ratio",), needed=("from_s", "to_s"))
    start_ns, end_ns = parse_seconds(keys["from_s"]), parse_seconds(keys["to_s"])
    if end_ns <= start_ns:
        raise keys["to_s"].expect("a time after from_s")
    ratio = keys["ratio"].number(most=1) if "ratio" in keys else 1.0
    return ErrorWindow(start_ns, end_ns, round(ratio * PPM))

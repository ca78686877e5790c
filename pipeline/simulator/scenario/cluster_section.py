"""`cluster` and `topics` of a scenario file."""

from collections.abc import Sequence
from itertools import cycle, islice, pairwise
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, model_validator

from pipeline.config.section import WrongValuesError
from pipeline.simulator.clients.client import MS, SECOND
from pipeline.simulator.distributions import PPM, ZERO, Steps
from pipeline.simulator.scenario import quantities
from pipeline.simulator.scenario.measured import MEASURED_OVERSLEEP, MEASURED_SERVICE
from pipeline.simulator.scenario.scenario import ErrorWindow, Service, SimulatedBroker, Topic


class IdleSection(quantities.ScenarioPart):
    after_ms: quantities.Milliseconds
    """idle for this long or longer"""
    request_ms: quantities.QuantityMs
    """for each request then"""


class ServiceSection(quantities.ScenarioPart):
    request_ms: quantities.QuantityMs
    """for each request"""
    idle: tuple[IdleSection, ...] = ()
    """rising; the last that holds counts"""
    partition_ms: quantities.Milliseconds = 0
    """for each further partition in a request"""
    kib_ms: quantities.Milliseconds = 0
    """for each 1,024 bytes of batches"""
    warm_up_ratio: float = Field(1, ge=1, le=1_000_000)
    """how much slower at first, falling to 1 within warm_up_s"""
    warm_up_s: quantities.Seconds = 0

    @model_validator(mode="after")
    def _rises(self) -> "ServiceSection":
        if any(first.after_ms >= second.after_ms for first, second in pairwise(self.idle)):
            raise WrongValuesError((("idle",), "after_ms must rise"))
        return self

    def build(self) -> Service:
        return Service(
            request_ns=self.request_ms,
            idle=tuple((round(idle.after_ms * MS), idle.request_ms) for idle in self.idle),
            partition_ns=round(self.partition_ms * MS),
            kib_ns=round(self.kib_ms * MS),
            warm_up_percent=round(self.warm_up_ratio * 100),
            warm_up_ns=round(self.warm_up_s * SECOND),
        )


class ErrorSection(quantities.ScenarioPart):
    from_s: quantities.Seconds
    to_s: quantities.Seconds
    ratio: quantities.Share = 1
    """of the requests"""

    @model_validator(mode="after")
    def _lasts(self) -> "ErrorSection":
        if round(self.to_s * SECOND) <= round(self.from_s * SECOND):
            raise WrongValuesError((("to_s",), f"found {self.to_s:g}; expected a time after from_s"))
        return self


class BrokerSection(quantities.ScenarioPart):
    """A broker; in a variant, keys of it to replace."""

    id: int = Field(ge=0, lt=2**31)
    rack: str = ""
    """broker.rack"""
    capacity: float = Field(1, ge=0.001, le=1_000)
    """twice as high: service takes half as long, the fair share is twice as large"""
    delay_ms: quantities.Delay = Field(Steps(), json_schema_extra={"default": 0})
    """held back before every produce response; or, over time, a schedule [{at_s: 0, ms: 0}, {at_s: 30, ms: 20}], an even
    series {every_s: 1, ms: [0, 3, 20]}, or {file: delays.csv} with columns at_s and ms"""
    service: ServiceSection | None = None
    """as measured on brokers 4.1.1, loopback, where not given"""
    handlers: int = Field(0, ge=0, lt=2**31)
    """requests in service at a time; 0 is no limit"""
    replica_wait_ms: quantities.QuantityMs = Field(ZERO, json_schema_extra={"default": 0})
    """with acks=all: until the in-sync replicas have the batches"""
    quota_bytes_per_s: int | None = Field(None, ge=1, lt=2**63)
    """producer_byte_rate of each client"""
    errors: tuple[ErrorSection, ...] = ()
    """rising, not overlapping"""

    @model_validator(mode="after")
    def _rises(self) -> "BrokerSection":
        if any(second.from_s < first.to_s for first, second in pairwise(self.errors)):
            raise WrongValuesError((("errors",), "error windows overlap or do not rise"))
        return self

    def build(self) -> SimulatedBroker:
        service = self.service.build() if self.service else MEASURED_SERVICE
        return SimulatedBroker(
            broker_id=self.id,
            rack=self.rack,
            service=service.with_capacity(self.capacity),
            handler_count=self.handlers,
            delay_ns=self.delay_ms,
            oversleep_ns=MEASURED_OVERSLEEP if any(self.delay_ms.values) else ZERO,
            replica_wait_ns=self.replica_wait_ms,
            quota_bytes_per_s=self.quota_bytes_per_s or 0,
            errors=tuple(
                ErrorWindow(round(each.from_s * SECOND), round(each.to_s * SECOND), round(each.ratio * PPM))
                for each in self.errors
            ),
        )


_COUNT = TypeAdapter(Annotated[int, Field(ge=1, le=1_000)])


def _list_brokers(value: Any) -> Any:  # noqa: ANN401  (whatever YAML holds)
    return value if isinstance(value, list) else [{"id": number} for number in range(_COUNT.validate_python(value))]


class ClusterSection(quantities.ScenarioPart):
    brokers: Annotated[
        tuple[BrokerSection, ...],
        BeforeValidator(_list_brokers),
        Field(min_length=1),
        AfterValidator(quantities.named_once("id")),
    ]
    """how many, with ids from 0; or a list:"""


class TopicSection(quantities.ScenarioPart):
    """A topic; without `leaders` its partitions go round the brokers, on from where the topic before stopped."""

    name: str
    partitions: int | None = Field(None, ge=1, le=100_000)
    """how many: leaders in turn over the brokers, topic after topic; or"""
    leaders: tuple[Annotated[int, Field(ge=0)] | None, ...] | None = Field(None, min_length=1)
    """a broker id for each partition, null for no leader; every broker must lead a partition"""
    metadata_order: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    """partitions with a leader as metadata lists them; ascending where not given"""

    @model_validator(mode="after")
    def _has_leaders(self) -> "TopicSection":
        if self.leaders is None and self.partitions is None:
            raise ValueError("key partitions or leaders is missing")
        if self.leaders is not None and self.partitions not in (None, len(self.leaders)):
            raise WrongValuesError((("leaders",), f"{len(self.leaders)} leaders for {self.partitions} partitions"))
        leaders = self.leaders or (0,) * (self.partitions or 0)
        led = [partition for partition, leader in enumerate(leaders) if leader is not None]
        if not led:
            raise ValueError("no partition has a leader; expected at least one")
        if self.metadata_order is not None and sorted(self.metadata_order) != led:
            problem = f"found {list(self.metadata_order)}; expected each partition with a leader once: {led}"
            raise WrongValuesError((("metadata_order",), problem))
        return self


def build_topics(sections: Sequence[TopicSection], broker_ids: Sequence[int]) -> tuple[Topic, ...]:
    """The topics as the simulator takes them, led by these brokers; `WrongValuesError` if one of them leads nothing."""
    index_of = {broker_id: number for number, broker_id in enumerate(broker_ids)}
    topics, in_turn = [], cycle(index_of.values())
    for section in sections:
        if section.leaders is None:
            leaders = tuple(islice(in_turn, section.partitions))
        else:
            leaders = tuple(-1 if leader is None else index_of[leader] for leader in section.leaders)
        topics.append(Topic(section.name, leaders, section.metadata_order or ()))
    leading = {leader for topic in topics for leader in topic.leaders}
    advice = "give it one in `leaders` of a topic, raise `partitions`, or leave the broker out"
    problem = f"leads no partition; expected every broker to lead one: {advice}"
    idle = [(broker_id, number) for broker_id, number in index_of.items() if number not in leading]
    problems = [(("cluster", "brokers", number), f"broker {broker_id} {problem}") for broker_id, number in idle]
    if problems:
        raise WrongValuesError(*problems)
    return tuple(topics)

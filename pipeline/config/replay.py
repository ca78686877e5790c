"""The configuration's sections `candidates` and `replay`: what recorded traffic is replayed through."""

import json
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, field_validator

from pipeline.config.section import KafkaSetting, NodeId, Section
from pipeline.model.log import fits_topics


class CandidateBroker(Section):
    delay_ms: float | None = Field(None, ge=0, le=3_600_000)
    """Delay of its responses, in place of the measured one."""
    capacity: float | None = Field(None, ge=0.001, le=1_000)
    """Its speed, as a multiple of the measured one."""
    rack: str | None = None
    """Its `broker.rack`, in place of the present one."""


class Candidate(Section):
    """A what-if of the replay: another strategy, client, setting, partition count, or several of them."""

    name: str = Field(min_length=1)
    """Name of its results."""
    partitioner: str | None = None
    """Strategy, as `partition-health partition --strategies` lists them; by default the current one, or what `client`
    and `config` say."""
    client: Annotated[str, Field(pattern=r"^((kafka-clients|librdkafka) )?[0-9]+(\.[0-9]+)*$")] | None = None
    """Version of the producer: `4.1.1` for the Java client, or with the client's name, `librdkafka 2.16.0`. It sets the
    defaults; settings that were given to the producer stay. Without it the session's own version."""
    config: dict[str, KafkaSetting | None] = Field(default_factory=dict)
    """Settings by Kafka's names, over the session's own. With `partitioner.rack.aware` and no `client.rack` each
    producer is put into one of the brokers' racks, at random, in each run anew."""
    commit_every: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,8} (ms|records)$")] | None = None
    """How often the application commits its transactions, `100 ms` or `200 records`; without it as recorded."""
    topics: tuple[str, ...] = ()
    """Patterns such as `orders*`; without any, all topics."""
    brokers: dict[NodeId, CandidateBroker] = Field(default_factory=dict)
    """Changes of brokers, by id."""
    brokers_alike: bool = False
    """Whether all brokers would answer as fast as the median broker."""
    partitions: Annotated[str, Field(pattern=r"^(x([1-9][0-9]?|100)|[1-9][0-9]{0,4}|100000)$")] | None = None
    """Partition count up to 100000, or a multiple of the topic's as in `x2`, up to `x100`; without it the topic's own."""

    @field_validator("client", "partitions", mode="before")
    @classmethod
    def _text(cls, value: object) -> object:
        return str(value) if isinstance(value, int | float) else value

    def partition_count(self, topic_count: int) -> int:
        """Partitions of a topic under this candidate; `topic_count` is what the topic has."""
        count = self.partitions or "x1"
        return topic_count * int(count[1:]) if count.startswith("x") else int(count)

    def change_racks(self, racks: Mapping[int, str]) -> dict[int, str]:
        """Racks by broker id, "" without one, given those that were found."""
        return {**racks, **{number: one.rack for number, one in self.brokers.items() if one.rack is not None}}

    @property
    def definition(self) -> str:
        """What it changes, as JSON; a name may come to stand for something else."""
        return json.dumps(
            self.model_dump(mode="json", exclude_defaults=True, exclude={"name", "topics"}), sort_keys=True
        )

    def was_replayed_as(self, definition: str | None) -> bool:
        """Whether it is still what a row was replayed by; rows of older versions do not say."""
        return definition in {None, self.definition}

    def fits(self, topic: str) -> bool:
        return fits_topics(topic, self.topics)


IN_USE = "in-use"  # the candidate that stands for the current setup, replayed like any other
_LINGER_5 = {"linger.ms": "5"}

DEFAULT_CANDIDATES = (
    Candidate(name="java-sticky-2.4", partitioner="java-sticky-2.4"),
    Candidate(name="java-sticky-2.4, linger 5", partitioner="java-sticky-2.4", config=_LINGER_5),
    Candidate(name="java-builtin-uniform", partitioner="java-builtin-uniform"),
    Candidate(name="java-builtin-uniform, linger 5", partitioner="java-builtin-uniform", config=_LINGER_5),
    Candidate(name="java-builtin", partitioner="java-builtin"),
    Candidate(name="java-builtin, linger 5", partitioner="java-builtin", config=_LINGER_5),
    Candidate(name="availability-5", partitioner="java-builtin", config={"partitioner.availability.timeout.ms": "5"}),
    Candidate(name="java-round-robin-3.9.2", partitioner="java-round-robin-3.9.2"),
    Candidate(name="keys-ignored", partitioner="java-builtin-ignore-keys"),
    Candidate(name="librdkafka", partitioner="librdkafka-consistent_random"),
    Candidate(name="sarama", partitioner="sarama-hash"),
    Candidate(name="twice-the-partitions", partitions="x2"),
    Candidate(name="no-slow-broker", brokers_alike=True),
)
"""The Java client's partitioners before and after 3.3, up and down, with the producer's own linger and with the 5 ms of
4.0; what other families of clients do by default; the current setup on twice the partitions, and without a slow broker."""


class Replay(Section):
    rows_per_bucket: int = Field(1_000_000, gt=0)
    """Rows about keys that a replaying process holds at once."""
    seeds: int = Field(10, ge=1, le=1_000)
    """Simulated runs of each candidate; ranges are over them."""
    arrivals: bool = True
    """Ingest stores when each record was created, and its size (`silver.arrivals`): keyless records cannot be replayed
    without. It takes about as long as the rest of an ingest and 2 to 6 bytes a record."""

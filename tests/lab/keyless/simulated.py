"""The same for the simulator: it gets when records were handed over and how large they are, and no other number of the run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import confluent_kafka
import numpy as np

from pipeline.simulator.clients.client import MS, ClientFamily, Settings, ThreadCosts
from pipeline.simulator.clients.producer_settings import resolve_producer
from pipeline.simulator.distributions import Distribution, Steps
from pipeline.simulator.engine.batches import measure_body_bytes
from pipeline.simulator.scenario.measured import MEASURED_COSTS, MEASURED_OVERSLEEP, MEASURED_SERVICE
from pipeline.simulator.scenario.scenario import (
    KEYLESS,
    NO_KEY,
    Producer,
    Recorded,
    Scenario,
    SimulatedBroker,
    Target,
    Topic,
    Traffic,
)
from tests.lab.keyless.settings import LEADERS, SLOW

if TYPE_CHECKING:
    from tests.lab.keyless.real import KeylessRun
    from tests.lab.keyless.settings import KeylessSetting

COSTS = replace(MEASURED_COSTS, metadata_ns=0)  # the programs have their metadata before the first record
NO_COSTS = ThreadCosts(append_ns=0, wake_ns=Distribution.constant(50_000))
UNLIMITED = 1_000_000
RESOLVED = {
    "librdkafka": ("librdkafka", confluent_kafka.libversion()[0], "linger.ms", None),
    "librdkafka, random": ("librdkafka", confluent_kafka.libversion()[0], "linger.ms", None),
    "node-rdkafka": ("librdkafka", "2.12.0", "linger.ms", None),
    "franz-go, uniform bytes": ("franz-go", "1.22", "ProducerLinger", "franz-go-default"),
    "franz-go, sticky key": ("franz-go", "1.22", "ProducerLinger", "franz-go-sticky"),
    "franz-go, least backup": ("franz-go", "1.22", "ProducerLinger", "franz-go-least-backup"),
    "Sarama, random": ("sarama", "1.61", "Producer.Flush.Frequency", "sarama-random"),
    "Sarama, round robin": ("sarama", "1.61", "Producer.Flush.Frequency", "sarama-round-robin"),
    "kafka-python": ("kafka-python", "3.0", "linger_ms", None),
    "aiokafka": ("aiokafka", "0.14", "linger_ms", None),
}
"""Client, version, its name for a linger, and strategy where it is not the default."""
KAFKA_GO = Settings(
    placement="ROUND_ROBIN", batch_bytes=1 << 20, batch_record_count=100, linger_ns=1000 * MS,
    max_in_flight_count=UNLIMITED, acks=1, is_idempotent=False,
)  # fmt: skip
KAFKAJS = Settings(placement="ROUND_ROBIN_OLD", max_in_flight_count=UNLIMITED, is_idempotent=False)


def make_scenario(run: KeylessRun) -> Scenario:
    """The scenario of a run.

    kafka-go opens a connection for each request under way and closes a batch when its time is over: a broker for each
    partition stands for that. KafkaJS has no batches: a call's records, all at its instant, meet a client without costs.
    """
    setting = run.setting
    library, _, choice = setting.client.partition(", ")
    is_split = library == "kafka-go"
    leaders = tuple(range(len(LEADERS))) if is_split else LEADERS
    held = {index for index, leader in enumerate(LEADERS) if leader == SLOW} if is_split else {SLOW}
    brokers = tuple(
        SimulatedBroker(
            number,
            MEASURED_SERVICE,
            delay_ns=Steps(values=(setting.delay_ms * MS * (number in held),)),
            oversleep_ns=MEASURED_OVERSLEEP,
        )
        for number in sorted(set(leaders))
    )
    family, settings = _resolve(setting)
    at_ns = run.at_ns
    if library == "KafkaJS":
        at_ns = at_ns[np.arange(len(at_ns)) // setting.burst * setting.burst]
    values = setting.bytes + np.arange(setting.count) * 7 % 11 * setting.step
    partitions = choose_least_bytes(values) if choice == "least bytes" else np.full(setting.count, KEYLESS)
    bodies = np.array([measure_body_bytes(NO_KEY, int(value)) for value in values])
    traffic = Traffic(Recorded(at_ns, bodies, partitions, np.zeros(setting.count, np.int64)), targets=(Target(),))
    costs = NO_COSTS if library == "KafkaJS" else COSTS
    producer = Producer("keyless", (traffic,), family, settings=settings, costs=costs)
    return Scenario(setting.client, brokers, (Topic("topic", leaders),), (producer,))


def _resolve(setting: KeylessSetting) -> tuple[ClientFamily, Settings]:
    linger_ns = setting.linger_ms * MS
    if setting.client.startswith("kafka-go"):
        return ClientFamily.LIBRDKAFKA, KAFKA_GO if linger_ns < 0 else replace(KAFKA_GO, linger_ns=linger_ns)
    if setting.client == "KafkaJS":
        return ClientFamily.JAVA, KAFKAJS
    client, version, name, strategy = RESOLVED[setting.client]
    config: dict[str, str | None] = {} if linger_ns < 0 else {name: str(setting.linger_ms)}
    if setting.client == "librdkafka, random":
        config["sticky.partitioning.linger.ms"] = "0"
    resolved = resolve_producer(client, version, config, strategy=strategy)
    return resolved.family, resolved.settings


def choose_least_bytes(values: np.ndarray) -> np.ndarray:
    """kafka-go's `LeastBytes`: the partition with the fewest bytes so far, the first of equals.

    >>> choose_least_bytes(np.array([5] * len(LEADERS) + [1, 9])).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    """
    totals, chosen = np.zeros(len(LEADERS), np.int64), []
    for value in values:
        chosen.append(int(totals.argmin()))
        totals[chosen[-1]] += value
    return np.array(chosen)

"""From a unit, its arrivals and a candidate to the scenario that the simulator runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipeline.calibration.service.model import make_broker, vary_untimed
from pipeline.replay.even_draws import Step, draw_evenly
from pipeline.replay.placements import draw_placements
from pipeline.replay.producers import resolve_candidate
from pipeline.simulator.clients.client import MS
from pipeline.simulator.scenario.distribution import PPM, ZERO, Steps
from pipeline.simulator.scenario.measured import MEASURED_COSTS, MEASURED_OVERSLEEP
from pipeline.simulator.scenario.run_to_run import settle_costs
from pipeline.simulator.scenario.scenario import Producer, Scenario, SimulatedBroker, Topic
from pipeline.simulator.scenario.traffic import KEYLESS, Recorded, Target, Traffic

if TYPE_CHECKING:
    from pipeline.config.replay import Candidate, CandidateBroker
    from pipeline.replay.key_places import KeyHashes
    from pipeline.replay.producers import CandidateProducer
    from pipeline.replay.unit_arrivals import UnitArrivals
    from pipeline.replay.units import ReplayUnit

# Recorded times are those of `send()` calls that had metadata, and the connections of a running producer stand.
_COSTS = replace(MEASURED_COSTS, metadata_ns=0, connect_ns=0)


@dataclass(frozen=True, eq=False)
class UnitScenario:
    """A unit under a candidate, for any seed.

    Attributes:
        unit: The unit.
        candidate: Or None for what is in use.
        partition_counts: Of its topics.
        producers: In the order of its sessions.
        base_ms: Epoch milliseconds that times count from.
    """

    unit: ReplayUnit
    candidate: Candidate | None
    partition_counts: tuple[int, ...]
    producers: tuple[Producer, ...]
    base_ms: int

    def build(self, seed: int) -> Scenario:
        """The scenario of one seed: it decides what is open, the same under every candidate.

        That is who leads partitions whose leader is open, the delay of a broker within its range, and what the producers'
        threads cost.
        """
        unit = self.unit
        place = {broker_id: number for number, broker_id in enumerate(unit.broker_ids)}
        topics = []
        for topic, count in zip(unit.topics, self.partition_counts, strict=True):
            known = dict(enumerate(topic.leaders))
            drawn = draw_placements(known, unit.broker_ids, len(topic.leaders), count, seed=f"{topic.topic} {count}")
            row = drawn.leaders[seed % len(drawn.leaders)]
            leaders = tuple(place[drawn.broker_ids[leader]] if leader >= 0 else -1 for leader in row.tolist())
            topics.append(Topic(f"{topic.topic} {topic.topic_id}".strip(), leaders))
        brokers = tuple(self._make_broker(broker_id, seed) for broker_id in unit.broker_ids)
        producers = tuple(self._make_producer(producer, seed) for producer in self.producers)
        return Scenario(unit.name, brokers, tuple(topics), producers)

    def _make_producer(self, producer: Producer, seed: int) -> Producer:
        chance = draw_evenly(seed, Step.THREADS, f"{self.unit.start_ms} {producer.name}")
        return replace(producer, costs=settle_costs(producer.costs, round(PPM * vary_untimed(chance))))

    def _make_broker(self, broker_id: int, seed: int) -> SimulatedBroker:
        model = self.unit.services.get(broker_id)
        if model is None:
            broker = SimulatedBroker(broker_id)
        else:
            chance = draw_evenly(seed, Step.DELAY, f"{self.unit.start_ms} {broker_id}")
            broker = make_broker(model, self.base_ms, chance=chance)
        change = self.candidate.brokers.get(broker_id) if self.candidate else None
        return broker if change is None else _change_broker(broker, change)


def lay_out_unit(
    unit: ReplayUnit, arrivals: UnitArrivals, candidate: Candidate | None, hashes: KeyHashes
) -> UnitScenario:
    """Puts a unit under a candidate.

    Args:
        unit: The unit.
        arrivals: Of its sessions.
        candidate: Or None for what is in use.
        hashes: Of its keys.

    Raises:
        ConfigError: The candidate cannot be simulated for one of the sessions.
    """
    counts = tuple(
        candidate.partition_count(len(topic.leaders)) if candidate else len(topic.leaders) for topic in unit.topics
    )
    producers = []
    for session, sent in zip(unit.sessions, arrivals.sessions, strict=True):
        found = resolve_candidate(candidate, session.baseline, session.compression)
        strategy = found.resolved.strategy
        is_in_use = candidate is None or strategy == session.baseline.strategy
        placed = sent.place(unit.topics, counts, hashes.placing(found.resolved, is_in_use=is_in_use))
        recorded = Recorded(sent.due_ns, sent.body_bytes, placed, sent.topic)
        targets = tuple(Target(topic=number, partition=KEYLESS) for number in range(len(unit.topics)))
        producers.append(_make_producer(f"{session.producer_id}/{session.producer_epoch}", found, recorded, targets))
    return UnitScenario(unit, candidate, counts, tuple(producers), arrivals.base_ms)


def _make_producer(name: str, found: CandidateProducer, recorded: Recorded, targets: tuple[Target, ...]) -> Producer:
    resolved = found.resolved
    return Producer(
        name, (Traffic(recorded, targets=targets),), resolved.family, found.version, resolved.settings, _COSTS
    )


def _change_broker(broker: SimulatedBroker, change: CandidateBroker) -> SimulatedBroker:
    if change.capacity is not None:
        broker = replace(broker, service=broker.service.with_capacity(change.capacity))
    if change.delay_ms is not None:
        delay_ns = round(change.delay_ms * MS)
        oversleep = MEASURED_OVERSLEEP if delay_ns else ZERO
        broker = replace(broker, delay_ns=Steps.constant(delay_ns), oversleep_ns=oversleep)
    return broker

"""From a group, its arrivals and a candidate to the scenario that the simulator runs."""

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from pipeline.arrays import Ints
from pipeline.calibration.service.model import fluctuate, make_broker, vary_untimed
from pipeline.calibration.service.trial import RUNNING_COSTS
from pipeline.calibration.session_traffic import commits_ns
from pipeline.config.replay import IN_USE, Candidate
from pipeline.model.window import NS_PER_MS
from pipeline.replay.leaders import draw_leaders
from pipeline.replay.recorded import ProducerSession
from pipeline.replay.simulated.arrivals import GroupArrivals, KeyHashes, SessionArrivals
from pipeline.replay.simulated.plan import SessionGroup
from pipeline.replay.simulated.producers import CandidateProducer
from pipeline.simulator.clients.client import ANY_RACK
from pipeline.simulator.distributions import PPM, ZERO, Steps, derive_stream
from pipeline.simulator.scenario import scenario
from pipeline.simulator.scenario.measured import MEASURED_OVERSLEEP, settle_costs

_ONE = 1 << 64


class Step(Enum):
    """Steps of evenly spread draws: two quantities of a run need different steps, or they would rise and fall together."""

    THREADS = round(0.6180339887498949 * _ONE)
    DELAY = round(0.4142135623730950 * _ONE)


def draw_evenly(seed: int, step: Step, name: str) -> float:
    """A place from 0 to below 1 that covers the range evenly over any few seeds in a row: each goes on by an irrational step.

    Ten seeds that each draw a number by themselves may well draw eight of ten on one side.

    References:
        Niederreiter, Random Number Generation and Quasi-Monte Carlo Methods, 1992, section 3.1: multiples of a number whose
        continued fraction has small terms only, such as the golden ratio and the square root of 2.

    >>> [round(draw_evenly(seed, Step.DELAY, "broker 1") - draw_evenly(seed + 1, Step.DELAY, "broker 1"), 2) for seed in (1, 2)]
    [0.59, -0.41]
    """
    return (derive_stream(0, step.name, name) + seed * step.value) % _ONE / _ONE


@dataclass(frozen=True, eq=False)
class GroupScenario:
    """A group under a candidate, for any seed; times count from `base_ms`, epoch milliseconds."""

    group: SessionGroup
    candidate: Candidate
    partition_counts: tuple[int, ...]
    producers: tuple[scenario.Producer, ...]
    base_ms: int

    def build(self, seed: int) -> scenario.Scenario:
        """The scenario of one seed: it decides what is open, the same under every candidate."""
        group = self.group
        index_of = {broker_id: number for number, broker_id in enumerate(group.broker_ids)}
        topics = []
        for topic, count in zip(group.topics, self.partition_counts, strict=True):
            known = dict(enumerate(topic.leaders))
            drawn = draw_leaders(known, group.broker_ids, topic.topic, count)
            row = drawn.leaders[seed % len(drawn.leaders)]
            leaders = tuple(index_of[drawn.broker_ids[leader]] if leader >= 0 else -1 for leader in row.tolist())
            topics.append(scenario.Topic(f"{topic.topic} {topic.topic_id}".strip(), leaders))
        brokers = tuple(self._make_broker(broker_id, seed) for broker_id in group.broker_ids)
        producers = tuple(self._vary_producer(producer, seed) for producer in self.producers)
        return scenario.Scenario(group.name, brokers, tuple(topics), producers)

    def _vary_producer(self, producer: scenario.Producer, seed: int) -> scenario.Producer:
        name = f"{self.group.start_ms} {producer.name}"
        racks = sorted({rack for rack in self.candidate.change_racks(self.group.racks).values() if rack})
        if producer.settings.client_rack == ANY_RACK and racks:
            drawn, weights = derive_stream(seed, "client rack", name), self.group.zone_weights
            client_rack = racks[drawn % len(racks)]
            if weights:
                ends = list(itertools.accumulate(weights.values()))
                client_rack = list(weights)[bisect.bisect_right(ends[:-1], drawn / _ONE * ends[-1])]
            producer = replace(producer, settings=replace(producer.settings, client_rack=client_rack))
        chance = draw_evenly(seed, Step.THREADS, name)
        coordinator = derive_stream(seed, "coordinator", name) % len(self.group.broker_ids)
        costs = settle_costs(producer.costs, round(PPM * vary_untimed(chance)))
        return replace(producer, costs=costs, coordinator=coordinator)

    def _make_broker(self, broker_id: int, seed: int) -> scenario.SimulatedBroker:
        model = self.group.services.get(broker_id)
        if self.candidate.brokers_alike:
            model = self.group.healed.get(broker_id, model)
        name = f"{self.group.start_ms} {broker_id}"
        chance = draw_evenly(seed, Step.DELAY, name)
        broker = scenario.SimulatedBroker(broker_id)
        if model is not None:
            model = fluctuate(model, derive_stream(seed, "delays within spans", name))
            broker = make_broker(model, self.base_ms, chance=chance)
        broker = replace(broker, rack=self.candidate.change_racks(self.group.racks).get(broker_id, ""))
        change = self.candidate.brokers.get(broker_id)
        if change is not None and change.capacity is not None:
            broker = replace(broker, service=broker.service.with_capacity(change.capacity))
        if change is not None and change.delay_ms is not None:
            delay_ns = round(change.delay_ms * NS_PER_MS)
            oversleep = MEASURED_OVERSLEEP if delay_ns else ZERO
            broker = replace(broker, delay_ns=Steps.constant(delay_ns), oversleep_ns=oversleep)
        return broker


def lay_out_group(
    group: SessionGroup,
    arrivals: GroupArrivals,
    candidate: Candidate,
    producers: Sequence[CandidateProducer],
    hashes: KeyHashes,
) -> GroupScenario:
    """Puts a group under a candidate, given its sessions' arrivals and what their producers become."""
    counts = tuple(candidate.partition_count(len(topic.leaders)) for topic in group.topics)
    targets = tuple(scenario.Target(topic=number, partition=scenario.KEYLESS) for number in range(len(group.topics)))
    made = []
    for session, sent, producer in zip(group.sessions, arrivals.sessions, producers, strict=True):
        resolved = producer.resolved
        is_in_use = candidate.name == IN_USE or resolved.strategy == session.baseline.strategy
        assigned = sent.assign(group.topics, counts, hashes.assigning(resolved, is_in_use=is_in_use))
        recorded = scenario.Recorded(sent.due_ns, sent.body_bytes, assigned, sent.topic)
        if resolved.settings.is_transactional:
            recorded = recorded.with_commits(_list_commits(session, sent, candidate.commit_every, arrivals.base_ms))
        traffic = scenario.Traffic(recorded, targets=targets)
        name = f"{session.producer_id}/{session.producer_epoch}" + (f"/{session.number}" if session.weights else "")
        made.append(
            scenario.Producer(name, (traffic,), resolved.family, producer.version, resolved.settings, RUNNING_COSTS)
        )
    return GroupScenario(group, candidate, counts, tuple(made), arrivals.base_ms)


def _list_commits(session: ProducerSession, sent: SessionArrivals, commit_every: str | None, base_ms: int) -> Ints:
    """When the application commits, ns after `base_ms`: as the candidate says, else as recorded."""
    if commit_every is None:
        return commits_ns(session.commits_ms, base_ms)
    count, unit = commit_every.split()
    if unit == "records":
        return sent.due_ns[int(count) - 1 :: int(count)] + 1
    step_ns = int(count) * NS_PER_MS
    return (np.unique(sent.due_ns // step_ns) + 1) * step_ns

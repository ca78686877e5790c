"""Replays a judged window with other leaders: what topics would bring to each broker whose load follows the broker."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from pyspark.sql import SparkSession

from pipeline.advice.following import LeaderReplay, widen
from pipeline.config.replay import Candidate
from pipeline.engine import describe_work
from pipeline.jobs.replay.load import FAMILY_NAMES, Readers, load_recording, load_traffic, make_readers
from pipeline.model.number_text import format_name
from pipeline.model.window import TimeWindow
from pipeline.replay.metrics import SessionMetrics
from pipeline.replay.recorded import ProducerSession, Recording, SessionKey, TopicWindow
from pipeline.replay.sessions import calibrate_sessions
from pipeline.replay.simulated.plan import SessionGroup, make_groups, plan_simulations
from pipeline.replay.simulated.runs import CELL_LOG_BYTES, GroupRun, simulate_runs
from pipeline.replay.simulated.topics import OTHER_ERROR, SimulatedTopic
from pipeline.replay.topics import TopicInput, describe_topic, list_topics
from pipeline.runs import RunContext
from pipeline.stages import Staging, unpack_value
from pipeline.storage.staging import open_staging_folder
from pipeline.tables.replay import HASH_VERDICTS


class _Calibrated(NamedTuple):
    recording: Recording
    readers: Readers
    sessions: Sequence[ProducerSession]
    metrics: Mapping[SessionKey, SessionMetrics]
    families: Mapping[TopicWindow, str]


class WindowReplay:
    """One window that was replayed, to be replayed with other leaders; its producers are looked at once."""

    def __init__(self, spark: SparkSession, run: RunContext, window: TimeWindow) -> None:
        self._spark, self._run, self._window = spark, run, window

    def replay(
        self,
        leaders: Mapping[tuple[str, int], int],
        errors: Mapping[str, float],
        racks: Mapping[int, str] | None = None,
        candidate: Candidate | None = None,
    ) -> LeaderReplay:
        """Replays topics with these leaders; `errors` widen ranges, `racks` are of new brokers, `candidate` is what producers become."""
        topics = {topic for topic, _ in leaders}
        known = self._calibrated
        candidates = () if candidate is None else (candidate,)
        recording = replace(_with_leaders(known.recording, leaders, racks or {}), candidates=candidates)
        every = make_groups(recording, known.sessions, known.metrics, known.families)
        groups = [group for group in every if topics & {topic.topic for topic in group.topics}]
        lent = [_lend_middle(replace(group, number=number)) for number, group in enumerate(groups)]
        plan = plan_simulations(lent, candidates, range(1, recording.seeds + 1))
        listed = list_topics(recording, keyed={}, sessions=known.sessions, metrics=known.metrics, plan=plan)
        inputs = {topic.where: topic for topic in listed if topic.where[1] in topics}
        describe_work(f"{self._run.subject}: replay with other leaders")
        with open_staging_folder(self._run.warehouse) as folder:
            staging = Staging(self._spark, folder, self._run.subject)
            readers = known.readers
            runs = simulate_runs(staging, plan, read_arrivals=readers.read_arrivals, read_hashes=readers.read_hashes)
            rows = runs.load()
        results: dict[TopicWindow, list[GroupRun]] = defaultdict(list)
        columns = [column.to_pylist() for column in rows.columns]
        for start_ms, topic, topic_id, group, number, seed, value in zip(*columns, strict=True):
            results[start_ms, topic, topic_id].append((group, number, seed, unpack_value(value)))
        return self._sum_up(inputs, results, errors, len(candidates))

    def _sum_up(
        self,
        inputs: Mapping[TopicWindow, TopicInput],
        results: Mapping[TopicWindow, list[GroupRun]],
        errors: Mapping[str, float],
        number: int,
    ) -> LeaderReplay:
        traffic, shares = load_traffic(self._run, set(inputs)), {}
        for where, topic in inputs.items():
            runs = topic.merge_runs(results.get(where, ())).get(number)
            if runs is None:
                return LeaderReplay({}, f"{format_name(where[1])} cannot be simulated")
            simulated = SimulatedTopic(describe_topic(topic, traffic[where]), runs, OTHER_ERROR)
            estimates = zip(simulated.broker_ids, simulated.shares(CELL_LOG_BYTES, of_brokers=True), strict=True)
            shares[where[1]] = {
                broker_id: widen((share.low or 0.0, share.value or 0.0, share.high or 0.0), errors.get(where[1], 0.0))
                for broker_id, share in estimates
            }
        return LeaderReplay(shares)

    @cached_property
    def _calibrated(self) -> _Calibrated:
        windows = (self._window,)
        describe_work(f"{self._run.subject}: find producer sessions once more")
        recording, readers = load_recording(self._spark, self._run, windows), make_readers(self._run, windows)
        columns = ("window_start_ms", "topic", "topic_id", "verdict")
        families = {
            (start_ms, topic, topic_id): verdict
            for start_ms, topic, topic_id, verdict in self._run.tuples(HASH_VERDICTS, windows, *columns)
            if verdict in FAMILY_NAMES
        }
        sessions, metrics = calibrate_sessions(
            self._spark, recording, families, read_arrivals=readers.read_arrivals, read_batches=readers.read_batches
        )
        return _Calibrated(recording, readers, sessions, metrics, families)


def _with_leaders(recording: Recording, leaders: Mapping[tuple[str, int], int], racks: Mapping[int, str]) -> Recording:
    planned = {
        where: {number: leaders.get((where[1], number), leader) for number, leader in led.items()}
        for where, led in recording.leaders.items()
    }
    known = {start_ms: {**racks, **of_window} for start_ms, of_window in recording.racks.items()}
    brokers = {start_ms: sorted({*ids, *racks}) for start_ms, ids in recording.brokers.items()}
    return replace(recording, candidates=(), leaders=planned, racks=known, brokers=brokers)


def _lend_middle(group: SessionGroup) -> SessionGroup:
    middle = group.middle
    if middle is None:
        return group
    new = {broker_id: replace(middle, broker_id=broker_id) for broker_id in group.broker_ids}
    return replace(group, services={**new, **group.services})

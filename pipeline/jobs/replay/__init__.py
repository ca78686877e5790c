"""Replays recorded traffic, not records, through the current setup and every candidate: keys by hashes, the rest simulated."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from pipeline.advice.following import LeaderReplay, widen
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.config.replay import Candidate
from pipeline.engine import count_task_slots, describe_work
from pipeline.jobs.replay import load
from pipeline.model.number_text import format_name
from pipeline.model.window import TimeWindow, Windows
from pipeline.progress import Begin, ignore_phase
from pipeline.replay.keyed.plan import check_candidates
from pipeline.replay.metrics import MetricsBySession
from pipeline.replay.recorded import Recording, Sessions, TopicWindow
from pipeline.replay.rows import TABLES, list_rows
from pipeline.replay.sessions import calibrate_sessions
from pipeline.replay.simulated.plan import SessionGroup, make_groups, plan_simulations
from pipeline.replay.simulated.runs import CELL_LOG_BYTES, TOPIC, GroupRun, make_run_rows, simulate_runs
from pipeline.replay.simulated.topics import SimulatedTopic
from pipeline.replay.topics import TopicInput, describe_topic, list_topics, replay_topic
from pipeline.runs import JobReport, RunContext, TableRows
from pipeline.sources.questions import name_some
from pipeline.stages import Staging, map_groups, pack_value, unpack_value
from pipeline.storage.files import WRITTEN
from pipeline.storage.locks import open_staging_folder
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.storage.window_status import windows_in_doubt
from pipeline.tables.replay import BACK_TESTS, HASH_VERDICTS

_NO_GROUP = -1  # in the row that holds the topic itself


def check(config: PipelineConfig) -> None:
    """Refuses candidates that cannot be replayed, before Spark starts; `ConfigError` names the candidate."""
    for cluster in config.clusters.values():
        check_candidates(config.candidates, cluster.partitioners)


def pending_windows(run: RunContext) -> tuple[TimeWindow, ...]:
    """Windows to replay: the run's that passed the gate, and earlier ones that hold something; none in doubt."""
    ensure_tables(run.warehouse)  # one from before there was a replay lacks its tables
    pending = run.pending_windows(HASH_VERDICTS, BACK_TESTS)  # one has rows, whatever is stored of keys and arrivals
    doubted = windows_in_doubt(run.warehouse, run.cluster_name, pending)
    wanted_ms = {window.start_ms for window in run.windows} | run.starts_to_replay(pending)
    return tuple(window for window in pending if window not in doubted and window.start_ms in wanted_ms)


def run(spark: SparkSession, run: RunContext, windows: Windows, begin: Begin = ignore_phase) -> JobReport:
    """Replaces windows' rows in the replay's tables; `ConfigError` if a candidate cannot be replayed, or its keys were not asked."""
    if not windows:
        return JobReport(notes=("no trusted window to replay",))
    begin("keys")
    recording, readers = load.load_recording(spark, run, windows), load.make_readers(run, windows)
    describe_work(f"{run.subject}: place keys under every candidate")
    keyed = load.replay_stored_keys(spark, run, recording)
    families = {where: one.verdict.verdict for where, one in keyed.items() if one.verdict.verdict in load.FAMILY_NAMES}
    begin("sessions")
    describe_work(f"{run.subject}: find producer sessions")
    sessions, metrics = calibrate_sessions(spark, recording, families, readers.sessions)
    groups = make_groups(recording, sessions, metrics, families)
    plan = plan_simulations(groups, recording.candidates, range(1, recording.seeds + 1))
    begin("candidates")
    topics = list_topics(recording, keyed=keyed, sessions=sessions, metrics=metrics, plan=plan)
    with open_staging_folder(run.warehouse) as folder:
        staging = Staging(spark, folder, run.subject)
        runs = simulate_runs(staging, plan, read_arrivals=readers.sessions.arrivals, read_hashes=readers.read_hashes)
        # a row of `RUN_SCHEMA` for each topic, beside those of its runs
        packed = make_run_rows([(*topic.where, _NO_GROUP, 0, 0, pack_value(topic)) for topic in topics])
        kernel = run.to_files(partial(_compare_topics, run), TABLES, windows)
        rows = runs.with_rows("topics", packed).frame()
        compared = map_groups(rows, TOPIC, count_task_slots(spark), kernel, WRITTEN)
        versions = run.replace_by_files("compare candidates", compared, TABLES, windows)
    nothing = (
        "nothing to replay: these windows hold no records, or neither keys nor arrivals of them are stored (keys.mode is "
        f"{run.config.keys.mode}, replay.arrivals is {str(run.config.replay.arrivals).lower()})"
    )
    too_large = sorted({f"{topic} ({count:,})" for (_, topic, _), count in recording.too_large.items()})
    notes = (
        *filter(None, [name_some("topics with too many partitions or producers to be replayed:", too_large)]),
        *_describe_verdicts(run.tuples(HASH_VERDICTS, windows, "topic", "verdict", "record_count")),
        *_describe_back_tests(list(run.tuples(BACK_TESTS, windows, "topic", "is_trusted", "share_error_points"))),
    )
    return JobReport(table_versions=versions, notes=notes or (nothing,))


def _compare_topics(run: RunContext, rows: pa.Table) -> TableRows:
    topics: list[TopicInput] = []
    packed: dict[TopicWindow, list[tuple[int, int, int, bytes]]] = defaultdict(list)
    columns = [column.to_pylist() for column in rows.columns]
    for start_ms, topic, topic_id, group, candidate, seed, value in zip(*columns, strict=True):
        if group == _NO_GROUP:
            topics.append(unpack_value(value))
        else:
            packed[start_ms, topic, topic_id].append((group, candidate, seed, value))
    traffic = load.load_traffic(run, {topic.where for topic in topics})
    definitions = {one.name: one.definition for one in run.config.candidates}
    for topic in sorted(topics, key=lambda topic: topic.where):
        found = packed[topic.where]
        results = [(group, candidate, seed, unpack_value(value)) for group, candidate, seed, value in found]
        replayed = replay_topic(topic, traffic[topic.where], topic.merge_runs(results))
        yield from ((table.name, listed) for table, listed in list_rows(topic, replayed, definitions).items())


def _describe_back_tests(rows: list[tuple[Any, ...]]) -> tuple[str, ...]:
    tested = [(topic, points) for topic, _, points in rows if points is not None]
    if not tested:
        return ()
    topic, points = max(tested, key=itemgetter(1))
    trusted = f"{sum(is_trusted for _, is_trusted, _ in rows)} of {len(rows)} topics x windows are trusted"
    return (f"back-tests: {trusted}; the worst share is {topic}'s, {points:.1f} points off",)


def _describe_verdicts(rows: Iterable[tuple[Any, ...]]) -> tuple[str, ...]:
    by_topic: dict[str, Counter[str]] = defaultdict(Counter)
    for topic, verdict, record_count in rows:
        if record_count:
            by_topic[topic][verdict] += 1
    return tuple(
        f"keys of {topic}: "
        + ", ".join(f"{verdict} in {count} of {counts.total()} windows" for verdict, count in counts.most_common())
        for topic, counts in sorted(by_topic.items())
    )


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
        recorded, readers, sessions, metrics, families = self._calibrated
        candidates = () if candidate is None else (candidate,)
        recording = replace(_with_leaders(recorded, leaders, racks or {}), candidates=candidates)
        every = make_groups(recording, sessions, metrics, families)
        groups = [group for group in every if topics & {topic.topic for topic in group.topics}]
        lent = [_lend_middle(replace(group, number=number)) for number, group in enumerate(groups)]
        plan = plan_simulations(lent, candidates, range(1, recording.seeds + 1))
        listed = list_topics(recording, keyed={}, sessions=sessions, metrics=metrics, plan=plan)
        inputs = {topic.where: topic for topic in listed if topic.where[1] in topics}
        describe_work(f"{self._run.subject}: replay with other leaders")
        with open_staging_folder(self._run.warehouse) as folder:
            staging = Staging(self._spark, folder, self._run.subject)
            runs = simulate_runs(
                staging, plan, read_arrivals=readers.sessions.arrivals, read_hashes=readers.read_hashes
            )
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
        traffic, shares = load.load_traffic(self._run, set(inputs)), {}
        for where, topic in inputs.items():
            runs = topic.merge_runs(results.get(where, ())).get(number)
            if runs is None:
                return LeaderReplay({}, f"{format_name(where[1])} cannot be simulated")
            simulated = SimulatedTopic(describe_topic(topic, traffic[where]), runs)
            estimates = zip(simulated.broker_ids, simulated.shares(CELL_LOG_BYTES, of_brokers=True), strict=True)
            shares[where[1]] = {
                broker_id: widen((share.low or 0.0, share.value or 0.0, share.high or 0.0), errors.get(where[1], 0.0))
                for broker_id, share in estimates
            }
        return LeaderReplay(shares)

    @cached_property
    def _calibrated(self) -> tuple[Recording, load.Readers, Sessions, MetricsBySession, dict[TopicWindow, str]]:
        windows = (self._window,)
        describe_work(f"{self._run.subject}: find producer sessions once more")
        recording, readers = load.load_recording(self._spark, self._run, windows), load.make_readers(self._run, windows)
        columns = ("window_start_ms", "topic", "topic_id", "verdict")
        families = {
            (start_ms, topic, topic_id): verdict
            for start_ms, topic, topic_id, verdict in self._run.tuples(HASH_VERDICTS, windows, *columns)
            if verdict in load.FAMILY_NAMES
        }
        sessions, metrics = calibrate_sessions(self._spark, recording, families, readers.sessions)
        return recording, readers, sessions, metrics, families


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

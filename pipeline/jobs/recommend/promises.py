"""Judges, window by window, the advice of the windows before: `gold.promises`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from pipeline.advice.carried_out import PromiseWindow, measure_progress
from pipeline.advice.promises import WATCHED_WINDOWS, WatchedAdvice, choose_watched, judge_promise, name_promise
from pipeline.model.promise import Promise, PromiseScore, score_actions
from pipeline.model.recommendation import Recommendation
from pipeline.model.window import TimeWindow
from pipeline.runs import RunContext
from pipeline.storage.values import value_of
from pipeline.tables.bronze import CLUSTER_STATE
from pipeline.tables.gold import BROKER_SHARE, PARTITION_HEALTH
from pipeline.tables.health import HOT_KEYS, PROMISES, RECOMMENDATIONS, TOPIC_HEALTH
from pipeline.tables.replay import BACK_TESTS, REPLAY_BROKERS, SCENARIO_COMPARISON
from pipeline.tables.sessions import PRODUCER_SESSIONS


class PromiseLedger:
    """Advice and promises of earlier windows; a run adds to them in time order, without its own windows' old rows."""

    def __init__(self, run: RunContext, windows: Sequence[TimeWindow]) -> None:
        self._run = run
        own = {window.start_ms for window in windows}
        first_ms, last_ms = min(own), max(own)
        reach = TimeWindow(max(0, first_ms - WATCHED_WINDOWS * run.window_ms), last_ms)
        self._advice = (
            [one for one in run.values(Recommendation, RECOMMENDATIONS, (reach,)) if one.window_start_ms not in own]
            if reach.duration_ms
            else []
        )
        decided = run.load(PROMISES, where="outcome IN ('kept', 'broken') OR carried_out_at IS NOT NULL").to_pylist()
        self._promises = [one for one in (value_of(Promise, row) for row in decided) if one.window_start_ms not in own]
        self._windows: dict[int, PromiseWindow] = {}

    def judge(self, window: TimeWindow) -> tuple[list[Promise], dict[str, PromiseScore]]:
        """Judges the promises of a window; returns them and the score of each kind of advice."""
        run, start_ms = self._run, window.start_ms
        from_ms = start_ms - WATCHED_WINDOWS * run.window_ms
        before = [one for one in self._promises if one.window_start_ms < start_ms]
        advice = [one for one in self._advice if from_ms <= one.window_start_ms < start_ms]
        candidates = {candidate.name: candidate for candidate in run.config.candidates}
        first = {one.key: one.carried_out_ms for one in before if one.carried_out_ms is not None}
        watched = []
        for one in choose_watched(advice, before):
            then, now = self._read(one.window_start_ms), self._read(start_ms)
            progress = measure_progress(one, then, now, candidates)
            watched.append(
                WatchedAdvice(advice=one, then=then, now=now, progress=progress, first_ms=first.get(name_promise(one)))
            )
        judged = [judge_promise(one, watched, candidates) for one in watched if one.broker_id in one.now.shares]
        scores = score_actions([*before, *judged])
        judged = [replace(one, **scores.get(one.action, PromiseScore())._asdict()) for one in judged]
        self._promises += judged
        return judged, scores

    def add(self, advice: Sequence[Recommendation]) -> None:
        """Adds a window's advice."""
        self._advice += advice

    def _read(self, start_ms: int) -> PromiseWindow:
        if start_ms not in self._windows:
            self._windows[start_ms] = read_window(self._run, self._run.window_at(start_ms))
        return self._windows[start_ms]


def read_window(run: RunContext, window: TimeWindow) -> PromiseWindow:
    """Reads the tables that promises are judged by."""
    windows = (window,)
    partitions = run.rows(PARTITION_HEALTH, windows)
    replicas: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    for row in run.rows(
        CLUSTER_STATE, windows, ("window_start", "topic", "partition", "replica_id", "replica_position")
    ):
        replicas[row["topic"], row["partition"]][row["replica_position"]] = row["replica_id"]
    sessions, heavy = defaultdict(list), defaultdict(set)
    for row in run.rows(PRODUCER_SESSIONS, windows):
        sessions[row["topic"]].append(row)
    for row in run.rows(HOT_KEYS, windows):
        if row["is_heavy"]:
            heavy[row["topic"]].add(row["key"])
    return PromiseWindow(
        start_ms=window.start_ms,
        shares={row["broker_id"]: row for row in run.rows(BROKER_SHARE, windows)},
        loads={(row["topic"], row["partition"]): row["size_bytes"] for row in partitions},
        leaders={(row["topic"], row["partition"]): row["leader_id"] for row in partitions},
        replicas={place: tuple(by[at] for at in sorted(by)) for place, by in replicas.items()},
        keyed=frozenset(row["topic"] for row in run.rows(TOPIC_HEALTH, windows) if row["placement"] == "keys"),
        sessions=sessions,
        heavy_keys={topic: frozenset(keys) for topic, keys in heavy.items()},
        compared={(row["candidate"], row["topic"]): row for row in run.rows(SCENARIO_COMPARISON, windows)},
        placed={
            (row["candidate"], row["topic"], row["broker_id"]): row["share"]
            for row in run.rows(REPLAY_BROKERS, windows)
            if row["share"] is not None
        },
        back_tests={row["topic"]: row for row in run.rows(BACK_TESTS, windows)},
    )

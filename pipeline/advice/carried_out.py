"""Progress of advice between two windows, seen in leaders, partition counts, producer sessions and keys."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from pipeline.advice.following import CHECK_BROKER
from pipeline.codec.tools.reassignment_text import parse_reassignment
from pipeline.config.replay import Candidate
from pipeline.model.placement import Place, Replicas
from pipeline.model.promise import WHOLE, Recommendation
from pipeline.model.verdict import BrokerLoad
from pipeline.partitioners.registry import STRATEGIES
from pipeline.partitioners.strategy import parse_version, read_kafka_version

Row: TypeAlias = Mapping[str, Any]
Candidates: TypeAlias = Mapping[str, Candidate]
_SURE = 0.8  # confidence from which an inferred strategy counts as the current one
# batches seldom distinguish it from the default, which has half of the confidence then
_UNIFORM = "java-builtin-uniform"


@dataclass(frozen=True, kw_only=True)
class PromiseWindow:
    start_ms: int
    shares: Mapping[int, BrokerLoad] = field(default_factory=dict)  # by broker
    loads: Mapping[Place, int] = field(default_factory=dict)  # bytes
    leaders: Mapping[Place, int] = field(default_factory=dict)  # at the window's end
    replicas: Replicas = field(default_factory=dict)
    keyed: frozenset[str] = frozenset()  # topics whose records go where their keys say
    sessions: Mapping[str, Sequence[Row]] = field(default_factory=dict)  # `silver.producer_sessions`
    # by producer id and epoch, the version that the client itself tells its metrics (`app-info`, KIP-714)
    client_versions: Mapping[tuple[int, int], str] = field(default_factory=dict)
    heavy_keys: Mapping[str, frozenset[str]] = field(default_factory=dict)
    # `gold.scenario_comparison` by candidate, topic
    compared: Mapping[tuple[str, str], Row] = field(default_factory=dict)
    placed: Mapping[tuple[str, str, int], float] = field(default_factory=dict)  # share by candidate, topic and broker
    back_tests: Mapping[str, Row] = field(default_factory=dict)  # `gold.back_tests`
    slow: Mapping[int, bool] = field(default_factory=dict)  # of brokers of which clients say it

    def topic_bytes(self, topic: str) -> int:
        return sum(size for (name, _), size in self.loads.items() if name == topic)

    def partitions_of(self, topic: str) -> list[Place]:
        return [place for place in self.loads if place[0] == topic]


class CarriedOut(NamedTuple):
    """Part of a recommendation that is carried out, 0 to 1; None, and why, where nothing shows it."""

    ratio: float | None
    reason: str = ""


def list_moves(advice: Recommendation, then: PromiseWindow) -> dict[Place, tuple[int, ...]]:
    if advice.reassignment_json is not None:
        return parse_reassignment(advice.reassignment_json)
    if advice.election_json is None:
        return {}
    places = [(one["topic"], one["partition"]) for one in json.loads(advice.election_json)["partitions"]]
    return {place: then.replicas[place] for place in places if then.replicas.get(place)}


def list_changes(candidate: Candidate) -> frozenset[tuple[str, str | None]]:
    named = {"partitioner": candidate.partitioner, "client": candidate.client, "partitions": candidate.partitions}
    return frozenset({(name, value) for name, value in named.items() if value}) | frozenset(candidate.config.items())


def measure_progress(
    advice: Recommendation, then: PromiseWindow, now: PromiseWindow, candidates: Candidates
) -> CarriedOut:
    if advice.election_json is not None:
        return _compare_placement(list_moves(advice, then), now)
    if advice.action == "rekey":
        heavy = then.heavy_keys.get(advice.topic, frozenset())
        left = heavy & now.heavy_keys.get(advice.topic, frozenset())
        return CarriedOut(1 - len(left) / len(heavy)) if heavy else CarriedOut(None, "its heavy keys are not stored")
    if advice.action == CHECK_BROKER:
        return _compare_answers(int(advice.subject.removeprefix("broker ")), then, now)
    name = advice.action.removeprefix("replay:")
    candidate, compared = candidates.get(name), then.compared.get((name, advice.topic), {})
    if candidate is None or not candidate.was_replayed_as(compared.get("definition")):
        is_plan = not advice.action.startswith("replay:")
        return CarriedOut(None, "it does not help" if is_plan else "its candidate is no longer in the configuration")
    if candidate.partitions is not None:
        count, wanted = (len(one.partitions_of(advice.topic)) for one in (now, then))
        return CarriedOut(float(count == candidate.partition_count(wanted)))
    return _compare_sessions(candidate, advice.topic, then, now)


def _compare_answers(broker_id: int, then: PromiseWindow, now: PromiseWindow) -> CarriedOut:
    """Whoever looked at a slow broker mended it when it answers like its peers; of another one nothing shows it."""
    is_slow = now.slow.get(broker_id)
    if not then.slow.get(broker_id) or is_slow is None:
        return CarriedOut(None, "nothing shows whether somebody looked at the broker")
    return CarriedOut(0.0 if is_slow else 1.0)


def _compare_placement(moves: Replicas, now: PromiseWindow) -> CarriedOut:
    if not moves:
        return CarriedOut(None, "its files name no partition that is known")
    if any(now.leaders.get(place, -1) < 0 for place in moves):
        return CarriedOut(None, "leaders of its partitions are not known")
    return CarriedOut(sum(now.leaders[place] == wanted[0] for place, wanted in moves.items()) / len(moves))


def _compare_sessions(candidate: Candidate, topic: str, then: PromiseWindow, now: PromiseWindow) -> CarriedOut:
    """Weighs sessions by records. A session that continues keeps its settings: other inferences are chance."""
    rows = now.sessions.get(topic, ())
    total = sum(row["record_count"] for row in rows)
    if not total:
        return CarriedOut(None, f"no producer of {topic} is known")
    before = {_session(row) for row in then.sessions.get(topic, ()) if row["producer_epoch"] >= 0}
    compared = now.compared.get((candidate.name, topic), {})
    answers = [
        (row, False if _session(row) in before else _shows(row, candidate, compared, now.client_versions))
        for row in rows
    ]
    done, open_ = (sum(row["record_count"] for row, one in answers if one is answer) for answer in (True, None))
    if open_ > (1 - WHOLE) * total:
        return CarriedOut(None, f"batches of {topic} do not show whether its producers changed")
    return CarriedOut(1.0 if done >= WHOLE * total else done / total)


def _session(row: Row) -> tuple[int, int]:
    return row["producer_id"], row["producer_epoch"]


def _shows(row: Row, candidate: Candidate, compared: Row, versions: Mapping[tuple[int, int], str]) -> bool | None:
    version = versions.get(_session(row))
    answers: list[bool | None] = [_shows_setting(row, name, value) for name, value in candidate.config.items()]
    if candidate.client is not None:
        number, wanted = read_kafka_version(version or ""), parse_version(candidate.client.split()[-1])
        answers.append(parse_version(number) >= wanted if number else compared.get("is_as_in_use"))
    if candidate.partitioner is not None:
        strategy, runner_up = row["strategy"], row["runner_up"]
        is_either = (strategy, runner_up) == ("java-builtin", _UNIFORM) and candidate.partitioner != _UNIFORM
        is_sure = strategy is not None and row["confidence"] >= (_SURE / 2 if is_either else _SURE)
        answers.append(strategy == candidate.partitioner if is_sure else _has_by_default(version, candidate))
    if False in answers:
        return False
    return None if None in answers else True


def _has_by_default(version: str | None, candidate: Candidate) -> bool | None:
    """Whether a Java client of a version uses a candidate's strategy unless another is configured; None where not told."""
    name = candidate.partitioner or ""
    use = next((use for use in STRATEGIES[name].uses if use.is_default), None) if name.startswith("java-") else None
    number = read_kafka_version(version or "")
    return use.covers(number) if use is not None and number else None


def _shows_setting(row: Row, name: str, value: str | None) -> bool | None:
    """Compares the stored value; another value rules the change out only outside the bounds from the batches."""
    held, source = dict(row["settings"]).get(name), dict(row["setting_sources"]).get(name, "")
    if held is None or value is None or source.startswith("unknown"):
        return None
    wanted, found = _number(value), _number(held)
    if wanted is None or found is None:
        return bool(held == value)
    bounds = re.search(r", (\S+) (?:to (\S+)|or more)$", source)
    if wanted == found or bounds is None:
        return wanted == found
    high = float("inf") if bounds[2] is None else float(bounds[2])
    return None if float(bounds[1]) <= wanted < high else False


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None

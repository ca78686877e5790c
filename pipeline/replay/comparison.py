"""A candidate next to the current setup, for one topic in one window: the row of `gold.scenario_comparison`."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from pipeline.calibration.caveats import Caveat, Origin, Statement, join_statements
from pipeline.calibration.limits import SHARE_BAR_POINTS
from pipeline.config.replay import IN_USE
from pipeline.model.promise import Trust, format_trust
from pipeline.partitioners.registry import STRATEGIES
from pipeline.replay.back_tests import LATENCY, SHARES, TRUSTS, doubt_width
from pipeline.replay.keyed.sums import KeyTotals
from pipeline.replay.keyed.topics import AS_RECORDED, BaselineSource, KeyedOutcome, KeyedTopic
from pipeline.replay.loads import Estimate, count_seeds, known_loads, measure_effective_partitions, measure_peak_to_mean
from pipeline.replay.recorded import RecordedTopic
from pipeline.replay.simulated.plan import FAMILY_OF
from pipeline.replay.simulated.runs import CELL_LOG_BYTES
from pipeline.replay.simulated.topics import SimulatedTopic
from pipeline.replay.topics import CandidateOutcome, ReplayedTopic

Row = dict[str, Any]

SIMULATED = "simulated"  # what became of records without a key
TOP_KEYS_LISTED = 5
SHORT_ID = 8  # hex digits of a key's id that are shown
# Assumptions of the keyed replay that a simulation does without.
_OVERCOME = frozenset({Caveat.KEYLESS_STAYS, Caveat.KEYS_AS_RECORDED})
_UNTOLD = frozenset({Caveat.COMMITS_UNKNOWN, Caveat.RACKS_DRAWN})
_SOURCES = {Origin.CONFIGURED: BaselineSource.CONFIGURATION, Origin.INFERRED: BaselineSource.BATCHES}


def comparison_row(topic: ReplayedTopic, outcome: CandidateOutcome, tested: Row) -> Row:
    """The row of `gold.scenario_comparison`; `tested` is that of the back-test."""
    runs, placing, keys = outcome.runs, outcome.placing_runs, outcome.keys
    row = _describe_recorded(topic, outcome)
    if topic.keyed is not None and keys is not None and keys.strategy is not None:
        broker_peak = topic.recorded.draw_leaders(keys.partition_count).measure_peak(keys.sizes)
        row |= {
            "keyless_rule": keys.keyless_rule,
            "unknown_record_count": keys.unknown_record_count,
            **measure_peak_to_mean(keys.sizes).columns("peak_to_mean"),
            **measure_effective_partitions(keys.sizes).columns("effective_partitions"),
            **broker_peak.columns("broker_peak_to_mean"),
            **topic.keyed.measure_floor(keys).columns("floor_peak_to_mean"),
            **_describe_moves(topic.keyed, keys),
        }
    if placing is not None:
        row |= {
            "partitioner": outcome.partitioner,
            "partition_count": placing.partition_count,
            "keyless_rule": SIMULATED,
            "unknown_record_count": 0,
            **placing.peak_to_mean(of_brokers=False).columns("peak_to_mean"),
            **placing.effective_partitions().columns("effective_partitions"),
            **placing.peak_to_mean(of_brokers=True).columns("broker_peak_to_mean"),
        }
    if runs is not None:
        row |= {**_describe_runs(runs), "is_as_in_use": outcome.is_as_in_use}
    of_keys = [
        caveats for caveats in (keys.assumptions if keys else ()) if placing is None or caveats.kind not in _OVERCOME
    ]
    caveats = (*of_keys, *outcome.assumptions, *_limit_back_test(topic, outcome), *topic.concerns.assumptions)
    row |= _describe_baseline(topic, by_keys=keys is not None and placing is None)
    return row | {"assumptions": join_statements(caveats)} | _describe_trusts(topic, outcome, tested)


def _describe_recorded(topic: ReplayedTopic, outcome: CandidateOutcome) -> Row:
    """What was recorded: by keys where they say something of the candidate, else by the traffic of partitions."""
    recorded, keyed, keys = topic.recorded, topic.keyed, outcome.keys
    records, sizes, count = recorded.records, recorded.sizes, recorded.partition_count
    if keyed is not None and keys is not None:
        (records, sizes), count = np.ascontiguousarray(keyed.recorded.T), keyed.partition_count
    totals = keyed.sums.keys if keyed else KeyTotals()
    loads = known_loads(sizes)
    row: Row = {
        "baseline_partition_count": count,
        "partition_count": keys.partition_count if keys else count,
        "partitioner": keys.strategy if keys else None,
        "record_count": int(records.sum()),
        "size_bytes": int(sizes.sum()),
        "key_count": totals.key_count,
        "keyed_record_count": totals.record_count,
        "keyed_size_bytes": totals.size_bytes,
        "keyless_record_count": recorded.keyless_count,
        "baseline_peak_to_mean": measure_peak_to_mean(loads).value,
        "baseline_effective_partitions": measure_effective_partitions(loads).value,
        "baseline_broker_peak_to_mean": recorded.draw_leaders(max(recorded.leaders) + 1).measure_peak(loads).value,
        "baseline_records_per_batch": recorded.records_per_batch,
        "top_keys": {},
    }
    if keyed is not None:
        row["top_keys"] = {key.key_id[:SHORT_ID]: key.size_bytes for key in keyed.sums.top_keys[:TOP_KEYS_LISTED]}
        row["floor_peak_to_mean"] = keyed.measure_floor(keyed.outcomes[IN_USE]).value
    return row


def _describe_baseline(topic: ReplayedTopic, *, by_keys: bool) -> Row:
    """The current setup: of keys where there are only such, else of the producer that sent most."""
    known = [session for session in topic.sessions if session.baseline.strategy is not None]
    if topic.keyed is not None and (by_keys or not topic.recorded.keyless_count or not known):
        return {"baseline": topic.keyed.outcomes[IN_USE].strategy, "baseline_source": topic.keyed.baseline_source}
    if not known:
        return {"baseline": AS_RECORDED, "baseline_source": BaselineSource.NONE}
    baseline = max(known, key=lambda session: session.record_count).baseline
    simulated = next((outcome.partitioner for outcome in topic.outcomes if outcome.is_baseline), None)
    return {
        "baseline": simulated or baseline.strategy,
        "baseline_source": _SOURCES.get(baseline.source, BaselineSource.NONE),
    }


def _describe_moves(topic: KeyedTopic, keys: KeyedOutcome) -> Row:
    """Keys and bytes that change partition, and those whose order a switch puts at risk."""
    moves, totals = keys.moves, topic.sums.keys
    at_risk = moves.at_risk_keys, moves.at_risk_records, moves.at_risk_bytes
    risk_names = ("at_risk_key_count", "at_risk_record_count", "at_risk_size_bytes")
    moved_records = Estimate(moves.moved_records, moves.moved_records, moves.moved_records + keys.unknown_record_count)
    moved_bytes = Estimate(moves.moved_bytes, moves.moved_bytes, moves.moved_bytes + keys.unknown_size_bytes)
    return {
        "refused_record_count": moves.refused_records,
        "moved_key_count": moves.moved_keys,
        "keys_moved_ratio": moves.moved_keys / totals.key_count if totals.key_count else None,
        **moved_records.columns("moved_record_count"),
        **moved_bytes.columns("moved_size_bytes"),
        "bytes_moved_ratio": moves.moved_bytes / totals.size_bytes if totals.size_bytes else None,
        **dict(zip(risk_names, at_risk if topic.has_window_before else (None,) * 3, strict=True)),
    }


def _describe_runs(runs: SimulatedTopic) -> Row:
    """What only a simulation gives: batches, throughput, latency."""
    replayed = count_seeds(run.done_count + run.failed_count + run.refused_count for run in runs.runs.values())
    lost = count_seeds(run.failed_count + run.refused_count for run in runs.runs.values())
    low, median, high = (int(part.sum()) for part in runs.log_sizes)
    return {
        "seed_count": len(runs.runs),
        "replayed_record_count_low": replayed.low,
        "replayed_record_count_high": replayed.high,
        **lost.columns("lost_record_count"),
        **Estimate(median, low, high).columns("log_size_bytes"),
        **runs.records_per_batch().columns("records_per_batch"),
        **runs.throughput_per_s().columns("throughput_records_per_s"),
        **runs.latency_p50_ms().columns("latency_p50_ms"),
    }


def _describe_trusts(topic: ReplayedTopic, outcome: CandidateOutcome, tested: Row) -> Row:
    """Trust of each question: in the current setup, as tested, and doubt about the candidate's own runs.

    A change may be larger than all that shares are off by, so that its direction is clear where they are not.
    """
    if outcome.runs is None:
        if topic.recorded.keyless_count or outcome.keys is None or outcome.keys.strategy is None:
            return {SHARES: format_trust(outcome.reason or "it could not be simulated")}
        # keys say where every record goes, as far as they are known
        doubts = [*topic.concerns.log_reasons, *_doubt_keys(topic, outcome.keys)]
        return {SHARES: format_trust(join_statements(doubts))}
    trusts = {name: tested[name] for name in TRUSTS}
    if outcome.is_baseline:
        return trusts
    # of what nobody knows, drawn evenly or left out
    untold = [one for one in outcome.assumptions if one.kind in _UNTOLD]
    trusts = {name: _add_doubt(trust, untold) for name, trust in trusts.items()}
    doubt_keys = (
        _doubt_unstored(topic, outcome, outcome.runs) if outcome.keys is None else _doubt_keys(topic, outcome.keys)
    )
    of_keys = [] if outcome.is_as_in_use else list(doubt_keys)
    trusts[SHARES] = _add_doubt(trusts[SHARES], [*of_keys, *doubt_width(outcome.runs)])
    in_use = next((one.runs for one in topic.outcomes if one.is_baseline), None)
    if in_use is not None and not outcome.is_as_in_use:
        doubts = [*topic.concerns.reasons, *untold, *of_keys, *_doubt_direction(topic.recorded, in_use, outcome.runs)]
        trusts["direction_trust"] = format_trust(join_statements(doubts))
        trusts[LATENCY] = _add_doubt(trusts[LATENCY], [Caveat.LATENCY_OF_OTHERS.say()])
    return trusts


def _doubt_keys(topic: ReplayedTopic, keys: KeyedOutcome) -> Iterator[Statement]:
    """Keys whose hash is not known, which stay where they were also in a simulation; or that a configured strategy did not place."""
    record_count = int(topic.recorded.records.sum())
    few = SHARE_BAR_POINTS / 100 * record_count
    if topic.keyed is not None and topic.keyed.baseline_source is BaselineSource.CONFIGURATION:
        in_use = topic.keyed.outcomes[IN_USE]
        if keys.strategy == in_use.strategy and in_use.moves.moved_records > few:
            yield Caveat.OTHER_PLACES.say(strategy=in_use.strategy, count=in_use.moves.moved_records)
    if keys.strategy is None and record_count - topic.recorded.keyless_count > few:
        yield Caveat.NOT_REPLAYABLE.say()
    counts = {Caveat.KEYS_UNKNOWN: keys.unknown_record_count, Caveat.KEYS_UNANSWERED: keys.moves.unanswered_records}
    yield from (caveat.say(count=count) for caveat, count in counts.items() if count > few)


def _doubt_unstored(topic: ReplayedTopic, outcome: CandidateOutcome, runs: SimulatedTopic) -> Iterator[Statement]:
    """Keys that are not stored (`keys.mode: off`): a run leaves their records where they were, whatever would move them."""
    count = int(topic.recorded.records.sum()) - topic.recorded.keyless_count
    in_use = next((one.partitioner for one in topic.outcomes if one.is_baseline), None)
    own, was = STRATEGIES.get(outcome.partitioner or ""), FAMILY_OF.get(in_use or "")
    is_moved = own is not None and not own.ignores_keys and FAMILY_OF.get(own.name) != was
    is_moved |= runs.partition_count != topic.recorded.partition_count
    if is_moved and count > SHARE_BAR_POINTS / 100 * topic.recorded.records.sum():
        yield Caveat.KEYS_UNKNOWN.say(count=count)


def _add_doubt(trust: str, doubts: Iterable[Statement]) -> str:
    doubt = join_statements(doubts)
    if not doubt or Trust.of(trust) is Trust.TRUSTED:
        return format_trust(doubt) if doubt else trust
    return f"{trust}; {doubt}"


def _doubt_direction(recorded: RecordedTopic, in_use: SimulatedTopic, runs: SimulatedTopic) -> Iterator[Statement]:
    """Two further runs, each anywhere in its own range, may well differ by as much where nothing changes."""
    hottest = max(recorded.broker_log_sizes, key=lambda one: (recorded.broker_log_sizes[one], -one), default=-1)
    if hottest not in in_use.broker_ids or hottest not in runs.broker_ids:
        return
    now, then = (
        each.shares(CELL_LOG_BYTES, of_brokers=True)[each.broker_ids.index(hottest)] for each in (in_use, runs)
    )
    change = 100 * ((then.value or 0.0) - (now.value or 0.0))
    open_points = 50 * math.hypot(*((each.high or 0.0) - (each.low or 0.0) for each in (now, then)))
    if abs(change) <= open_points:
        yield Caveat.WITHIN_RANGES.say(broker=hottest, change=change, open=open_points)


def _limit_back_test(topic: ReplayedTopic, outcome: CandidateOutcome) -> Iterator[Statement]:
    """A back-test speaks for the current partitioner, another one is predicted by its code alone."""
    in_use = sorted({session.baseline.strategy for session in topic.sessions if session.baseline.strategy})
    if outcome.placing_runs is not None and outcome.partitioner and in_use and outcome.partitioner not in in_use:
        yield Caveat.PARTITIONER_NOT_TESTED.say(candidate=outcome.partitioner, in_use=" and ".join(in_use))

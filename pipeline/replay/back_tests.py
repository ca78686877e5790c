"""The back-test: the current setup, predicted like any candidate, next to what was observed; and whether that is near enough.

Each question has a trust of its own: shares, records per batch and latency. What was recorded may be a reason against all of
them; else one that is predicted badly takes nothing from the others.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from pipeline.calibration.caveats import Caveat, Origin, Statement, join_statements
from pipeline.calibration.limits import ALIKE, BATCH_BAR, MOST_STRAY, SHARE_BAR_POINTS, WIDEST_BAR_POINTS
from pipeline.measures.chance import CHANCE_LEVEL
from pipeline.model.promise import Trust, format_trust
from pipeline.replay.concerns import Concerns
from pipeline.replay.loads import Estimate
from pipeline.replay.recorded import RecordedTopic, Sessions
from pipeline.replay.simulated.runs import CELL_LOG_BYTES
from pipeline.replay.simulated.topics import SimulatedTopic

Row = dict[str, Any]

TRUSTS = SHARES, BATCHES, LATENCY = ("trust", "batches_trust", "latency_trust")
"""Columns: whether what is predicted of shares, of records per batch and of latency is trusted."""
_MOST_SETTINGS = 12


def back_test(
    recorded: RecordedTopic,
    simulated: SimulatedTopic | None,
    sessions: Sessions,
    latency_avg_ms: float | None,
    concerns: Concerns,
) -> Row:
    """The row of `gold.back_tests`; `simulated` is the current setup, or None; `latency_avg_ms` as `ReplayedTopic` has it."""
    row: Row = {
        **_describe_baseline(sessions),
        "session_count": len(sessions),
        "seed_count": 0,
        "observed_records_per_batch": recorded.records_per_batch,
        "observed_latency_avg_ms": latency_avg_ms,
    }
    reasons = list(concerns.reasons)
    doubts: dict[str, list[Statement]] = {name: [] for name in TRUSTS}
    if simulated is None:
        reasons = reasons or [Caveat.NOT_PREDICTED.say()]
    else:
        shares, doubts[SHARES] = _compare_shares(recorded, simulated)
        row |= {"seed_count": len(simulated.runs), **shares}
        row |= _compare("records_per_batch", "", recorded.records_per_batch, simulated.records_per_batch())
        row |= _compare("latency_avg", "_ms", latency_avg_ms, simulated.client_latency_ms())
        doubts[SHARES] += doubt_width(simulated)
        if _is_off(ratio := row.get("records_per_batch_ratio"), BATCH_BAR):
            doubts[BATCHES].append(Caveat.BATCHES_OFF.say(ratio=ratio))
        if (ratio := row.get("latency_avg_ratio")) is None:
            doubts[LATENCY].append(Caveat.LATENCY_NOT_TESTED.say())
        elif _is_off(ratio, ALIKE):
            doubts[LATENCY].append(Caveat.MEAN_LATENCY_OFF.say(ratio=ratio))
    row["assumptions"] = join_statements(concerns.assumptions)
    row |= {name: format_trust(join_statements([*reasons, *doubts_of_it])) for name, doubts_of_it in doubts.items()}
    return {**row, "is_trusted": row[SHARES] == Trust.TRUSTED}


def _describe_baseline(sessions: Sessions) -> Row:
    if not sessions:
        return {"partitioner_source": Origin.NONE, "client": "", "runner_up": "", "settings": {}}
    baseline = max(sessions, key=lambda session: session.record_count).baseline
    settings = sorted(baseline.settings.items())[:_MOST_SETTINGS]
    return {
        "partitioner": baseline.strategy,
        "partitioner_source": baseline.source,
        "client": f"{baseline.client} {baseline.version}".strip(),
        "confidence": baseline.confidence,
        "runner_up": baseline.runner_up,
        "settings": {name: f"{setting.value} ({setting.source})" for name, setting in settings},
    }


def _compare_shares(recorded: RecordedTopic, simulated: SimulatedTopic) -> tuple[Row, list[Statement]]:
    """Shares in the log's bytes, the broker's whose share is worst, and doubt where a broker's or partition's is too far off."""
    reach, row, doubts = NormalDist().inv_cdf(1 - CHANCE_LEVEL), Row(), list[Statement]()
    sizes: dict[str, Mapping[int, int]] = {
        "broker": {one: recorded.broker_log_sizes.get(one, 0) for one in simulated.broker_ids},
        "partition": dict(enumerate(recorded.log_sizes[: simulated.partition_count].tolist())),
    }
    for place, sizes_there in sizes.items():
        if not (total := sum(sizes_there.values())):
            continue
        shares = simulated.shares(CELL_LOG_BYTES, of_brokers=place == "broker")[: len(sizes_there)]
        seen = [size / total for size in sizes_there.values()]
        errors = [100 * abs((one.value or 0.0) - was) for one, was in zip(shares, seen, strict=True)]
        deviations = simulated.share_deviations(of_brokers=place == "broker")[: len(seen)]
        bars = [min(max(SHARE_BAR_POINTS, 100 * reach * one), WIDEST_BAR_POINTS) for one in deviations]
        worst = max(range(len(errors)), key=lambda number: (errors[number] - bars[number], -number))
        number, error, bar = list(sizes_there)[worst], errors[worst], bars[worst]
        if error > bar:
            doubts.append(Caveat.SHARE_OFF.say(place=f"{place} {number}", error=error, bar=bar))
        if place == "broker":
            row = {
                "judged_on": "all minutes",
                "broker_id": number,
                "observed_share": seen[worst],
                **shares[worst].columns("predicted_share"),
                "share_error_points": error,
                "share_bar_points": bar,
            }
        else:
            row["partition_share_error_points"] = max(errors)
    return row, doubts


def _compare(name: str, unit: str, observed: float | None, predicted: Estimate) -> Row:
    ratio = predicted.value / observed if observed and predicted.value is not None else None
    return {**predicted.columns(f"predicted_{name}{unit}"), f"{name}_ratio": ratio}


def _is_off(ratio: float | None, bar: float) -> bool:
    return ratio is not None and not 1 - bar <= ratio <= 1 + bar


def doubt_width(simulated: SimulatedTopic) -> Iterator[Statement]:
    """Says so where runs differ too much to predict any broker's share."""
    shares = zip(simulated.broker_ids, simulated.shares(CELL_LOG_BYTES, of_brokers=True), strict=True)
    widths = ((((share.high or 0.0) - (share.low or 0.0)) * 100, broker_id) for broker_id, share in shares)
    width, broker_id = max(widths, default=(0.0, -1))
    if width > 2 * WIDEST_BAR_POINTS:
        yield Caveat.TOO_UNCERTAIN.say(broker=broker_id, width=width, most=2 * WIDEST_BAR_POINTS)


def weigh_latency(parts: Sequence[tuple[int, float | None]]) -> float | None:
    """The mean over producers, by records; None where it is not known of 5 % of the records or more."""
    known = [(count, latency) for count, latency in parts if latency is not None]
    total = sum(count for count, _ in known)
    if not total or total < (1 - MOST_STRAY) * sum(count for count, _ in parts):
        return None
    return float(np.average([latency for _, latency in known], weights=[count for count, _ in known]))

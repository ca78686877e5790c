"""A prediction held against the run that came: figure by figure, by the bars of the replay."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pipeline.measures.chance import NORMAL_REACH
from pipeline.replay.simulated.topics import MODEL_ERROR
from tests.lab.fidelity.pairs.predict import Range
from tests.lab.fidelity.rows import HOLDS, MISSES, NO_BAR, SHARE_BAR_DEVIATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.replay.simulated.topics import ModelError
    from tests.lab.fidelity.pairs.predict import Prediction

SHARE_POINTS, BACK_TEST_POINTS = 2.0, 1.5
PEAK_PERCENT, BATCHES_PERCENT, THROUGHPUT_PERCENT, LATENCY_PERCENT = 5.0, 15.0, 3.0, 30.0
SHOWN = {
    "records_per_batch": ("records per batch", BATCHES_PERCENT),
    "throughput_records_per_s": ("records/s", THROUGHPUT_PERCENT),
    "latency_p50_ms": ("latency p50, ms", LATENCY_PERCENT),
    "latency_p95_ms": ("latency p95, ms", LATENCY_PERCENT),
    "latency_p99_ms": ("latency p99, ms", LATENCY_PERCENT),
}
LATENCY = "latency"
WRONG_WAY, RIGHT_WAY = "WRONG WAY", "right way"
NOT_CLAIMED = " (not claimed: within the ranges)"
EXACT = "partitions wrong by a record"


@dataclass(frozen=True)
class PairRow:
    """One figure of a pair.

    Attributes:
        figure: What it is.
        before: Of the recorded run.
        after: Of the run that was predicted; the recorded one itself in a back-test.
        predicted: Median and range over the seeds; None where the replay tells nothing.
        off: Of the prediction from the run, in words.
        bar: How much it may be, in words.
        verdict: `HOLDS`, `MISSES` or `NO_BAR`.
        way: Whether the change from before to after was told with its right sign; "" where nothing changed by more than
            the bar, of shares by more than the chance of both runs.
        is_claimed: The predicted change is larger than the ranges of both predictions leave open.
    """

    figure: str
    before: float
    after: float
    predicted: Range | None
    off: str
    bar: str
    verdict: str
    way: str = ""
    is_claimed: bool = False


def compare_change(
    before: Mapping[str, Any], after: Mapping[str, Any], found: Mapping[str, Prediction]
) -> list[PairRow]:
    """The candidate's prediction beside the run under the other clients.

    Args:
        before: Figures of the recorded run, from its manifest.
        after: Figures of the other run, likewise.
        found: The replay's results: ``in-use`` and ``after``.
    """
    return _compare(before, after, found["after"], found["in-use"], SHARE_POINTS)


def compare_back_test(run: Mapping[str, Any], found: Mapping[str, Prediction]) -> list[PairRow]:
    """What is in use, predicted, beside what was recorded."""
    return _compare(run, run, found["in-use"], None, BACK_TEST_POINTS)


def _compare(
    before: Mapping[str, Any], after: Mapping[str, Any], found: Prediction, base: Prediction | None, points: float
) -> list[PairRow]:
    rows, error = [], MODEL_ERROR
    if base:  # another client's ranges hold what the current setup is off by, too: bars do not
        error = replace(error, share=math.hypot(error.share, _measure_error(share_out(before, "broker"), base)))
    for kind in ("broker", "partition"):
        old, new = share_out(before, kind), share_out(after, kind)
        told = found.brokers if kind == "broker" else found.partitions
        said = (base.brokers if kind == "broker" else base.partitions) if base else {}
        if kind == "partition" and len(new) == len(share_out(after, "broker")):
            continue  # one partition per broker: the same shares
        place_name = "on broker" if kind == "broker" else "in partition"
        rows += [
            _judge_share(
                f"bytes {place_name} {place}, %", old[place], new[place],
                (told[place][1], said[place][1] if said else None), (points, error),
            )
            for place in sorted(new)
        ]  # fmt: skip
        peak = "peak_to_mean" if kind == "partition" else "broker_peak_to_mean"
        peaks = (measure_peak(each, kind) for each in (before, after))
        rows.append(_judge_ratio(f"peak-to-mean of {kind}s", *peaks, _pick(peak, found, base), PEAK_PERCENT))
    rows += [
        _judge_ratio(shown, before[name], after[name], _pick(name, found, base), percent)
        for name, (shown, percent) in SHOWN.items()
        if name in found.figures or not shown.startswith(LATENCY)  # tails are said to be unknown
    ]
    return rows + _judge_keyed(after, found)


def _measure_error(recorded: Mapping[int, float], base: Prediction) -> float:
    """As `SimulatedTopic.share_error`, chance included: of brokers, by which the current setup is off."""
    ranges = {place: told.scale(100) for place, (_, told) in base.brokers.items() if told is not None}
    squares = [
        (told.median - recorded.get(place, 0.0)) ** 2 / (told.median * (100 - told.median))
        for place, told in ranges.items()
        if 0 < told.median < 100
    ]
    return math.sqrt(sum(squares) / len(squares)) if squares else 0.0


def share_out(figures: Mapping[str, Any], kind: str) -> dict[int, float]:
    """Percent of the log's bytes by partition or by leader."""
    return _share_out([each["size_bytes"] for each in figures["partitions"]], figures, kind)


def measure_peak(figures: Mapping[str, Any], kind: str) -> float:
    """The largest over the mean, as the replay counts: records' bytes before compression, batch headers left out."""
    shares = _share_out([each["plain_bytes"] for each in figures["partitions"]], figures, kind)
    count = figures.get("broker_count", len(shares)) if kind == "broker" else len(shares)
    return count * max(shares.values()) / 100


def _share_out(sizes: Sequence[int], figures: Mapping[str, Any], kind: str) -> dict[int, float]:
    summed: dict[int, int] = {}
    for partition, (size, each) in enumerate(zip(sizes, figures["partitions"], strict=True)):
        place = each["leader"] if kind == "broker" else partition
        summed[place] = summed.get(place, 0) + size
    return {place: 100 * size / sum(summed.values()) for place, size in summed.items()}


def _judge_share(
    figure: str, before: float, after: float, told: tuple[Range | None, Range | None], allowed: tuple[float, ModelError]
) -> PairRow:
    (points, error), (found, base) = allowed, (each.scale(100) if each else None for each in told)
    if found is None:
        return PairRow(figure, before, after, None, "", "", MISSES)
    deviation = _find_chance(found, error)
    bar = max(points, SHARE_BAR_DEVIATIONS * deviation)
    off = found.median - after
    verdict = HOLDS if abs(off) <= bar else MISSES
    chance = SHARE_BAR_DEVIATIONS * math.hypot(deviation, _find_chance(base, MODEL_ERROR) if base else 0.0)
    way = _judge_way(after - before, max(points, chance), found, base)
    claimed = is_claimed(found, base)
    return PairRow(figure, before, after, found, f"{off:+.1f} pt", f"{bar:.1f} pt", verdict, way, claimed)


def _find_chance(share: Range, error: ModelError) -> float:
    """The seeds' deviation in points: that of the range without the model's own error, which widens no bar."""
    own = 2 * NORMAL_REACH * error.share * math.sqrt(share.median * (100 - share.median))
    return math.sqrt(max(0.0, (share.high - share.low) ** 2 - own**2)) / share.span


def _pick(name: str, found: Prediction, base: Prediction | None) -> tuple[Range | None, Range | None]:
    return found.figures.get(name), base.figures.get(name) if base else None


def _judge_keyed(after: Mapping[str, Any], found: Prediction) -> list[PairRow]:
    """Where keys alone decide, no seed differs: every partition's records, exactly."""
    told = [found.records.get(partition) for partition in range(len(after["partitions"]))]
    if not all(each and each.low == each.high for each in told):
        return []
    pairs = zip(told, after["partitions"], strict=True)
    wrong = sum(each is None or each.median != real["record_count"] for each, real in pairs)
    verdict = MISSES if wrong else HOLDS
    return [PairRow(EXACT, 0, 0, Range(wrong, wrong, wrong), str(wrong), "exact", verdict)]


def _judge_ratio(
    figure: str, before: float, after: float, told: tuple[Range | None, Range | None], percent: float
) -> PairRow:
    found, base = told
    if found is None:
        return PairRow(figure, before, after, None, "", "", MISSES)
    off = (found.median / after - 1) * 100
    verdict = HOLDS if abs(off) <= percent else MISSES
    way = _judge_way(after - before, percent / 100 * max(after, before), found, base)
    claimed = is_claimed(found, base)
    return PairRow(figure, before, after, found, f"{off:+.1f} %", f"{percent:g} %", verdict, way, claimed)


def _judge_way(change: float, bar: float, found: Range, base: Range | None) -> str:
    """As the comparison shows it: the candidate beside what is in use, both predicted."""
    if base is None or abs(change) <= bar:
        return ""
    return RIGHT_WAY if (found.median - base.median) * change > 0 else WRONG_WAY


def is_claimed(found: Range, base: Range | None) -> bool:
    """Two further runs, each by chance anywhere in its own range, differ by less nine times of ten where nothing changes."""
    if base is None:
        return False
    halves = ((each.high - each.low) / 2 for each in (found, base))
    return abs(found.median - base.median) > math.hypot(*halves)


def format_rows(title: str, rows: Sequence[PairRow]) -> str:
    """A table."""
    head = f"{'':28}{'before':>9}{'after':>9}{'replayed':>10}  {'nine times of ten':>19}{'off by':>10}{'bar':>9}"
    lines = [title, head]
    for row in rows:
        replayed = span = "-"
        if row.predicted:
            replayed, low, high = map(_number, (row.predicted.median, row.predicted.low, row.predicted.high))
            span = "" if row.predicted.low != row.predicted.low else f"{low} .. {high}"
        lines.append(
            f"  {row.figure:26}{_number(row.before):>9}{_number(row.after):>9}{replayed:>10}  {span:>19}"
            f"{row.off:>10}{row.bar:>9}  {row.verdict:8}{row.way}{'' if row.is_claimed or not row.way else NOT_CLAIMED}".rstrip()
        )
    return "\n".join(lines)


def format_verdict(rows: Sequence[PairRow]) -> str:
    """How many figures hold, and how many changes have the right sign."""
    verdicts = [row.verdict for row in rows]
    ways = [row.way for row in rows if row.way]
    return (
        f"{verdicts.count(HOLDS)} figures hold their bar, {verdicts.count(MISSES)} miss it, {verdicts.count(NO_BAR)} have none; "
        f"{ways.count(RIGHT_WAY)} of {len(ways)} changes beyond the bar have the right sign"
    )


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"

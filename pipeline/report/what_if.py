"""Charts of the replay: observed, back-test and candidates side by side, and what to do."""

from collections import Counter
from collections.abc import Callable

from pipeline.model.number_text import format_bytes, format_ms, format_name, format_percent, format_ratio
from pipeline.report.answers import Answer, AnswerRow
from pipeline.report.brokers import NONE, known
from pipeline.report.marks import ChartRow, Legend, Mark, Scale, TableChart, scale_over
from pipeline.report.topics import NAME_LENGTH

_TRUSTED = "trusted"


def with_range(value: float | None, low: float | None, high: float | None, write: Callable[[float], str]) -> str:
    """A prediction and its range, the range where it is wider than the digits shown; a line breaks only between them."""
    if value is None:
        return NONE
    if low is None or high is None or write(low) == write(high):
        return write(value)
    return " ".join(
        part.replace(" ", "\N{NO-BREAK SPACE}") for part in (write(value), f"[{write(low)} to {write(high)}]")
    )


def draw_advice(answer: Answer) -> TableChart | None:
    """Draws recommendations with the predicted share ratio; None where there are none."""
    if not answer.rows:
        return None
    values = [row[name] for row in answer.rows for name in ("share_ratio", "predicted_ratio_high")]
    scale = scale_over(values)
    rows, subject = [], ""
    for row in answer.rows:
        is_first, subject = row["subject"] != subject, row["subject"]
        rows.append(
            ChartRow(
                cells=(
                    f"{row['rank']}. {row['title'].replace('`', '')}",
                    with_range(
                        row["predicted_ratio"], row["predicted_ratio_low"], row["predicted_ratio_high"], format_ratio
                    ),
                    "yes" if row["is_enough"] else "no",
                    format_bytes(row["moved_bytes"]) if row["moved_bytes"] else "nothing",
                ),
                marks=_ratio_marks(row, scale),
                is_marked=bool(row["is_enough"]) and row["rank"] == 1,
                key=row["topic"],
                group=f"{subject}, now at {format_ratio(row['share_ratio'])}" if is_first else "",
                note=row["text"].replace("`", ""),
            )
        )
    return TableChart(
        answer=answer,
        title="What to do, and what each action would bring",
        says="Share over fair share of the broker, had the window's traffic met the action; best first.",
        columns=("action", "ratio after", "enough", "copies"),
        texts=frozenset({2}),
        rows=rows,
        legend=_RANGE_LEGEND,
    )


def draw_promises(answer: Answer) -> TableChart | None:
    """Draws earlier advice: promised beside actual, and the score of its kind; None where there was none."""
    if not answer.rows:
        return None
    names = ("share_ratio", "corrected_ratio_high", "without_ratio", "actual_ratio")
    scale = scale_over([row[name] for row in answer.rows for name in names])
    counts = Counter(row["outcome"] for row in answer.rows)
    done = counts["kept"] + counts["broken"]
    return TableChart(
        answer=answer,
        title="What became of earlier advice",
        says=f"{counts['kept']} of {done} promises that can be judged were kept; {counts['not_carried_out']} were not carried "
        "out. Promised: share over fair share on the traffic of the window that judges, volumes and other topics as they are.",
        columns=("action", "promised", "without", "it is", "outcome", "its kind so far"),
        texts=frozenset({4, 5}),
        rows=[_promise_row(row, scale) for row in answer.rows],
        legend=(*_RANGE_LEGEND, Legend(kind="limit", text="without the advice")),
    )


def _promise_row(row: AnswerRow, scale: Scale) -> ChartRow:
    marks = [scale.point("fair", 1.0)]
    if row["corrected_ratio"] is not None:
        marks += [
            scale.area("range", row["corrected_ratio_low"], row["corrected_ratio_high"]),
            scale.point("limit", row["without_ratio"], f"without {format_ratio(row['without_ratio'])}"),
            scale.point("observed", row["actual_ratio"], f"observed {format_ratio(row['actual_ratio'])}"),
            scale.point("dot", row["corrected_ratio"], f"promised {format_ratio(row['corrected_ratio'])}"),
        ]
    low, high = row["corrected_ratio_low"], row["corrected_ratio_high"]
    return ChartRow(
        cells=(
            f"{row['subject']}: {row['title'].replace('`', '')}",
            with_range(row["corrected_ratio"], low, high, format_ratio),
            known(row["without_ratio"], format_ratio),
            known(row["actual_ratio"], format_ratio),
            row["outcome"].replace("_", " "),
            f"{row['kept_count']} kept, {row['broken_count']} broken",
        ),
        marks=tuple(marks),
        is_marked=row["outcome"] == "broken",
        key=row["topic"],
        note=row["reason"],
    )


_RANGE_LEGEND = (
    Legend(kind="observed", text="observed"),
    Legend(kind="dot", text="predicted"),
    Legend(kind="range", text="range: nine real runs of ten lie in it"),
    Legend(kind="fair", text="even: 1.00x"),
)


def _ratio_marks(row: AnswerRow, scale: Scale) -> tuple[Mark, ...]:
    if row["predicted_ratio"] is None:
        observed = f"observed {format_ratio(row['share_ratio'])}"
        return (scale.point("fair", 1.0), scale.point("observed", row["share_ratio"], observed))
    return (
        scale.point("fair", 1.0),
        scale.area("range", row["predicted_ratio_low"], row["predicted_ratio_high"]),
        scale.point("observed", row["share_ratio"], f"observed {format_ratio(row['share_ratio'])}"),
        scale.point("dot", row["predicted_ratio"], f"predicted {format_ratio(row['predicted_ratio'])}"),
    )


def draw_replay(answer: Answer) -> TableChart | None:
    """Per topic what was observed, the back-test and each candidate; None where nothing was replayed."""
    if not answer.rows:
        return None
    names = ("observed_peak", "peak_low", "peak_high")
    highest = max((row[name] for row in answer.rows for name in names if row[name] is not None), default=1.0)
    scale = Scale(1.0, max(highest * 1.02, 1.1))
    rows, topic = [], None
    for row in answer.rows:
        is_first, topic = row["topic"] != topic, row["topic"]
        group = ""
        if is_first:
            group = f"{format_name(topic, NAME_LENGTH)}: observed {known(row['observed_peak'], format_ratio)}"
        rows.append(_candidate_row(row, scale, group))
    trusted = sum(row["trust"] == _TRUSTED for row in answer.rows if row["is_baseline"])
    count = sum(bool(row["is_baseline"]) for row in answer.rows)
    return TableChart(
        answer=answer,
        title="Observed, back-test, candidates",
        says=f"The topic's highest broker over the mean one, for the {count} topics with most bytes. The current setup is predicted "
        f"as well: that back-test can be trusted for {trusted} of {count} topics.",
        columns=("candidate", "highest broker", "keys moved", "half within", "records per batch", "trust"),
        texts=frozenset({5}),
        rows=rows,
        legend=_RANGE_LEGEND,
    )


def _candidate_row(row: AnswerRow, scale: Scale, group: str) -> ChartRow:
    marks = []
    if row["peak"] is not None:
        low, high = (row["peak"] if row[name] is None else row[name] for name in ("peak_low", "peak_high"))
        marks = [
            scale.area("range", low, high),
            scale.point("dot", row["peak"], f"predicted {format_ratio(row['peak'])}"),
        ]
    if row["observed_peak"] is not None:
        marks.insert(0, scale.point("observed", row["observed_peak"], f"observed {format_ratio(row['observed_peak'])}"))
    return ChartRow(
        cells=(
            "back-test" if row["is_baseline"] else format_name(row["candidate"], NAME_LENGTH),
            with_range(row["peak"], row["peak_low"], row["peak_high"], format_ratio),
            known(row["keys_moved_ratio"], format_percent),
            _if_trusted(
                row["latency_trust"],
                with_range(row["latency_p50_ms"], row["latency_p50_ms_low"], row["latency_p50_ms_high"], format_ms),
            ),
            _if_trusted(row["batches_trust"], known(row["records_per_batch"], lambda count: f"{count:.1f}")),
            NONE if row["trust"] is None else "yes" if row["trust"] == _TRUSTED else "no",
        ),
        marks=tuple(marks),
        is_marked=bool(row["is_baseline"]),
        key=row["topic"],
        group=group,
        note="" if row["trust"] in {None, _TRUSTED} or not row["is_baseline"] else row["trust"],
    )


def _if_trusted(trust: str | None, text: str) -> str:
    return text if trust in {None, _TRUSTED} else "unknown"


def draw_back_tests(answer: Answer) -> TableChart | None:
    """The current setup: predicted beside observed, for each topic; None where nothing was predicted."""
    rows = [row for row in answer.rows if row["observed_share"] is not None and row["predicted_share"] is not None]
    if not rows:
        return None
    scale = scale_over([row[name] for row in rows for name in ("observed_share", "predicted_share_high")])
    trusted = sum(bool(row["is_trusted"]) for row in rows)
    return TableChart(
        answer=answer,
        title="Can these predictions be trusted?",
        says=f"Back-tests of {trusted} of {len(rows)} topics hold: the share of the broker predicted worst is within its bar.",
        columns=("topic", "predicted", "observed", "error, points", "may be", "current partitioner", "trusted"),
        texts=frozenset({5, 6}),
        rows=[_back_test_row(row, scale) for row in rows],
        legend=_RANGE_LEGEND[:3],
    )


def _back_test_row(row: AnswerRow, scale: Scale) -> ChartRow:
    low, high = row["predicted_share_low"], row["predicted_share_high"]
    predicted, observed = row["predicted_share"], row["observed_share"]
    marks = [scale.point("observed", observed, f"observed {format_percent(observed, 1)}")]
    if low is not None and high is not None:
        marks.append(scale.area("range", low, high))
    marks.append(scale.point("dot", predicted, f"predicted {format_percent(predicted, 1)}"))
    return ChartRow(
        cells=(
            format_name(row["topic"], NAME_LENGTH),
            with_range(predicted, low, high, lambda share: format_percent(share, 1)),
            format_percent(observed, 1),
            known(row["share_error_points"], lambda points: f"{points:.1f}"),
            known(row["share_bar_points"], lambda points: f"{points:.1f}"),
            f"{row['partitioner'] or 'unknown'} ({row['partitioner_source']})",
            "yes" if row["is_trusted"] else "no",
        ),
        marks=tuple(marks),
        key=row["topic"],
        note="" if row["is_trusted"] else row["trust"] or "",
    )

"""Charts of the replay: observed, back-test and candidates side by side, and what to do."""

from collections import Counter
from collections.abc import Callable
from functools import partial

from pipeline.model.number_text import format_bytes, format_ms, format_percent, format_ratio
from pipeline.model.trust import Trust
from pipeline.report import queries
from pipeline.report.answers import (
    AnswerRow,
    ChartColumn,
    Point,
    Rows,
    Scale,
    TableChart,
    Words,
    format_known,
    format_words,
)
from pipeline.report.brokers import format_share
from pipeline.report.topics import TOPIC, short_name


def ranged(title: str, name: str, write: Callable[[float], str]) -> ChartColumn:
    """A column of predictions with their ranges, the range where it is wider than the digits shown."""

    def write_row(row: AnswerRow) -> str | None:
        value, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
        if value is None or low is None or high is None or write(low) == write(high):
            return None if value is None else write(value)
        parts = write(value), f"[{write(low)} to {write(high)}]"  # a line breaks only between the two
        return " ".join(part.replace(" ", "\N{NO-BREAK SPACE}") for part in parts)

    return ChartColumn(title, write_row)


def _if_trusted(trust: str, column: ChartColumn) -> ChartColumn:
    return ChartColumn(column.title, lambda r: column.text(r) if r[trust] in {None, Trust.TRUSTED} else "unknown", str)


def _prediction(name: str, observed: str, write: Callable[[float], str]) -> tuple[Point, ...]:
    """Marks of a prediction with its range, beside what was observed."""
    return (
        Point("range", f"{name}_high", legend="range: nine real runs of ten lie in it", start=f"{name}_low"),
        Point("observed", observed, write, legend="observed"),
        Point("dot", name, write, "predicted", legend="predicted"),
    )


EVEN = Point("fair", 1.0, legend="even: 1.00x")


def _plain(name: str, row: AnswerRow) -> str:
    return str(row[name]).replace("`", "")


def yes_or_no(value: object) -> str:
    return "yes" if value else "no"


ADVICE = TableChart(
    name="advice", sql=queries.ADVICE, title="What to do, and what each action would bring",
    says="Share over fair share of the broker, had the window's traffic met the action; best first.",
    columns=(
        Words("action", lambda row: f"{row['rank']}. {_plain('title', row)}", str),
        ranged("ratio after", "predicted_ratio", format_ratio),
        Words("enough", "is_enough", yes_or_no),
        ChartColumn("copies", "moved_bytes", lambda moved: format_bytes(moved) if moved else "nothing"),
    ),
    marks=(EVEN, *_prediction("predicted_ratio", "share_ratio", format_ratio)),
    is_marked=lambda row: row["is_enough"] and row["rank"] == 1, key="topic",
    group=lambda row: f"{row['subject']}, now at {format_ratio(row['share_ratio'])}", note=partial(_plain, "text"),
)  # fmt: skip  # a table: short fields share a line


def _say_promises(rows: Rows) -> str:
    counts = Counter(row["outcome"] for row in rows)
    return (
        f"{counts['kept']} of {counts['kept'] + counts['broken']} promises that can be judged were kept; "
        f"{counts['not_carried_out']} were not carried out. Promised: share over fair share on the traffic of the window "
        "that judges, volumes and other topics as they are."
    )


KEPT_PROMISES = TableChart(
    name="promises", sql=queries.PROMISES, title="What became of earlier advice", says=_say_promises,
    columns=(
        Words("action", lambda row: f"{row['subject']}: {_plain('title', row)}", str),
        ranged("promised", "corrected_ratio", format_ratio),
        ChartColumn("without", "without_ratio", format_ratio),
        ChartColumn("it is", "actual_ratio", format_ratio),
        Words("outcome", "outcome", format_words),
        Words("its kind so far", lambda row: f"{row['kept_count']} kept, {row['broken_count']} broken"),
    ),
    marks=(
        EVEN,
        *_prediction("corrected_ratio", "actual_ratio", format_ratio),
        Point("limit", "without_ratio", format_ratio, "without", legend="without the advice"),
    ),
    is_marked=lambda row: row["outcome"] == "broken", key="topic", note="reason",
)  # fmt: skip  # a table: short fields share a line


def _say_replay(rows: Rows) -> str:
    baselines = [row for row in rows if row["is_baseline"]]
    return (
        f"The topic's highest broker over the mean one, for the {len(baselines)} topics with most bytes. The current setup is "
        f"predicted as well: that back-test can be trusted for {sum(row['trust'] == Trust.TRUSTED for row in baselines)} of "
        f"{len(baselines)} topics."
    )


REPLAY = TableChart(
    name="replay", sql=queries.REPLAY, title="Observed, back-test, candidates", says=_say_replay,
    scale=lambda values: Scale(1.0, max([1.02 * value for value in values] + [1.1])),
    columns=(
        Words("candidate", lambda row: "back-test" if row["is_baseline"] else short_name(row["candidate"])),
        ranged("highest broker", "peak", format_ratio),
        ChartColumn("keys moved", "keys_moved_ratio", format_percent),
        _if_trusted("latency_trust", ranged("half within", "latency_p50_ms", format_ms)),
        _if_trusted("batches_trust", ChartColumn("records per batch", "records_per_batch", "{:.1f}".format)),
        Words("trust", "trust", lambda trust: yes_or_no(trust == Trust.TRUSTED)),
    ),
    marks=(*_prediction("peak", "observed_peak", format_ratio),), is_marked="is_baseline", key="topic",
    group=lambda row: f"{short_name(row['topic'])}: observed {format_known(row['observed_peak'], format_ratio)}",
    note=lambda row: row["trust"] if row["is_baseline"] and row["trust"] != Trust.TRUSTED else None,
)  # fmt: skip  # a table: short fields share a line
BACK_TESTS = TableChart(
    name="back_tests", sql=queries.BACK_TESTS, title="Can these predictions be trusted?",
    says=lambda rows: (
        f"Back-tests of {sum(bool(row['is_trusted']) for row in rows)} of {len(rows)} topics hold: the share of the broker "
        "predicted worst is within its bar."
    ),
    select=lambda rows: [row for row in rows if row["observed_share"] is not None and row["predicted_share"] is not None],
    columns=(
        TOPIC,
        ranged("predicted", "predicted_share", format_share),
        ChartColumn("observed", "observed_share", format_share),
        ChartColumn("error, points", "share_error_points", "{:.1f}".format),
        ChartColumn("may be", "share_bar_points", "{:.1f}".format),
        Words("current partitioner", lambda row: f"{row['partitioner'] or 'unknown'} ({row['partitioner_source']})"),
        Words("trusted", "is_trusted", yes_or_no),
    ),
    marks=_prediction("predicted_share", "observed_share", format_share), key="topic",
    note=lambda row: None if row["is_trusted"] else row["trust"],
)  # fmt: skip  # a table: short fields share a line

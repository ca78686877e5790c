"""Rules about what is forecast."""

from collections.abc import Iterator

from pipeline.model.number_text import format_ratio
from pipeline.model.window import milliseconds_of
from pipeline.rules.rule import Row, Rule, RuleInput, RuleMeasure
from pipeline.tables.health import FORECAST

FORECAST_RULE = "share_forecast"


def _share_forecast(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
    """The highest share ratio that a broker will have within a week, by the low end of its range.

    Where no back-test is good enough for a warning, it is measured and not judged.
    """
    highest: dict[tuple[int, str], Row] = {}
    for row in given.rows(FORECAST, 0):
        if row["measure"] == "share_ratio" and row["value_low"] is not None:
            key = (milliseconds_of(row["window_start"]), row["subject"])
            highest[key] = max(row, highest.get(key, row), key=lambda one: (one["is_trusted"], one["value_low"]))
    for (start_ms, subject), row in sorted(highest.items()):
        ratio, low, high = (format_ratio(row[name]) for name in ("value", "value_low", "value_high"))
        tested = f"in the back-test {row['back_test_coverage_ratio'] or 0:.0%} of the hours were in such ranges"
        yield RuleMeasure(
            window_start_ms=start_ms,
            rule=rule,
            subject=subject,
            value=row["value_low"],
            is_enough=row["is_trusted"],
            detail=f"will have {ratio} [{low}, {high}] its fair share on {row['highest_at']:%A %d %B %H:%M} UTC; "
            f"{row['reason'] or tested}",
        )


FORECAST_RULES = (
    Rule(
        name=FORECAST_RULE,
        measure=_share_forecast,
        limit=1.2,
        k=1,
        n=1,
        meaning="a broker will carry more than its share within a week",
        advice="Look at which topics are busy at that hour, and move leaders or replicas before it.",
        doc="highest share ratio of the next seven days, by the low end of its range (`gold.forecast`), where the back-test "
        "is good enough for a warning. The limit is `gate.limit_ratio` unless it is given",
        format=format_ratio,
    ),
)

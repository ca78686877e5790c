"""Rules about what is forecast."""

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from pipeline.model.number_text import format_ratio
from pipeline.rules.rule import Rule, RuleInput, RuleMeasure
from pipeline.tables.health import FORECAST

FORECAST_RULE = "share_forecast"


def _share_forecast(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
    """The highest share ratio that a broker will have within a week, by the low end of its range.

    Where no back-test is good enough for a warning, it is measured and not judged.
    """
    highest: dict[tuple[int, str], list[Any]] = {}
    names = ("is_trusted", "value_low", "value", "value_high", "highest_at", "reason", "back_test_coverage_ratio")
    for start_ms, subject, measure, *row in given.tuples(FORECAST, "window_start_ms", "subject", "measure", *names):
        if measure == "share_ratio" and row[1] is not None:
            key = (start_ms, subject)
            highest[key] = max(row, highest.get(key, row), key=itemgetter(0, 1))
    for (start_ms, subject), (is_trusted, *ends, at, reason, covered) in sorted(highest.items()):
        low, ratio, high = map(format_ratio, ends)
        tested = f"in the back-test {covered or 0:.0%} of the hours were in such ranges"
        yield RuleMeasure(
            window_start_ms=start_ms,
            rule=rule,
            subject=subject,
            value=ends[0],
            is_enough=is_trusted,
            detail=f"will have {ratio} [{low}, {high}] its fair share on {at:%A %d %B %H:%M} UTC; {reason or tested}",
        )


FORECAST_RULES = (
    Rule(
        name=FORECAST_RULE, measure=_share_forecast, limit=1.2, k=1, n=1,
        meaning="a broker will carry more than its share within a week",
        advice="Look at which topics are busy at that hour, and move leaders or replicas before it.",
        doc="low end of the range of the highest share ratio in the next seven days (`gold.forecast`), if the back-test is good "
        "enough for a warning. The limit is `gate.limit_ratio` unless you set another",
        format=format_ratio,
    ),
)  # fmt: skip  # a table: short fields share a line

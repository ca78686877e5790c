"""The rule about availability zones: those of `zones.brokers` in the configuration, else `broker.rack`."""

from collections import defaultdict
from collections.abc import Iterator

from pipeline.measures.chance import chance_p_value
from pipeline.model.number_text import format_name, format_percent, format_ratio
from pipeline.model.window import milliseconds_of
from pipeline.rules.rule import Row, Rule, RuleInput, RuleMeasure
from pipeline.tables.bronze import BROKERS
from pipeline.tables.gold import BROKER_SHARE


def _zone_share(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
    """Part of the bytes that brokers of a zone carry over their part of the capacity; none where fewer than two are known."""
    known = {
        (milliseconds_of(row["window_start"]), row["broker_id"]): given.broker_zones.get(row["broker_id"], row["rack"])
        for row in given.rows(BROKERS, 0)
    }
    zones: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in given.rows(BROKER_SHARE, 0):
        start_ms = milliseconds_of(row["window_start"])
        zone = known.get((start_ms, row["broker_id"]))
        if zone and row["share"] is not None:
            zones[start_ms, zone].append(row)
    counts: dict[int, int] = defaultdict(int)
    for start_ms, _ in zones:
        counts[start_ms] += 1
    for (start_ms, zone), rows in sorted(zones.items()):
        share, fair = (sum(row[name] for row in rows) for name in ("share", "expected_share"))
        if counts[start_ms] > 1 and fair > 0:
            units = rows[0]["effective_unit_count"]
            yield RuleMeasure(
                window_start_ms=start_ms,
                rule=rule,
                subject=f"zone {format_name(zone)}",
                value=share / fair,
                p_value=chance_p_value(share / fair, fair, units) if units and fair < 1 else None,
                is_enough=bool(units),
                detail=f"carries {format_percent(share)} of the bytes with {format_percent(fair)} of the capacity",
            )


ZONE_RULES = (
    Rule(
        name="zone_share",
        measure=_zone_share,
        limit=1.3,
        meaning="a zone carries more than its part of the capacity",
        advice="`partition-health what-if --zones rack-aware --plan plan.json` says what leaders elsewhere bring; or give the zone brokers.",
        doc="bytes of a zone's brokers over all bytes, by their part of the capacity; two zones at least: `zones.brokers`, else `broker.rack`",
        format=format_ratio,
        needs_all_records=True,
    ),
)

"""The rule about availability zones: those of `zones.brokers` in the configuration, else `broker.rack`."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from pipeline.measures.chance import chance_p_value
from pipeline.model.number_text import format_name, format_percent, format_ratio
from pipeline.rules.rule import Rule, RuleInput, RuleMeasure
from pipeline.tables.bronze import BROKERS
from pipeline.tables.gold import BROKER_SHARE


def _zone_share(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
    """Part of the bytes that brokers of a zone carry over their part of the capacity; none where fewer than two are known."""
    known = {
        (start_ms, broker_id): given.broker_zones.get(broker_id, rack)
        for start_ms, broker_id, rack in given.tuples(BROKERS, "window_start_ms", "broker_id", "rack")
    }
    zones: dict[tuple[int, str], list[tuple[float, float, float | None]]] = defaultdict(list)
    of_broker = ("window_start_ms", "broker_id", "share", "expected_share", "effective_unit_count")
    for start_ms, broker_id, part, expected, units in given.tuples(BROKER_SHARE, *of_broker):
        zone = known.get((start_ms, broker_id))
        if zone and part is not None:
            zones[start_ms, zone].append((part, expected, units))
    counts = Counter(start_ms for start_ms, _ in zones)
    for (start_ms, zone), rows in sorted(zones.items()):
        share, fair = sum(part for part, _, _ in rows), sum(expected for _, expected, _ in rows)
        if counts[start_ms] > 1 and fair > 0:
            units = rows[0][2]
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
        name="zone_share", measure=_zone_share, limit=1.3, meaning="a zone carries more than its part of the capacity",
        advice="`partition-health what-if --zones rack-aware --plan plan.json` says what leaders elsewhere bring; or give the zone brokers.",
        doc="a zone's part of the bytes divided by its part of the capacity, if at least two zones are known (`zones.brokers`, else `broker.rack`)",
        format=format_ratio, needs_all_records=True,
    ),
)  # fmt: skip  # a table: short fields share a line

"""What-ifs about zones: rack-aware producers, leaders where producers are, replicas in other racks."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pipeline.advice.following import Ends
from pipeline.errors import NothingUsableError
from pipeline.measures import zone_plans
from pipeline.model.number_text import format_name
from pipeline.model.placement import Brokers, PartitionMove, Partitions

MONTH_HOURS = 730
_GB = 1e9
_NAMED = 5


class ZoneChange(StrEnum):
    RACK_AWARE = "rack-aware"  # producers send to leaders in their zone (KIP-1123); a plan spreads leaders
    LEADERS = "leaders-to-producers"  # leaders go to the zone that most bytes come from
    REPLICAS = "replicas-in-other-racks"  # followers go to racks that hold no replica of their partition


@dataclass(frozen=True, kw_only=True)
class ZoneState:
    """Placement, bytes between zones, and brokers' share ratios: by the loads, and with ranges where a replay said them."""

    partitions: Partitions
    between: zone_plans.ZoneBytes
    ratios: Mapping[int, float]
    ranges: Mapping[int, Ends] = field(default_factory=dict)

    @property
    def peak(self) -> tuple[int, float]:
        """The broker with the highest share ratio, by the replay where there is one."""
        found = {one: ends[1] for one, ends in self.ranges.items()} or self.ratios
        return max(found.items(), key=lambda item: (item[1], -item[0]))


@dataclass(frozen=True, kw_only=True)
class ZoneWhatIf:
    """A change: as it is, with the change alone, and with a plan for leaders or replicas."""

    change: ZoneChange
    now: ZoneState
    then: ZoneState
    planned: ZoneState
    moves: Sequence[PartitionMove]
    is_cut: bool = False  # the search ended at its bound: it is the best plan that was found


def work_out(
    change: ZoneChange, partitions: Partitions, brokers: Brokers, loads: zone_plans.ZoneLoads, *, target_ratio: float
) -> ZoneWhatIf:
    """Works a change out from a window's loads; `NothingUsableError` if no live broker has a rack."""
    racks = {one.broker_id: one.rack or "" for one in brokers}
    if not any(racks.values()):
        raise NothingUsableError(
            "no broker has a rack: set broker.rack, or name brokers' zones in the configuration (zones.brokers)"
        )

    def state(placed: Partitions, sent: zone_plans.ZoneLoads) -> ZoneState:
        loaded = sent.with_loads(placed)
        return ZoneState(
            partitions=loaded,
            between=zone_plans.sum_between_zones(loaded, sent, racks),
            ratios=zone_plans.rate_brokers(loaded, brokers),
        )

    now, is_cut = state(partitions, loads), False
    if change is ZoneChange.RACK_AWARE:
        planned, is_cut = zone_plans.even_rack_aware(partitions, brokers, loads, target_ratio=target_ratio)
        then_loads, planned_loads = (loads.make_rack_aware(placed, racks) for placed in (partitions, planned))
    else:
        if change is ZoneChange.LEADERS:
            planned = zone_plans.lead_near_producers(now.partitions, brokers, loads, target_ratio=target_ratio)
        else:
            planned, is_cut = zone_plans.spread_replicas(partitions, brokers)
        then_loads = planned_loads = loads
    then = state(partitions, then_loads)
    moves = zone_plans.diff_placements(partitions, planned)
    planned_state = state(planned, planned_loads)
    return ZoneWhatIf(change=change, now=now, then=then, planned=planned_state, moves=moves, is_cut=is_cut)


def price(size_bytes: float, price_per_gb: float | None, window_ms: int) -> float | None:
    """Money a month for bytes of a window; None without a price.

    >>> price(2e9, 0.02, 3_600_000)
    29.2
    """
    return None if price_per_gb is None else size_bytes / _GB * price_per_gb * MONTH_HOURS * 3_600_000 / window_ms


def describe_zones(brokers: Brokers, loads: zone_plans.ZoneLoads) -> list[str]:
    """What stands in the way of the figures, in sentences: brokers without a rack, one zone only, zones without a broker."""
    racks = {one.broker_id: one.rack or "" for one in brokers}
    known = sorted({rack for rack in racks.values() if rack})
    said = []
    if len(known) == 1:
        said.append(f"All brokers with a rack are in {format_name(known[0])}: nothing goes between zones of brokers.")
    without = [str(broker_id) for broker_id, rack in sorted(racks.items()) if not rack]
    if without:
        said.append(
            f"Of {_join(without, 'broker')} no rack is known: what goes to {'it' if len(without) == 1 else 'them'} counts as within a zone."
        )
    sent: Counter[str] = Counter()
    for by_zone in loads.sent.values():
        sent.update(by_zone)
    strange = sorted(zone for zone, size in sent.items() if zone and size and zone not in known)
    if strange:
        said.append(
            f"No broker is in {_join(strange, 'zone')}, where producers are: rack-aware or not, they send to every leader."
        )
    unknown = sent.get("", 0.0)
    if unknown:
        said.append("Where producers are is not known, and brokers have too many racks to assume it (zones.clients).")
    return said


def _join(names: Sequence[str], noun: str) -> str:
    more = len(names) - _NAMED
    tail = [f"{more} more"] if more > 0 else []
    return f"{noun}{'s' if len(names) > 1 else ''} {', '.join([*map(format_name, names[:_NAMED]), *tail])}"

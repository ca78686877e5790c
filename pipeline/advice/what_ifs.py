"""What-ifs: brokers added, lost or resized, topics that grow, a reassignment; and zones of producers, leaders and replicas."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial

from pipeline.advice.following import Ends, LeaderReplay, list_new_leaders, move_partitions, predict_following
from pipeline.errors import ConfigError, NothingUsableError
from pipeline.measures import zone_plans
from pipeline.measures.reassignment import ReassignmentPlan, move_partition, plan_leaders, plan_replicas, replace_dead
from pipeline.model.number_text import format_name, join_names
from pipeline.model.placement import Brokers, PartitionMove, Partitions, PlacedPartition, PlacementBroker, Replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChange:
    added: tuple[PlacementBroker, ...] = ()
    lost: frozenset[int] = frozenset()
    lost_racks: frozenset[str] = frozenset()
    sizes: Mapping[int, float] = field(default_factory=dict)  # capacity by broker, as a multiple of what it has
    growth: Mapping[str, float] = field(default_factory=dict)  # traffic by topic, as a multiple of what it has
    replicas: Replicas = field(default_factory=dict)  # after a reassignment


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedCluster:
    partitions: tuple[PlacedPartition, ...]
    brokers: tuple[PlacementBroker, ...]
    moved_bytes: int = 0  # copied between brokers to get there

    @property
    def loads(self) -> dict[int, int]:
        loads = {broker.broker_id: 0 for broker in self.brokers}
        for partition in self.partitions:
            if partition.leader_id in loads:
                loads[partition.leader_id] += partition.load_bytes
        return loads

    @property
    def ratios(self) -> dict[int, float]:
        return zone_plans.rate_brokers(self.partitions, self.brokers)

    @property
    def hurt(self) -> tuple[PlacedPartition, ...]:
        live = {broker.broker_id for broker in self.brokers if not broker.is_fenced}
        return tuple(partition for partition in self.partitions if not live >= {*partition.replicas})

    @property
    def leaderless(self) -> tuple[PlacedPartition, ...]:
        return tuple(partition for partition in self.partitions if partition.leader_id < 0)

    @property
    def below_min_isr(self) -> tuple[PlacedPartition, ...]:
        led = (partition for partition in self.partitions if partition.leader_id >= 0)
        return tuple(one for one in led if len(one.in_sync) < min(one.least_in_sync, len(one.replicas)))


def pin_following(cluster: PlacedCluster, keyed: Collection[str]) -> PlacedCluster:
    """The cluster with all partitions pinned whose records are not placed by keys: their load follows the broker."""
    partitions = tuple(replace(one, is_pinned=one.topic not in keyed) for one in cluster.partitions)
    return replace(cluster, partitions=partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    keyed: frozenset[str]  # topics placed by keys
    # of the window, with new leaders by topic and partition, and the racks of brokers that are new
    replay: Callable[[Mapping[tuple[str, int], int], Mapping[int, str]], LeaderReplay]


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """A changed cluster, the plan for it, and share ratios of both: low, median, high by broker; empty where not predicted."""

    then: PlacedCluster
    plan: ReassignmentPlan
    ratios: Mapping[int, Ends]
    planned: Mapping[int, Ends]
    is_replayed: bool = False  # one of them was
    replayed: Collection[str] = ()  # topics of which the changed cluster has what the replay says
    reason: str = ""  # why one of them is not predicted

    @property
    def peak(self) -> float | None:
        return max((median for _, median, _ in self.planned.values()), default=None)


def foresee(
    now: PlacedCluster,
    change: ClusterChange,
    *,
    target_ratio: float,
    max_moved_bytes: int | None = None,
    following: Following | None = None,
) -> Foreseen:
    """Applies a change and plans for it, `following` where load follows the broker; `ConfigError` as `change_cluster`."""
    then = change_cluster(now, change)
    make = partial(plan_even, target_ratio=target_ratio, max_moved_bytes=max_moved_bytes)
    plan = make(then)
    if following is None or not any(one.is_pinned for one in now.partitions):
        exact = [{one: (ratio, ratio, ratio) for one, ratio in each.items()} for each in (then.ratios, plan.ratios)]
        return Foreseen(then=then, plan=plan, ratios=exact[0], planned=exact[1])
    sizes = {one.broker_id: one.capacity for one in now.brokers}
    if any(sizes.get(one.broker_id, one.capacity) != one.capacity for one in then.brokers):
        reason = "how fast a broker of another size would answer is not known"
        return Foreseen(then=then, plan=plan, ratios={}, planned={}, reason=reason)

    def replay(partitions: Partitions) -> LeaderReplay:
        leaders = list_new_leaders(now.partitions, partitions, following.keyed)
        new = {one.broker_id: one.rack or "" for one in change.added}
        return following.replay(leaders, new) if leaders else LeaderReplay({})

    changed = replay(then.partitions)
    free = make(replace(then, partitions=tuple(replace(one, is_pinned=False) for one in then.partitions)))
    moved = move_partitions(then.partitions, free.moves)
    planned = changed if free == plan else replay(moved)
    placed = (then.partitions, move_partitions(then.partitions, plan.moves))
    ratios = [{} if changed.reason else predict_following(one, then.brokers, changed.shares) for one in placed]
    own = Foreseen(then=then, plan=plan, ratios=ratios[0], planned=ratios[1], replayed=changed.shares)
    own = replace(own, is_replayed=bool(changed.shares), reason=changed.reason or planned.reason)
    if planned.reason:
        return own
    found = replace(own, plan=free, planned=predict_following(moved, then.brokers, planned.shares), is_replayed=True)
    return found if own.peak is None or (found.peak or 0.0) < own.peak else own


def change_cluster(cluster: PlacedCluster, change: ClusterChange) -> PlacedCluster:
    """Applies a change: reassignment, brokers added, resized, lost, then traffic; `ConfigError` names what is not there."""
    racks = {broker.broker_id: broker.rack for broker in cluster.brokers}
    added = {broker.broker_id for broker in change.added}
    places = {_key(partition) for partition in cluster.partitions}
    replicas = {replica for wanted in change.replicas.values() for replica in wanted}
    fenced = {broker.broker_id for broker in cluster.brokers if broker.is_fenced}
    topics = {topic for topic, _ in places}
    wrong = [
        *(f"broker {one} is there already" for one in sorted(added & racks.keys())),
        *(f"there is no broker {one}" for one in sorted((change.lost | change.sizes.keys()) - racks.keys())),
        *(f"there is no broker {one}" for one in sorted(replicas - racks.keys() - added)),
        *(f"broker {one} is away: Kafka refuses a reassignment that names it" for one in sorted(replicas & fenced)),
        *(f"there is no rack {one}" for one in sorted(change.lost_racks - {*racks.values()})),
        *(f"there is no topic {one}" for one in sorted(change.growth.keys() - topics)),
        *(f"there is no partition {topic}-{number}" for topic, number in sorted(change.replicas.keys() - places)),
    ]
    if wrong:
        raise ConfigError("; ".join(wrong[:5]))
    lost = change.lost | {broker_id for broker_id, rack in racks.items() if rack in change.lost_racks}
    brokers = tuple(
        replace(broker, capacity=broker.capacity * change.sizes.get(broker.broker_id, 1.0))
        for broker in sorted((*cluster.brokers, *change.added), key=lambda broker: broker.broker_id)
        if broker.broker_id not in lost
    )
    if not brokers:
        raise ConfigError("no broker would be left")
    partitions, moved_bytes = [], 0
    for one in cluster.partitions:
        wanted = change.replicas.get((one.topic, one.partition))
        placed = one if wanted is None else replace(one, replicas=wanted, leader_id=wanted[0], in_sync=wanted)
        moved_bytes += one.size_bytes * len({*placed.replicas} - {*one.replicas})
        in_sync = tuple(replica for replica in placed.replicas if replica in placed.in_sync and replica not in lost)
        leader_id = next(iter(in_sync), -1) if placed.leader_id in lost else placed.leader_id
        load_bytes = round(placed.load_bytes * change.growth.get(placed.topic, 1.0))
        partitions.append(replace(placed, in_sync=in_sync, leader_id=leader_id, load_bytes=load_bytes))
    return PlacedCluster(partitions=tuple(partitions), brokers=brokers, moved_bytes=moved_bytes)


def plan_even(cluster: PlacedCluster, *, target_ratio: float, max_moved_bytes: int | None = None) -> ReassignmentPlan:
    """Plans to empty dead brokers, then to bring every broker below a share ratio, by leaders alone where that suffices."""
    restored, is_cut = replace_dead(cluster.partitions, cluster.brokers, max_moved_bytes=max_moved_bytes)
    taken: Counter[int] = Counter()
    for before, after in zip(cluster.partitions, restored, strict=True):
        taken.update(dict.fromkeys({*after.replicas} - {*before.replicas}, before.size_bytes))
    brokers = [
        one if one.free_bytes is None else replace(one, free_bytes=one.free_bytes - taken[one.broker_id])
        for one in cluster.brokers
    ]
    left = None if max_moved_bytes is None else max_moved_bytes - taken.total()
    plan = plan_leaders(restored, brokers, target_ratio=target_ratio)
    if plan.peak_ratio > target_ratio:
        plan = plan_replicas(restored, brokers, target_ratio=target_ratio, max_moved_bytes=left)
    planned = {(m.topic, m.partition): m.new_replicas for m in plan.moves}
    wanted = {_key(p): p.replicas for p in restored} | planned
    moves = tuple(
        move_partition(p, wanted[_key(p)])
        for p in sorted(cluster.partitions, key=_key)
        if wanted[_key(p)] != p.replicas or _key(p) in planned  # where replicas stay the first becomes the leader
    )
    kind = "move_replicas" if any(move.moved_bytes for move in moves) else plan.kind
    return replace(plan, kind=kind, moves=moves, is_cut=plan.is_cut or is_cut)


def _key(partition: PlacedPartition) -> tuple[str, int]:
    return partition.topic, partition.partition


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
        how = "set broker.rack, or name brokers' zones in the configuration (zones.brokers)"
        raise NothingUsableError(f"no broker has a rack: {how}")

    def state(placed: Partitions, sent: zone_plans.ZoneLoads) -> ZoneState:
        loaded = sent.with_loads(placed)
        between, ratios = zone_plans.sum_between_zones(loaded, sent, racks), zone_plans.rate_brokers(loaded, brokers)
        return ZoneState(partitions=loaded, between=between, ratios=ratios)

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
    if without := [str(broker_id) for broker_id, rack in sorted(racks.items()) if not rack]:
        them = "it" if len(without) == 1 else "them"
        said.append(f"Of {_join(without, 'broker')} no rack is known: what goes to {them} counts as within a zone.")
    sent: Counter[str] = Counter()
    for by_zone in loads.sent.values():
        sent.update(by_zone)
    if strange := sorted(zone for zone, size in sent.items() if zone and size and zone not in known):
        where = f"in {_join(strange, 'zone')}, where producers are"
        said.append(f"No broker is {where}: rack-aware or not, they send to every leader.")
    if sent[""]:
        said.append("Where producers are is not known, and brokers have too many racks to assume it (zones.clients).")
    return said


def _join(names: Sequence[str], noun: str) -> str:
    return f"{noun}{'s' if len(names) > 1 else ''} {join_names([*map(format_name, names)], _NAMED)}"

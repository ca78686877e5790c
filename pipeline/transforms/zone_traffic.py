"""From the traffic of partitions, producer sessions and racks to `gold.zone_traffic`: bytes between zones in a window.

Sums reconcile to the byte: what a topic's zones produce is what its partitions got, whatever part of it is known by
whom. What rack-aware producers (KIP-1123) add to each broker is `rack_aware_term` of `gold.broker_share`.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl
import pyarrow as pa

from pipeline.measures.zone_plans import ZoneLoads
from pipeline.model.window import HOUR_MS
from pipeline.tables.arrow_types import ARROW_TYPES
from pipeline.tables.gold import ZONE_TRAFFIC

Row = Mapping[str, Any]
MOST_ASSUMED_ZONES = 20  # over more nothing is assumed: so many racks are no zones that producers are spread over
MONTH_HOURS = 730
ASSUMED, UNKNOWN, CONFIGURED, BROKERS = "assumed", "unknown", "configured", "brokers"
_GB = 1e9
_TOPIC = ["topic", "topic_id"]
_LED = [*_TOPIC, "partition", "leader_id"]
_SESSION = [*_TOPIC, "producer_id"]
_ENDS = ["from_zone", "to_zone", "zone_source"]
_NEAREST = "RackAwareReplicaSelector"


@dataclass(frozen=True, kw_only=True)
class WindowZones:
    traffic: pl.DataFrame  # `size_bytes` by topic, partition and leader, of `silver.partition_traffic`
    sent: pl.DataFrame  # the same of `silver.record_batches` by producer id and epoch, as far as batches were read
    sessions: pl.DataFrame  # `zone` and `zone_source` of `silver.producer_sessions`
    state: pl.DataFrame  # replicas of `bronze.cluster_state`
    brokers: Sequence[Row]  # `bronze.brokers`
    members: Sequence[Row]  # a row for each group and partition that has a member
    # of the configuration's section `zones`
    find_zone: Callable[..., str]  # zone of a client by its `client.id` and address, "" where nothing says
    broker_zones: Mapping[int, str]
    weights: Mapping[str, float]
    price_per_gb: float | None

    @property
    def led(self) -> pl.DataFrame:
        return self.traffic.group_by(_LED).agg(pl.col("size_bytes").sum()).filter(pl.col("size_bytes") > 0)

    @property
    def racks(self) -> dict[int, str]:
        return {row["broker_id"]: self.broker_zones.get(row["broker_id"], row["rack"] or "") for row in self.brokers}

    @property
    def nearest(self) -> set[int]:
        """Brokers that send a consumer to the nearest replica (KIP-392)."""
        configs = {row["broker_id"]: dict(row["configs"] or ()) for row in self.brokers}
        return {broker_id for broker_id, of in configs.items() if _NEAREST in of.get("replica.selector.class", "")}


def measure_zone_traffic(window: WindowZones, start: datetime, window_ms: int) -> pa.Table:
    """Rows of `gold.zone_traffic` of one window, without cluster; none where no broker's zone is known."""
    if not any(window.racks.values()):
        columns = [column for column in ZONE_TRAFFIC.columns if column.name not in {"cluster", "run_id"}]
        return pa.schema([(each.name, ARROW_TYPES[each.type]) for each in columns]).empty_table()
    parts = {"produce": sum_produce(window), "replication": sum_replication(window), "fetch": sum_fetch(window)}
    whole = pl.concat(
        [part.select(*_TOPIC, *_ENDS, "size_bytes").with_columns(kind=pl.lit(kind)) for kind, part in parts.items()]
    )
    rows = whole.group_by(*_TOPIC, "kind", *_ENDS).agg(pl.col("size_bytes").sum()).filter(pl.col("size_bytes") > 0)
    rows = rows.sort(*_TOPIC, "kind", *_ENDS).with_columns(window_start=pl.lit(start, pl.Datetime("us", "UTC")))
    is_known = (pl.col("from_zone") != "") & (pl.col("to_zone") != "")
    is_between = pl.when(is_known).then(pl.col("from_zone") != pl.col("to_zone"))
    rows = rows.with_columns(is_between_zones=is_between)
    priced_bytes = pl.when("is_between_zones").then("size_bytes").when(~pl.col("is_between_zones")).then(0)
    rows = rows.with_columns(cost=priced_bytes / _GB * pl.lit(window.price_per_gb, pl.Float64))
    return rows.with_columns(cost_per_month=pl.col("cost") * (MONTH_HOURS * HOUR_MS / window_ms)).to_arrow()


def sum_produce(window: WindowZones) -> pl.DataFrame:
    """Bytes from producers' zones to leaders'; what no session explains is spread over zones, as an assumption."""
    racks = window.racks
    known = _with_sessions(window.sent, window.sessions).group_by(*_LED, "zone", "zone_source")
    parts = _split_exactly(window.led, known.agg(pl.col("size_bytes").sum()))
    parts = parts.with_columns(from_zone=pl.col("zone").fill_null(""), to_zone=_rack_of("leader_id", racks))
    sums = parts.group_by(*_TOPIC, *_ENDS).agg(pl.col("size_bytes").sum())
    return _assume(sums, _weigh_zones(window))


def list_zone_loads(window: WindowZones, keyed: pl.DataFrame) -> ZoneLoads:
    """Bytes of each partition by its producers' zone; what no session explains is spread over zones, as in the table.

    `keyed`: `keyed_ratio` of bytes by topic, id and partition that were read. Keyed bytes are producers' in proportion
    to what they would have if each had keys in as many of its bytes as of all its records; without a session there are
    none.
    """
    known = _with_sessions(window.sent, window.sessions)
    guess = (pl.col("size_bytes") * (1.0 - pl.col("keyless_ratio").fill_null(1.0))).sum()
    of_zone = known.group_by(*_LED, "zone", "zone_source").agg(guess.alias("keyed_bytes"), pl.col("size_bytes").sum())
    parts = _with_keyed_bytes(_split_exactly(window.led, of_zone), keyed)
    weights = _weigh_zones(window)
    total = sum(weights.values())
    sent: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    keyless: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    columns = ("topic", "partition", "zone", "size_bytes", "keyed_bytes")
    for topic, number, known_zone, size, keyed_bytes in parts.select(columns).iter_rows():
        spread = {known_zone: 1.0} if known_zone else {zone: weight / total for zone, weight in weights.items()}
        for zone, part in (spread or {"": 1.0}).items():
            sent[topic, number][zone] += size * part
            keyless[topic, number][zone] += (size - keyed_bytes) * part
    return ZoneLoads(sent, keyless)


def _with_keyed_bytes(parts: pl.DataFrame, keyed: pl.DataFrame) -> pl.DataFrame:
    """Scales the guessed `keyed_bytes` of each part so that those of a partition add up to what was read there."""
    size, place = pl.col("size_bytes"), [*_TOPIC, "partition"]
    scale = size / pl.col("read_bytes").fill_null(1)  # bytes of all batches over those that were read
    guess = pl.col("keyed_bytes").fill_null(0.0) * scale
    parts = parts.join(keyed, on=place, how="left").with_columns(keyed_bytes=guess)
    read = pl.col("keyed_ratio") * size.sum().over(place)
    guessed = pl.col("keyed_bytes").sum().over(place)
    by_guess = pl.when(guessed > 0).then(pl.col("keyed_bytes") / guessed * read).otherwise(pl.col("keyed_ratio") * size)
    return parts.with_columns(keyed_bytes=pl.min_horizontal(by_guess.fill_null(pl.col("keyed_bytes")), size))


def _weigh_zones(window: WindowZones) -> dict[str, float]:
    weights = dict(window.weights) or dict.fromkeys(sorted({*window.racks.values()} - {""}), 1.0)
    return weights if len(weights) <= MOST_ASSUMED_ZONES else {}


def _with_sessions(sent: pl.DataFrame, sessions: pl.DataFrame) -> pl.DataFrame:
    """Each producer's zone: of its session with that epoch, else of the one that stands for all epochs."""
    ratio = pl.col("keyless_record_count") / pl.col("record_count")
    of_epoch = sessions.select(*_SESSION, "producer_epoch", "zone", "zone_source", keyless_ratio=ratio)
    of_all = of_epoch.filter(pl.col("producer_epoch") == -1).drop("producer_epoch")
    joined = sent.join(of_epoch, on=[*_SESSION, "producer_epoch"], how="left")
    joined = joined.join(of_all, on=_SESSION, how="left", suffix="_of_all")
    zone, keyless = pl.coalesce("zone", "zone_of_all"), pl.coalesce("keyless_ratio", "keyless_ratio_of_all")
    source = pl.when(pl.col("zone").is_not_null()).then("zone_source").otherwise("zone_source_of_all")
    source = pl.when(zone.is_not_null()).then(source).otherwise(pl.lit(UNKNOWN))
    return joined.with_columns(zone=zone, keyless_ratio=keyless, zone_source=source)


def _split_exactly(led: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Splits what each leader got of a partition as the batches that were read are split, to whole bytes that add up."""
    read = known.rename({"size_bytes": "read_bytes"})
    joined = led.join(read, on=_LED, how="left").sort(*_LED, "zone", nulls_last=True)
    read_bytes = pl.col("read_bytes").fill_null(1)
    summed, whole, size = read_bytes.cum_sum().over(_LED), read_bytes.sum().over(_LED), pl.col("size_bytes")
    scaled = (summed / whole * size).floor().cast(pl.Int64)  # the last part ends at 1.0 times all bytes
    until = pl.when(whole == size).then(summed).otherwise(scaled)
    size_bytes, zone_source = until - until.shift(1, fill_value=0).over(_LED), pl.col("zone_source").fill_null(UNKNOWN)
    return joined.with_columns(size_bytes=size_bytes, zone_source=zone_source)


def _assume(sums: pl.DataFrame, chosen: Mapping[str, float]) -> pl.DataFrame:
    """What is known, and the rest spread over zones by their weights; it stays unknown without any."""
    if not chosen:
        return sums
    is_open, total = pl.col("from_zone") == "", sum(chosen.values())
    weights = pl.DataFrame([*chosen.items()], schema={"zone": pl.String, "weight": pl.Float64}, orient="row")
    ends = weights.with_columns(end=pl.col("weight").cum_sum() / total)
    ends = ends.with_columns(end=pl.when(pl.int_range(pl.len()) == pl.len() - 1).then(1.0).otherwise("end"))
    spread = sums.filter(is_open).join(ends, how="cross").sort(*_TOPIC, "to_zone", maintain_order=True)
    until = (pl.col("size_bytes") * pl.col("end")).floor().cast(pl.Int64)
    begin = until.shift(1, fill_value=0).over(*_TOPIC, "to_zone")
    spread = spread.with_columns(size_bytes=until - begin, from_zone="zone", zone_source=pl.lit(ASSUMED))
    return pl.concat([sums.filter(~is_open), spread.select(sums.columns).filter(pl.col("size_bytes") > 0)])


def sum_replication(window: WindowZones) -> pl.DataFrame:
    """Bytes from leaders' zones to followers': each other replica fetches all that the leader got."""
    racks, replicas = window.racks, window.state.select(*_TOPIC, "partition", "replica_id").unique()
    copied = window.led.join(replicas, on=[*_TOPIC, "partition"]).filter(pl.col("leader_id") != pl.col("replica_id"))
    from_zone, to_zone = _rack_of("leader_id", racks), _rack_of("replica_id", racks)
    return copied.with_columns(from_zone=from_zone, to_zone=to_zone, zone_source=pl.lit(BROKERS))


def sum_fetch(window: WindowZones) -> pl.DataFrame:
    """Bytes to members of groups with a configured zone, each read once; brokers may choose the nearest replica."""
    racks, nearest = window.racks, window.nearest
    replicas: dict[tuple[str, int], set[str]] = {}
    in_sync = window.state.filter(pl.col("is_in_sync").fill_null(value=True))
    for topic, partition, replica_id in in_sync.select("topic", "partition", "replica_id").iter_rows():
        replicas.setdefault((topic, partition), set()).add(racks.get(replica_id, ""))
    loads: dict[tuple[str, int], list[tuple[str, int, int]]] = {}
    for topic, topic_id, partition, leader_id, size in window.led.select(*_LED, "size_bytes").iter_rows():
        loads.setdefault((topic, partition), []).append((topic_id, leader_id, size))
    rows = []
    for member in window.members:
        place = member["topic"], member["partition"]
        zone = window.find_zone(member["client_id"] or "", (member["client_host"] or "").lstrip("/"))
        for topic_id, leader_id, size in loads.get(place, ()) if zone else ():
            is_near = leader_id in nearest and zone in replicas.get(place, ())
            rows.append((place[0], topic_id, zone if is_near else racks.get(leader_id, ""), zone, CONFIGURED, size))
    text = dict.fromkeys((*_TOPIC, *_ENDS), pl.String)
    return pl.DataFrame(rows, schema={**text, "size_bytes": pl.Int64}, orient="row")


def _rack_of(column: str, racks: Mapping[int, str]) -> pl.Expr:
    return pl.col(column).replace_strict(dict(racks), default="", return_dtype=pl.String)


def sum_rack_aware_bytes(
    sent: pl.DataFrame, sessions: Sequence[Row], led: Sequence[tuple[str, str, int]], racks: Mapping[int, str]
) -> dict[int, float]:
    """Bytes that a broker has more or less than if these producers' keyless records went to all leaders.

    A producer in zone z with B keyless bytes of a topic gives each of the n_z partitions that z leads B / n_z, without
    racks each of all n B / n: the difference is due to racks, and sums to 0. `sent`: bytes by topic, producer id and
    epoch. `sessions`: of rack-aware producers alone. `led`: topic, topic id and leader of each partition that has one.
    """
    by_epoch: Counter[tuple[str, str, int, int]] = Counter()
    every: Counter[tuple[str, str, int]] = Counter()
    for topic, topic_id, producer_id, epoch, size in sent.select(*_SESSION, "producer_epoch", "size_bytes").iter_rows():
        by_epoch[topic, topic_id, producer_id, epoch] += size
        every[topic, topic_id, producer_id] += size
    by_topic: dict[tuple[str, str], list[int]] = defaultdict(list)
    for topic, topic_id, leader in led:
        by_topic[topic, topic_id].append(leader)
    added: Counter[int] = Counter()
    for session in sessions:
        zone = dict(session["settings"] or ()).get("client.rack")
        if not zone or not session["record_count"]:
            continue
        key = session["topic"], session["topic_id"], session["producer_id"]
        epoch = session["producer_epoch"]  # -1: one session of all epochs
        size = every[key] if epoch < 0 else by_epoch[*key, epoch]
        keyless = size * session["keyless_record_count"] / session["record_count"]
        leaders = by_topic[key[0], key[1]]
        near = [leader for leader in leaders if racks.get(leader) == zone]
        for leader in near:
            added[leader] += keyless / len(near)
        for leader in leaders if near else ():
            added[leader] -= keyless / len(leaders)
    return dict(added)

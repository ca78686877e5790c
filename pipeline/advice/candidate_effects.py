"""Effort of carrying out a replay's candidate, and its effect on the brokers' shares."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from pipeline.advice.carried_out import Row, list_changes
from pipeline.advice.following import Doubts, Ends
from pipeline.advice.recommendations import CandidateEffect
from pipeline.config.replay import Candidate
from pipeline.model.number_text import format_name, format_percent, format_ratio
from pipeline.model.promise import WHOLE, Trust
from pipeline.model.verdict import BrokerLoads
from pipeline.partitioners.clients.java import RACK_AWARE
from pipeline.partitioners.registry import STRATEGIES
from pipeline.partitioners.strategy import Use, parse_version
from pipeline.simulator.clients.producer_configs import JAVA, OLDEST, list_configs

CONFIG_LINE, UPGRADE, PARTITIONER, PARTITIONS, REKEY, LOSES_ORDER = 1, 2, 3, 5, 6, 7
WITH_CARE = "Take it with care"
_OPPOSITE = {"true": "false", "false": "true"}


def describe_candidate(
    candidate: Candidate, topic: str, comparison: Row, *, has_fixed_count: bool = False, other_ratio: float = 0.0
) -> tuple[str, int, str] | None:
    """Title, cost, caveat of a candidate by its row of the comparison; None for no advice, as another family's client.

    Nor is there any where a topic's use rests on which partition a key is in: its count is fixed. `other_ratio` of its
    records come from clients that are not Java's.
    """
    name, baseline = format_name(topic), comparison.get("baseline") or ""
    partitioner = candidate.partitioner or comparison.get("partitioner") or baseline
    ignores_keys = partitioner != baseline and _use_of_built_in(partitioner) and STRATEGIES[partitioner].ignores_keys
    if candidate.brokers or candidate.brokers_alike or candidate.commit_every:
        return None  # a what-if about brokers, or about an application's commits, is no setting of a producer
    if has_fixed_count and (candidate.partitions is not None or ignores_keys):
        return None
    if ignores_keys and comparison.get("keyed_record_count") == 0:
        return None  # there are no keys to ignore
    caveats = _list_caveats(candidate, comparison, other_ratio, ignores_keys=bool(ignores_keys))
    if candidate.partitions is not None:
        count, is_alone = comparison.get("partition_count"), len(list_changes(candidate)) == 1
        title = f"give {name} {count} partitions" if count else f"give {name} more partitions"
        # beside other changes its effect is not that of the count; and Kafka takes no partitions away
        is_advice = is_alone and (not count or count > (comparison.get("baseline_partition_count") or 0))
        return (title, PARTITIONS, " ".join(caveats)) if is_advice else None
    found = _describe_client(candidate, name, baseline, partitioner)
    if found is None:
        return None
    title, cost = found
    if cost == UPGRADE and STRATEGIES[baseline].is_default and not ignores_keys:
        caveats.append("Unset `partitioner.class` where it is set: it would stay.")
    if ignores_keys and cost != UPGRADE and not candidate.config:
        title = f"let producers of {name} ignore keys (`partitioner.ignore.keys=true`)"
    return title, LOSES_ORDER if ignores_keys else cost, " ".join(caveats)


def _list_caveats(candidate: Candidate, comparison: Row, other_ratio: float, *, ignores_keys: bool) -> list[str]:
    """What to know before, doubts about the prediction first: the first screen of a mail has no room for all of it."""
    trust, moved = comparison.get("trust") or Trust.TRUSTED, comparison.get("keys_moved_ratio") or 0.0
    caveats = [] if trust == Trust.TRUSTED else [f"{WITH_CARE}: the replay of this topic is {trust}."]
    if other_ratio > 1 - WHOLE and (candidate.partitioner or candidate.client):
        caveats.append(
            f"{WITH_CARE}: the replay takes all producers for Java's, {other_ratio:.0%} of the records are not."
        )
    if ignores_keys:
        caveats.append("Records of one key are then in no order, and in all partitions.")
        caveats.append("It takes a Java client 3.3+ without `partitioner.class`.")
    elif moved:
        caveats.append(f"{moved:.0%} of its keys would go to other partitions: their order is at risk once.")
    return caveats


def _describe_client(candidate: Candidate, name: str, baseline: str, partitioner: str) -> tuple[str, int] | None:
    known, built_in = STRATEGIES.get(baseline), _use_of_built_in(partitioner)
    if known is None:
        return None
    changed = ", ".join(f"`{key}={value}`" for key, value in sorted(list_settings(candidate, baseline).items()))
    also = f" and set {changed}" if changed else ""
    # what the producers were configured with, which an upgrade leaves as it is
    is_set = known.client == JAVA and not known.is_default and _use_of_built_in(baseline) is None
    unset = " without `partitioner.class`" if is_set else ""
    if candidate.client is not None:
        *family, version = candidate.client.split()
        is_built_in = family in ([], ["kafka-clients"]) and parse_version(version) >= parse_version("3.3")
        is_told = candidate.partitioner is None or built_in is not None
        title = f"upgrade producers of {name} to client {candidate.client}{unset}{also}"
        return (title, UPGRADE) if is_built_in and known.is_outdated and is_told else None
    if partitioner == baseline:
        client = known.client
        own = list_configs(client, known.uses[0].since or OLDEST[client]) if client in OLDEST else {}
        is_theirs = changed and own.keys() >= candidate.config.keys()
        return (f"set {changed} on producers of {name}", CONFIG_LINE) if is_theirs else None
    if built_in is None or known.client != JAVA:
        return None  # of another family of clients, or no improvement
    if parse_version(known.uses[0].since or "0") < parse_version(built_in.since):
        return f"upgrade producers of {name} to Kafka client {built_in.since}+{unset}{also}", UPGRADE
    what = f"set {changed}" if changed else "unset `partitioner.class`"
    title = f"{what} on producers of {name}{unset if changed else ''}"
    return title, CONFIG_LINE if baseline == RACK_AWARE else PARTITIONER


def describe_partitioner(topic: str, partitioner: str) -> str:
    known = STRATEGIES[partitioner].described if partitioner in STRATEGIES else ""
    used = f"{known} ({partitioner})" if known else f"the partitioner {partitioner}"
    return f"The producers of {format_name(topic)} use {used}."


def format_config_diff(candidate: Candidate, topic: str, title: str, baseline: str = "") -> str | None:
    settings = list_settings(candidate, baseline)
    if not settings:
        return None
    name = format_name(topic)
    lines = [f"# {title}", f"--- producer.properties ({name})", f"+++ producer.properties ({name})"]
    lines.append(f"@@ -0,0 +1,{len(settings)} @@")
    lines += [f"+{key}={value}" for key, value in sorted(settings.items())]
    return "\n".join(lines) + "\n"


def list_settings(candidate: Candidate, baseline: str = "") -> dict[str, str | None]:
    """Settings of the producer that a candidate changes against the `baseline` strategy; those of its partitioner too."""
    settings = dict(candidate.config)
    built_in, before = _use_of_built_in(candidate.partitioner or ""), _use_of_built_in(baseline)
    if built_in is not None and baseline != candidate.partitioner:
        for use, is_on in ((before, False), (built_in, True)):
            if use is not None and not use.is_default:
                setting, _, value = use.setting.partition("=")
                settings[setting] = value if is_on else _OPPOSITE[value]
    if settings.get("partitioner.rack.aware") == "true":
        settings.setdefault("client.rack", "<the producer's rack>")  # without it a producer does not start
    return settings


def _use_of_built_in(partitioner: str) -> Use | None:
    """How a producer is configured for a variant of Kafka's built-in partitioner; None for other strategies."""
    strategy = STRATEGIES.get(partitioner)
    if strategy is None or strategy.keyless is None or strategy.keyless.placement != "BUILT_IN":
        return None
    return strategy.uses[0]


def name_share(placed: Row) -> str:
    """The column of `gold.replay_brokers` with a broker's part of a topic: in bytes of the log if batches were simulated."""
    return "share" if placed["log_share"] is None or placed["recorded_log_share"] is None else "log_share"


def predict_ratios(shares: BrokerLoads, placed: Sequence[Row], *, topic_bytes: int) -> dict[int, Ends]:
    """Share ratios of all brokers if one topic were spread as in `placed`, the candidate's rows of `gold.replay_brokers`."""
    total = sum(load.size_bytes for load in shares)
    by_broker = {row["broker_id"]: row for row in placed}
    ratios = {}
    for load in shares:
        to = by_broker.get(load.broker_id)
        of_topic = (0.0, 0.0, 0.0)
        if to is not None:
            kind = name_share(to)
            ends = (to[f"{kind}{end}"] for end in ("_low", "", "_high"))
            of_topic = _ends(0.0 if end is None else end - (to[f"recorded_{kind}"] or 0.0) for end in ends)
        fair, size = load.expected_share, load.size_bytes
        ratios[load.broker_id] = _ends((size + change * topic_bytes) / total / fair for change in of_topic)
    return ratios


def predict_healed(
    shares: BrokerLoads, placed: Sequence[Row], doubts: Doubts, *, topic_bytes: Mapping[str, int]
) -> dict[int, Ends]:
    """Share ratios of all brokers if none were slow, their ends added up; empty where too much of the replay is doubted."""
    of_topic: dict[str, list[Row]] = defaultdict(list)
    for row in placed:
        of_topic[row["topic"]].append(row)
    if not of_topic or doubts.reason:
        return {}
    total = sum(load.size_bytes for load in shares)
    now = {load.broker_id: load.share_ratio for load in shares if load.share_ratio is not None}
    fair = {load.broker_id: load.expected_share for load in shares}
    sums = {broker_id: (ratio, ratio, ratio) for broker_id, ratio in now.items()}
    for topic, rows in of_topic.items():
        size = topic_bytes.get(topic, 0)
        found = predict_ratios(shares, rows, topic_bytes=size)
        off = doubts.errors.get(topic, 0.0) * size / total
        sums = {
            broker_id: _ends(
                end + one - now[broker_id] + sign * off / fair[broker_id]
                for end, one, sign in zip(ends, found[broker_id], (-1, 0, 1), strict=True)
            )
            for broker_id, ends in sums.items()
        }
    return {broker_id: (max(0.0, low), ratio, high) for broker_id, (low, ratio, high) in sums.items()}


def _ends(ends: Iterable[float]) -> Ends:
    low, median, high = ends
    return low, median, high


_WORTH = 0.01


def find_rekeyings(
    shares: BrokerLoads, loads: Iterable[tuple[Any, ...]], topics: Iterable[tuple[Any, ...]]
) -> list[CandidateEffect]:
    """Brokers' loads if topics' heavy keys were split evenly, where that moves 1 % of some share; `loads` by partition."""
    total = sum(load.size_bytes for load in shares)
    by_topic: dict[tuple[str, str], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for topic, topic_id, leader_id, heavy_bytes in loads:
        by_topic[topic, topic_id][leader_id] += heavy_bytes or 0.0
    effects = []
    for topic, topic_id, count, top_ratio, best_peak in sorted(topics, key=itemgetter(0, 1)):
        heavy = by_topic.get((topic, topic_id), {})
        if not count or max(map(abs, heavy.values()), default=0) <= _WORTH * total:
            continue
        left = {load.broker_id: load.size_bytes - heavy.get(load.broker_id, 0.0) for load in shares}
        ratios = {load.broker_id: left[load.broker_id] / total / load.expected_share for load in shares}
        keys = "its heaviest key" if count == 1 else f"its {count:,} heaviest keys"
        effects.append(
            CandidateEffect(
                action="rekey",
                topic=topic,
                title=f"re-key {format_name(topic)}: split {keys}",
                cost=REKEY,
                basis="Their bytes spread evenly put",
                caveat=(
                    f"With the present keys no hash and no rebalance brings its fullest partition below "
                    f"{format_ratio(best_peak)} the mean: one key holds {format_percent(top_ratio)}. Records are then in "
                    "order by the new key only. The figure holds if the new keys spread evenly."
                ),
                ratios={broker_id: (ratio, ratio, ratio) for broker_id, ratio in ratios.items()},
            )
        )
    return effects

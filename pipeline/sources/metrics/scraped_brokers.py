"""Which broker and cluster the series of a server are of, and which names are not known; what cannot be told is not taken.

Only metrics that a broker has once are evidence (`_ONCE`). **Several clusters**: two targets have one id, and a counter rises at both,
all values at one above all at the other (who is scraped twice says the same twice); or a label of Kafka clusters (`kafka_cluster`,
Strimzi's) has two values. Other labels (jobs, namespaces, replicas of Prometheus) prove nothing, they only name what differs.
**A gateway**: one instance has several brokers at once, by ids, which then tell them apart, or by a label of hosts.
**At once** is in most instants of both: what a target said last stays for minutes, while its broker has moved on.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.codec.metrics.metric_names import BROKER_TOPIC_PREFIX, REQUEST_PREFIX, Series, list_unknown
from pipeline.model.number_text import format_name
from pipeline.sources.questions import Finding, name_some

OF_BROKERS = ("kafka_server_", "kafka_network_", "kafka_log_", "kafka_cluster_partition")
APP_INFO = "kafka_server_app_info"
_COUNTED = (f"{BROKER_TOPIC_PREFIX}{of}_total" for of in ("bytesin", "bytesout", "messagesin", "totalproducerequests"))
COUNTERS = frozenset({*_COUNTED, f"{REQUEST_PREFIX}totaltimems_count"})
_ONCE = COUNTERS | {"kafka_server_replicamanager_leadercount", "kafka_server_replicamanager_partitioncount"}
_BYTES_IN = f"{BROKER_TOPIC_PREFIX}bytesin_total"
_OF_CLIENTS = "kafka_producer_"
# Points of a counter: scrapes of one broker are a step apart at most, so that over two steps their values overlap.
_LEAST_POINTS = 3
_MOST_TARGETS = 8  # that tell of one broker, or values of a label: more are not compared
_KAFKA_CLUSTER = re.compile(r"(?i)kafka_?cluster(_?(id|name))?")
_STRIMZI_CLUSTER = re.compile(rf"{_KAFKA_CLUSTER.pattern}|strimzi_io_cluster")  # of clients it names Connect's
_CLUSTER = re.compile(r"(?i)(\w+_)?cluster(_?(id|name|arn))?")
_LIKELY = (_STRIMZI_CLUSTER, _CLUSTER, *map(re.compile, (r"(?i)env(ironment)?", r"(\w+_)?namespace", "job")))
"""Labels that are likely to tell clusters apart, the likeliest first."""
_HOST = re.compile(
    r"(?i)exported_instance|service_instance_id|(statefulset_)?(k8s_|kubernetes_(io_)?|exported_)?(pod|node)(_?name)?"
    r"|host(_?(name|id))?|server_address|net_host_name|(kafka_)?broker(_?(id|name|host))?|node_id"
)
_BROKER_NUMBER = re.compile(r"(?i)(kafka_)?(broker|node)(_?id)?")


class ToldSeries(NamedTuple):
    """A series of one answer: the target, its names, its labels as they came, instant and value of each point."""

    instance: str
    series: Series
    labels: Mapping[str, str]
    instants: NDArray[np.float64]
    values: NDArray[np.float64]

    @property
    def broker_id(self) -> str:
        return dict(self.series.labels).get("broker_id", "") if self.series.name.startswith(OF_BROKERS) else ""


class ScrapedBrokers:
    """Gathers what answers of a server say about who is who; `instance_label` is the one that names targets."""

    def __init__(self, instance_label: str) -> None:
        self._instance_label = instance_label
        self._own: dict[str, dict[str, ToldSeries]] = defaultdict(dict)  # by instance and id, of its app-info
        self._labelled: dict[str, dict[str, ToldSeries]] = defaultdict(dict)  # by instance and id that a label gives
        self._conflicts: list[tuple[str, dict[str, str], dict[str, str]]] = []  # broker id, labels of two targets
        self._values: dict[str, set[str]] = defaultdict(set)  # by label, of brokers and of what names clusters
        self.taking_ms: dict[int, int] = {}  # by broker id, when a record last came in
        self._hosts: dict[str, Counter[str]] = {}  # by instance of a gateway, labels that differ

    def take(self, told: Sequence[ToldSeries]) -> None:
        groups: dict[tuple[str, ...], list[ToldSeries]] = defaultdict(list)
        for one in told:
            name = one.series.name
            if name.startswith(APP_INFO) and one.labels.get("id") and not one.broker_id:
                self._own[one.instance][one.labels["id"]] = one
            elif is_told_once(one.series):
                groups[(*self._key(one), name, one.series.exposed_name)].append(one)
                if one.broker_id:
                    self._labelled[one.instance][one.broker_id] = one
                for label, value in self._labels(one).items():
                    self._values[label].add(value)
        self._take_clusters(told)
        for (broker_id, instance, name, _), alike in groups.items():
            self._compare(broker_id, instance, alike)
            for one in alike if name == _BYTES_IN and _by_number(broker_id)[0] >= 0 else ():
                rises = one.instants[1:][np.diff(one.values) > 0]
                if rises.size:
                    last_ms = round(rises.max() * 1000)
                    self.taking_ms[int(broker_id)] = max(last_ms, self.taking_ms.get(int(broker_id), 0))

    def _key(self, one: ToldSeries) -> tuple[str, str]:
        own = self._own.get(one.instance, {})
        number = one.instance if one.instance.isdecimal() else ""
        broker_id = one.broker_id or (next(iter(own)) if len(own) == 1 else number)
        return (broker_id, "") if broker_id else ("", one.instance)

    def _labels(self, one: ToldSeries) -> dict[str, str]:
        return {**one.labels, self._instance_label: one.instance}

    def _take_clusters(self, told: Sequence[ToldSeries]) -> None:
        named: dict[str, dict[str, list[ToldSeries]]] = defaultdict(lambda: defaultdict(list))
        for one in told:
            is_once = is_told_once(one.series)
            for label in one.labels if is_once or one.series.name.startswith(_OF_CLIENTS) else ():
                if (_STRIMZI_CLUSTER if is_once else _KAFKA_CLUSTER).fullmatch(label):
                    named[label][one.labels[label]].append(one)
        for label, held in named.items():
            self._values[label].update(held)
            for (value, of), (other, of_other) in combinations(list(held.items())[:_MOST_TARGETS], 2):
                if _are_at_once(*(np.concatenate([one.instants for one in series]) for series in (of, of_other))):
                    self._conflicts.append(("", {label: value}, {label: other}))

    def _compare(self, broker_id: str, instance: str, alike: Sequence[ToldSeries]) -> None:
        for one, other in combinations(alike[:_MOST_TARGETS], 2):
            differing = {name for name, value in one.labels.items() if other.labels.get(name, value) != value}
            hosts = set() if broker_id else set(filter(_HOST.fullmatch, differing))
            if hosts and _are_at_once(one.instants, other.instants):
                self._hosts.setdefault(instance, Counter()).update(hosts)
            elif one.series.name in COUNTERS and _are_two(one, other):
                if broker_id or any(of.fullmatch(name) for of in _LIKELY[:-1] for name in differing):
                    self._conflicts.append((broker_id, self._labels(one), self._labels(other)))
                else:
                    self._hosts.setdefault(instance, Counter()).update(differing)

    @property
    def mixed_instances(self) -> set[str]:
        """Instances whose brokers' series are several brokers', and nothing that is configured tells whose."""
        return {*(_with_several(self._own) - self._labelled.keys()), *self._hosts}

    def findings(self) -> Iterator[tuple[str, str]]:
        if self._conflicts:
            label = self._find_label()
            values = sorted(self._values[label])
            what = name_some("brokers", sorted({of for of, *_ in self._conflicts if of}, key=_by_number))
            told = f"{what} are there twice, by the" if what else "by the"
            example = f"""{label}{"=~" if label == self._instance_label else "="}"{format_name(values[0], 60)}"'"""
            yield (
                f"several Kafka clusters: {told} label {label} {_some(values)}; none of the samples is taken",
                f"set `selector` of this source to what names this cluster, such as selector: '{example}",
            )
        for instance in sorted(self.mixed_instances):
            gateway = f"the one {self._instance_label} {format_name(instance, 60)}" if instance else "no instance"
            found = f"several brokers' series have {gateway}"
            not_taken = "what it tells of brokers is not taken"
            if instance not in self._hosts:
                ids = _some(sorted(self._own[instance], key=_by_number))
                advice = "let what pushes or collects them keep a label broker_id, or an instance of each broker"
                yield f"{found}, app-info's id {ids}, and no label tells whose they are; {not_taken}", advice
                continue
            label = max(sorted(self._hosts[instance]), key=lambda name: self._hosts[instance][name])
            values = sorted(self._values[label])
            is_number = _BROKER_NUMBER.fullmatch(label) and all(map(str.isdecimal, values))
            key = "broker_label" if is_number else "instance_label"
            yield f"{found}, and {label} differs {_some(values)}; {not_taken}", f"set `{key}: {label}` of this source"

    def _find_label(self) -> str:
        """The label that tells targets apart which tell of the same brokers: of most pairs, the likeliest first."""
        pairs = ((name, value, others) for _, labels, others in self._conflicts for name, value in labels.items())
        counts = Counter(name for name, value, others in pairs if others.get(name, value) != value)
        ranks = {name: next((n for n, of in enumerate(_LIKELY) if of.fullmatch(name)), len(_LIKELY)) for name in counts}
        ranks |= {name: len(_LIKELY) + 1 for name in counts if _HOST.fullmatch(name) or name == self._instance_label}
        return min(counts, key=lambda name: (-counts[name], ranks[name], name), default=self._instance_label)

    def name_each(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `SAMPLE_SCHEMA` whose instance is one broker's or client's: none of several clusters, or of who is not known."""
        mixed, several = (
            pa.array(sorted(instances), pa.string())
            for instances in (self.mixed_instances, _with_several(self._labelled) - self.mixed_instances)
        )
        for batch in () if self._conflicts else batches:  # of several clusters: none is taken
            names, instances, labels = batch["name"], batch["instance"], batch["labels"]
            is_broker = _starts(names, OF_BROKERS)
            own = pc.if_else(_starts(names, (APP_INFO,)), pc.map_lookup(labels, pa.scalar("id"), "first"), None)
            broker_id = pc.coalesce(pc.map_lookup(labels, pa.scalar("broker_id"), "first"), own)
            is_split = pc.and_(is_broker, pc.and_(pc.is_in(instances, several), pc.is_valid(broker_id)))
            taken = pc.if_else(is_split, pc.binary_join_element_wise(instances, broker_id, " broker "), instances)
            at = batch.schema.get_field_index("instance")
            named = batch.set_column(at, batch.schema.field(at), taken)
            yield named.filter(pc.invert(pc.and_(is_broker, pc.is_in(instances, mixed))))


def _with_several(of_instances: Mapping[str, Mapping[str, ToldSeries]]) -> set[str]:
    """Instances that have several broker ids at once; an address may be another broker's later."""
    return {
        instance
        for instance, held in of_instances.items()
        for one, other in combinations(list(held.values())[:_MOST_TARGETS], 2)
        if _are_at_once(one.instants, other.instants)
    }


def is_told_once(series: Series) -> bool:
    return series.name in _ONCE and all(name != "topic" for name, _ in series.labels)


def _are_at_once(instants: NDArray[np.float64], others: NDArray[np.float64]) -> bool:
    common = len(np.intersect1d(instants, others))
    return common > 0 and 2 * common >= len(np.union1d(instants, others))


def _are_two(one: ToldSeries, other: ToldSeries) -> bool:
    """Whether two series of a counter cannot be one broker's, scraped twice."""
    instants, others = one.instants, other.instants
    common, places, other_places = np.intersect1d(instants, others, return_indices=True)
    values, other_values = one.values[places], other.values[other_places]
    if len(common) < _LEAST_POINTS or not np.isfinite([values, other_values]).all():
        return False
    is_apart = values.max() < other_values.min() or other_values.max() < values.min()
    do_rise = values.max() > values.min() and other_values.max() > other_values.min()
    return bool(is_apart and do_rise)  # of a broker that restarted under another name the old series stands still


def describe_several(series: Iterable[Series]) -> str:
    """Why a page is no page of one broker; empty where it may be. A page has each series of a broker's own once."""
    values: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for one in series:
        if is_told_once(one):
            for name, value in one.labels:
                values[one.name, one.exposed_name, name].add(value)
        elif one.name.startswith(APP_INFO):
            values[APP_INFO, "", "broker_id"].update(value for name, value in one.labels if name == "id")
    several = {
        label: sorted(held, key=_by_number)
        for (_, _, label), held in values.items()
        if len(held) > 1 and (label == "instance" or _HOST.fullmatch(label) or _CLUSTER.fullmatch(label))
    }
    label = min(several, default="")
    return label and f"a page of several brokers: {label} {_some(several[label])}"


def _some(values: Sequence[str]) -> str:
    return name_some("", [format_name(value, 60) for value in values]).strip()


def _by_number(text: str) -> tuple[int, str]:
    return (int(text) if text.isdecimal() and len(text) < 12 else -1, text)


def _starts(names: pa.Array, prefixes: Sequence[str]) -> pa.Array:
    return reduce(pc.or_, (pc.starts_with(names, prefix) for prefix in prefixes))


def find_unknown_names(exposed_names: Collection[str]) -> Iterator[Finding]:
    if unknown := list_unknown(exposed_names):
        named = name_some("not known", [f"{name} (nearest: {nearest})" for name, nearest, _ in unknown])
        _, _, canonical = unknown[0]
        advice = f"where one is the same, a `prometheus` source takes it under `queries`, such as {canonical}: {unknown[0][0]}"
        yield Finding(name="metrics", is_ok=True, found=named, advice=advice)

"""From the records of a KRaft metadata log to the cluster's history.

References: Kafka 4.4: `PartitionRegistration.merge`, `ClusterDelta`, `TopicsDelta`, `ConfigurationsDelta`,
`BrokerRegistrationFencingChange`; KIP-868 (metadata transactions), KIP-1066 (cordoned log directories).
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

from pipeline.codec.metadata.cluster_metadata import MetadataRecord, RecordType
from pipeline.model.cluster import CLUSTER_METADATA, Broker, ClusterHistory, Endpoint, PartitionState, Timeline
from pipeline.model.log import TopicPartition, is_partition_number

T = TypeVar("T")
K = TypeVar("K")
_TOPIC_RESOURCE = 2
_BROKER_RESOURCE = 4
_LEADER_UNCHANGED = -2
_ARRAYS = ("replicas", "isr", "adding_replicas", "removing_replicas", "eligible_leader_replicas", "last_known_elr")
_MOST_ORPHANS = 1_000  # that are named
_MOST_COPIED = 20_000_000  # configs in all states together: each change keeps the others of its topic once more


class MetadataEntry(NamedTuple):
    timestamp_ms: int
    offset: int
    record: MetadataRecord


def fold_cluster_history(
    entries: Iterable[MetadataEntry], *, known_since_ms: int | None = None
) -> tuple[ClusterHistory, tuple[MetadataEntry, ...]]:
    """Plays the records of a metadata log, a snapshot's first, to the history and up to a thousand records left out.

    A record takes effect at its batch's timestamp, or where a clock steps back at the latest before; those of a
    metadata transaction at its end, of an aborted one never. A change of leader raises the leader epoch by one. States
    are known from `known_since_ms`, a snapshot's, or the first record on.
    """
    fold = _Fold()
    now_ms = first_ms = None
    beats_ms: deque[int] = deque(maxlen=2)
    pending: list[MetadataEntry] | None = None
    for entry in entries:
        now_ms = entry.timestamp_ms if now_ms is None else max(now_ms, entry.timestamp_ms)
        first_ms = now_ms if first_ms is None else first_ms
        key = entry.record.api_key
        if key == RecordType.BEGIN_TRANSACTION:
            pending = []
        elif key in {RecordType.END_TRANSACTION, RecordType.ABORT_TRANSACTION}:
            for held in pending or () if key == RecordType.END_TRANSACTION else ():
                fold.apply(held, now_ms)
            pending = None
        elif key == RecordType.NO_OP:
            beats_ms.append(now_ms)
        elif pending is not None:
            pending.append(entry)
        else:
            fold.apply(entry, now_ms)
    history = fold.history(first_ms if known_since_ms is None else known_since_ms)
    quiet_ms = now_ms - beats_ms[0] if now_ms is not None and len(beats_ms) > 1 else None
    return replace(history, newest_ms=now_ms, quiet_ms=quiet_ms), tuple(fold.orphans)


class _Timelines(Generic[K, T]):
    """Timelines that grow; several changes at one moment leave the last value, a moment earlier is not possible."""

    def __init__(self) -> None:
        self._moments: dict[K, list[int]] = {}
        self._values: dict[K, list[T | None]] = {}
        self.now: dict[K, T] = {}

    def set(self, key: K, value: T | None, at_ms: int) -> None:
        self._moments.setdefault(key, []).append(at_ms)
        self._values.setdefault(key, []).append(value)
        if value is None:
            self.now.pop(key, None)
        else:
            self.now[key] = value

    def freeze(self) -> dict[K, Timeline[T]]:
        return {key: Timeline(tuple(self._moments[key]), tuple(self._values[key])) for key in self._moments}


class _Fold:
    def __init__(self) -> None:
        self.orphans: list[MetadataEntry] = []
        self._has_orphan_config = False
        self._brokers: _Timelines[int, Broker] = _Timelines()
        self._partitions: _Timelines[TopicPartition, PartitionState] = _Timelines()
        self._configs: _Timelines[tuple[int, str], Mapping[str, str]] = _Timelines()
        self._topic_names: dict[str, str] = {}
        self._of_topic: defaultdict[str, set[TopicPartition]] = defaultdict(set)  # no record looks at all partitions
        self._with_elr: defaultdict[str, set[TopicPartition]] = defaultdict(set)
        self._copied = 0
        self._handlers: dict[int, Callable[[Mapping[str, Any], int], bool]] = {
            RecordType.REGISTER_BROKER: self._register_broker,
            RecordType.UNREGISTER_BROKER: self._unregister_broker,
            RecordType.BROKER_REGISTRATION_CHANGE: self._change_broker,
            RecordType.FENCE_BROKER: lambda fields, at_ms: self._replace_broker(fields["id"], at_ms, is_fenced=True),
            RecordType.UNFENCE_BROKER: lambda fields, at_ms: self._replace_broker(fields["id"], at_ms, is_fenced=False),
            RecordType.TOPIC: self._add_topic,
            RecordType.REMOVE_TOPIC: self._remove_topic,
            RecordType.PARTITION: self._add_partition,
            RecordType.PARTITION_CHANGE: self._change_partition,
            RecordType.CONFIG: self._set_config,
            RecordType.CLEAR_ELR: self._clear_elr,
        }

    def apply(self, entry: MetadataEntry, at_ms: int) -> None:
        handler = self._handlers.get(entry.record.api_key)
        if handler is not None and not handler(entry.record.fields, at_ms):
            is_first_config = entry.record.api_key == RecordType.CONFIG and not self._has_orphan_config
            if len(self.orphans) < _MOST_ORPHANS or is_first_config:  # the first makes configs doubtful
                self.orphans.append(entry)
            self._has_orphan_config |= is_first_config

    def history(self, known_since_ms: int | None) -> ClusterHistory:
        configs = self._configs.freeze()
        return ClusterHistory(
            state_source=CLUSTER_METADATA,
            known_since_ms=known_since_ms,
            brokers=self._brokers.freeze(),
            partitions=self._partitions.freeze(),
            topic_configs={name: timeline for (kind, name), timeline in configs.items() if kind == _TOPIC_RESOURCE},
            default_configs=configs.get((_BROKER_RESOURCE, ""), Timeline()),
        )

    def _register_broker(self, fields: Mapping[str, Any], at_ms: int) -> bool:
        broker = Broker(
            broker_id=fields["broker_id"],
            broker_epoch=fields["broker_epoch"],
            rack=fields["rack"],
            endpoints=tuple(Endpoint(e["name"], e["host"], e["port"]) for e in fields["end_points"] or ()),
            directory_ids=tuple(fields.get("log_dirs") or ()),
            cordoned_directory_ids=tuple(fields.get("cordoned_log_dirs") or ()),
            is_fenced=fields["fenced"],
            is_in_controlled_shutdown=fields.get("in_controlled_shutdown", False),
        )
        self._brokers.set(broker.broker_id, broker, at_ms)
        return True

    def _unregister_broker(self, fields: Mapping[str, Any], at_ms: int) -> bool:
        if is_known := fields["broker_id"] in self._brokers.now:
            self._brokers.set(fields["broker_id"], None, at_ms)
        return is_known

    def _change_broker(self, fields: Mapping[str, Any], at_ms: int) -> bool:
        broker = self._brokers.now.get(fields["broker_id"])
        if broker is None:
            return False
        cordoned = fields.get("cordoned_log_dirs")  # null leaves them as they are, an empty array uncordons all
        fenced = fields.get("fenced", 0)  # 1 fences, -1 unfences, 0 leaves as it is
        return self._replace_broker(
            broker.broker_id,
            at_ms,
            is_fenced=broker.is_fenced if fenced == 0 else fenced > 0,
            is_in_controlled_shutdown=broker.is_in_controlled_shutdown or fields.get("in_controlled_shutdown", 0) > 0,
            directory_ids=tuple(fields.get("log_dirs") or broker.directory_ids),
            cordoned_directory_ids=broker.cordoned_directory_ids if cordoned is None else tuple(cordoned),
        )

    def _replace_broker(self, broker_id: int, at_ms: int, **changes: Any) -> bool:  # noqa: ANN401 - fields of a broker
        broker = self._brokers.now.get(broker_id)
        if broker is not None:
            self._brokers.set(broker_id, replace(broker, **changes), at_ms)
        return broker is not None

    def _add_topic(self, fields: Mapping[str, Any], at_ms: int) -> bool:
        self._topic_names[fields["topic_id"]] = fields["name"]
        return True

    def _remove_topic(self, fields: Mapping[str, Any], at_ms: int) -> bool:
        name = self._topic_names.pop(fields["topic_id"], None)
        if name is None:
            return False
        for key in self._of_topic.pop(name, ()):
            self._partitions.set(key, None, at_ms)
        self._with_elr.pop(name, None)
        if (_TOPIC_RESOURCE, name) in self._configs.now:
            self._configs.set((_TOPIC_RESOURCE, name), None, at_ms)
        return True

    def _add_partition(self, fields: Mapping[str, Any], at_ms: int) -> bool:
        topic = self._topic_names.get(fields["topic_id"])
        if topic is None or not is_partition_number(fields["partition_id"]):
            return False
        state = PartitionState(
            topic=topic,
            topic_id=fields["topic_id"],
            partition=fields["partition_id"],
            leader_id=fields["leader"],
            leader_epoch=fields["leader_epoch"],
            partition_epoch=fields["partition_epoch"],
            **{"replicas": (), "isr": ()} | _read_arrays(fields),
        )
        self._of_topic[topic].add(state.topic_partition)
        self._set_partition(state, at_ms)
        return True

    def _set_partition(self, state: PartitionState, at_ms: int) -> None:
        held = self._with_elr[state.topic]
        (held.add if state.eligible_leader_replicas or state.last_known_elr else held.discard)(state.topic_partition)
        self._partitions.set(state.topic_partition, state, at_ms)

    def _change_partition(self, fields: Mapping[str, Any], at_ms: int) -> bool:
        topic = self._topic_names.get(fields["topic_id"])
        state = None if topic is None else self._partitions.now.get(TopicPartition(topic, fields["partition_id"]))
        if state is None:
            return False
        leader = fields.get("leader", _LEADER_UNCHANGED)
        is_election = leader != _LEADER_UNCHANGED
        changed = replace(
            state,
            leader_id=leader if is_election else state.leader_id,
            leader_epoch=(state.leader_epoch or 0) + int(is_election),
            partition_epoch=(state.partition_epoch or 0) + 1,
            **_read_arrays(fields),
        )
        self._set_partition(changed, at_ms)
        return True

    def _set_config(self, fields: Mapping[str, Any], at_ms: int) -> bool:
        key = (fields["resource_type"], fields["resource_name"])
        configs = dict(self._configs.now.get(key, {}))
        self._copied += len(configs)
        if self._copied > _MOST_COPIED:
            return False
        if fields["value"] is None:
            configs.pop(fields["name"], None)
        else:
            configs[fields["name"]] = fields["value"]
        self._configs.set(key, configs, at_ms)
        return True

    def _clear_elr(self, fields: Mapping[str, Any], at_ms: int) -> bool:
        topics = [fields["topic_name"]] if fields["topic_name"] else [*self._with_elr]  # empty: all topics
        for key in [key for topic in topics for key in self._with_elr.pop(topic, ())]:
            cleared = replace(self._partitions.now[key], eligible_leader_replicas=(), last_known_elr=())
            self._partitions.set(key, cleared, at_ms)
        return True


def _read_arrays(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays of a partition's record, as its state names them; absent and null ones leave things as they are."""
    named = {**dict(zip(_ARRAYS, _ARRAYS, strict=True)), "directories": "directory_ids"}
    return {named[name]: tuple(fields[name]) for name in named if fields.get(name) is not None}

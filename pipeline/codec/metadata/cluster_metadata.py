"""Records of KRaft's `__cluster_metadata` log: what the controllers decided, one message per record value.

Three unsigned varints (frame version, api key, message version), then the message in flexible encoding (KIP-482). Types that
say nothing about brokers, topics and partitions are named, not decoded. References: Kafka 4.4: `AbstractApiMessageSerde`,
`metadata/src/main/resources/common/metadata/*.json` (up to `metadata.version` 4.5-IV0; KIP-1066), `Uuid.toString`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

from pipeline.errors import InputError, parser
from pipeline.model.cluster import StateSubject

T = TypeVar("T")
_MAX_UNSIGNED_VARINT_BYTES = 5


def _integer(size: int, *, signed: bool = True) -> Callable[[FieldReader], int]:
    return lambda reader: int.from_bytes(reader.read_bytes(size), "big", signed=signed)


class FieldReader:
    """Reads a message's fields one by one; `InputError` with the position where bytes or a length are not possible."""

    def __init__(self, data: bytes) -> None:
        self.position = 0  # of the next byte to be read
        self._data = data

    @property
    def remaining_bytes(self) -> int:
        return len(self._data) - self.position

    def read_bytes(self, size: int) -> bytes:
        if size > self.remaining_bytes:
            raise InputError(f"expected {size} bytes, {self.remaining_bytes} are left", position=self.position)
        start = self.position
        self.position += size
        return self._data[start : self.position]

    def read_unsigned_varint(self) -> int:
        value = 0
        start = self.position
        for shift in range(0, 7 * _MAX_UNSIGNED_VARINT_BYTES, 7):
            byte = self.read_bytes(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise InputError("a varint of more than 5 bytes", position=start)

    def read_compact_nullable_string(self) -> str | None:
        length = self.read_unsigned_varint() - 1
        if length < 0:
            return None
        start = self.position
        try:
            return self.read_bytes(length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError("a string that is not UTF-8", position=start) from error

    def read_compact_string(self) -> str:
        start = self.position
        if (value := self.read_compact_nullable_string()) is None:
            raise InputError("a null string where one is needed", position=start)
        return value

    def read_compact_array(self, read_item: Callable[[], T]) -> list[T] | None:
        start = self.position
        count = self.read_unsigned_varint() - 1
        if count < 0:
            return None
        if count > self.remaining_bytes:
            raise InputError(f"an array of {count} items in {self.remaining_bytes} bytes", position=start)
        return [read_item() for _ in range(count)]

    def read_tagged_fields(self) -> dict[int, int]:
        """Skips a section of tagged fields; returns where each begins, by tag."""
        starts = {}
        for _ in range(self.read_unsigned_varint()):
            tag, size = self.read_unsigned_varint(), self.read_unsigned_varint()
            starts[tag] = self.position
            self.read_bytes(size)
        return starts


class RecordType(IntEnum):
    REGISTER_BROKER, UNREGISTER_BROKER, TOPIC, PARTITION, CONFIG, PARTITION_CHANGE = range(6)
    FENCE_BROKER, UNFENCE_BROKER, REMOVE_TOPIC, DELEGATION_TOKEN, USER_SCRAM_CREDENTIAL, FEATURE_LEVEL = range(7, 13)
    CLIENT_QUOTA, PRODUCER_IDS = 14, 15
    BROKER_REGISTRATION_CHANGE, ACCESS_CONTROL_ENTRY, REMOVE_ACCESS_CONTROL_ENTRY, NO_OP = range(17, 21)
    ZK_MIGRATION_STATE, REMOVE_USER_SCRAM_CREDENTIAL = 21, 22
    BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION = 23, 24, 25
    REMOVE_DELEGATION_TOKEN, REGISTER_CONTROLLER, CLEAR_ELR, UNREGISTER_CONTROLLER = range(26, 30)


_TYPES = frozenset(RecordType)


class MetadataRecord(NamedTuple):
    api_key: int
    version: int
    fields: Mapping[str, Any]  # by snake-case name; tagged ones only where the record has them; none if not decoded

    @property
    def type_name(self) -> str:
        return f"{RecordType(self.api_key).name}_RECORD" if self.api_key in _TYPES else f"UNKNOWN_{self.api_key}"


class _Field(NamedTuple):
    name: str
    read: Callable[[FieldReader], Any]
    since_version: int = 0
    tag: int | None = None


READERS: dict[str, Callable[[FieldReader], Any]] = {
    "int8": _integer(1), "int16": _integer(2), "uint16": _integer(2, signed=False), "int32": _integer(4),
    "int64": _integer(8), "boolean": lambda reader: reader.read_bytes(1) != b"\0",  # all but 0 is true, as in Kafka
    "string": FieldReader.read_compact_string, "string?": FieldReader.read_compact_nullable_string,
    "uuid": lambda reader: base64.urlsafe_b64encode(reader.read_bytes(16)).decode("ascii").rstrip("="),
}  # fmt: skip  # a table: short fields share a line


def _find_reader(kind: str) -> Callable[[FieldReader], Any]:
    """Reads a type of `READERS`, a struct of `_STRUCTS`, or with `[]` after it an array of them."""
    if kind.endswith("[]"):
        read = _find_reader(kind.removesuffix("[]"))
        return lambda reader: reader.read_compact_array(lambda: read(reader))
    if kind in _STRUCTS:
        fields = _list_fields(_STRUCTS[kind])
        return lambda reader: _read_fields(reader, fields, version=0)
    return READERS[kind]


def _list_fields(declared: str) -> tuple[_Field, ...]:
    fields = []
    for name, kind, *rest in (one.split() for one in declared.split(",") if one):
        since = next((int(word.removesuffix("+")) for word in rest if word.endswith("+")), 0)
        fields.append(_Field(name, _find_reader(kind), since, int(rest[-1]) if "tag" in rest else None))
    return tuple(fields)


_STRUCTS = {
    "endpoint": "name string, host string, port uint16, security_protocol int16",
    "feature": "name string, min_supported_version int16, max_supported_version int16",
}
_DECLARED = {
    RecordType.REGISTER_BROKER:
        "broker_id int32, is_migrating_zk_broker boolean 2+, incarnation_id uuid, broker_epoch int64, "
        "end_points endpoint[], features feature[], rack string?, fenced boolean, in_controlled_shutdown boolean 1+, "
        "log_dirs uuid[] 3+ tag 0, cordoned_log_dirs uuid[] 4+ tag 1",
    RecordType.UNREGISTER_BROKER: "broker_id int32, broker_epoch int64", RecordType.REMOVE_TOPIC: "topic_id uuid",
    RecordType.TOPIC: "name string, topic_id uuid", RecordType.CLEAR_ELR: "topic_name string",
    RecordType.PARTITION:
        "partition_id int32, topic_id uuid, replicas int32[], isr int32[], removing_replicas int32[], "
        "adding_replicas int32[], leader int32, leader_epoch int32, partition_epoch int32, directories uuid[] 1+, "
        "leader_recovery_state int8 tag 0, eligible_leader_replicas int32[] 2+ tag 1, last_known_elr int32[] 2+ tag 2",
    RecordType.CONFIG: "resource_type int8, resource_name string, name string, value string?",
    RecordType.PARTITION_CHANGE:
        "partition_id int32, topic_id uuid, isr int32[] tag 0, leader int32 tag 1, replicas int32[] tag 2, "
        "removing_replicas int32[] tag 3, adding_replicas int32[] tag 4, leader_recovery_state int8 tag 5, "
        "eligible_leader_replicas int32[] 2+ tag 6, last_known_elr int32[] 2+ tag 7, directories uuid[] 1+ tag 8",
    RecordType.FENCE_BROKER: "id int32, epoch int64", RecordType.UNFENCE_BROKER: "id int32, epoch int64",
    RecordType.FEATURE_LEVEL: "name string, feature_level int16",
    RecordType.BROKER_REGISTRATION_CHANGE:
        "broker_id int32, broker_epoch int64, fenced int8 tag 0, in_controlled_shutdown int8 1+ tag 1, "
        "log_dirs uuid[] 2+ tag 2, cordoned_log_dirs uuid[] 3+ tag 3",
    RecordType.BEGIN_TRANSACTION: "name string? tag 0", RecordType.END_TRANSACTION: "",
    RecordType.ABORT_TRANSACTION: "reason string? tag 0",
}  # fmt: skip  # a table: short fields share a line
_MESSAGES: dict[int, tuple[_Field, ...]] = {key: _list_fields(declared) for key, declared in _DECLARED.items()}
"""By type; the newest version that is known is that of the newest field."""


@parser
def parse_metadata_record(value: bytes) -> MetadataRecord:
    """Decodes a record value, without fields for types that are not decoded; `InputError` has a position in it."""
    reader = FieldReader(value)
    frame = reader.read_unsigned_varint()
    if frame != 1:
        raise InputError(f"frame version {frame}, expected 1", position=0, first_bytes=value)
    api_key = reader.read_unsigned_varint()
    version = reader.read_unsigned_varint()
    message = _MESSAGES.get(api_key)
    if message is None and api_key in _TYPES:
        return MetadataRecord(api_key, version, {})
    if message is None:
        reason = f"a record of type {api_key}, known are types up to {max(_TYPES)}"
        raise InputError(reason, position=0, first_bytes=value)
    if version > (newest := max((field.since_version for field in message), default=0)):
        reason = f"{RecordType(api_key).name}_RECORD of version {version}, known up to {newest}"
        raise InputError(reason, position=0, first_bytes=value)
    fields = _read_fields(reader, message, version)
    if reader.remaining_bytes:
        reason = f"{RecordType(api_key).name}_RECORD has {reader.remaining_bytes} bytes left over"
        raise InputError(reason, position=reader.position, first_bytes=value[reader.position :])
    return MetadataRecord(api_key, version, fields)


_ABOUT = {kind: StateSubject.BROKERS for kind in RecordType if "BROKER" in kind.name}
_ABOUT |= {kind: StateSubject.PARTITIONS for kind in RecordType if "PARTITION" in kind.name or "TOPIC" in kind.name}
_ABOUT |= {RecordType.CLEAR_ELR: StateSubject.PARTITIONS, RecordType.CONFIG: StateSubject.CONFIGS}


def find_subjects(value: bytes) -> frozenset[StateSubject]:
    """What a record that cannot be read is about, by its type; everything for transactions and unknown types."""
    try:
        reader = FieldReader(value)
        _, api_key = reader.read_unsigned_varint(), reader.read_unsigned_varint()
        return frozenset({_ABOUT[RecordType(api_key)]})
    except (InputError, ValueError, KeyError):
        return frozenset(StateSubject)


def _read_fields(reader: FieldReader, fields: tuple[_Field, ...], version: int) -> dict[str, Any]:
    known = [field for field in fields if field.since_version <= version]
    values = {field.name: field.read(reader) for field in known if field.tag is None}
    tagged = reader.read_tagged_fields()
    end = reader.position
    by_tag = {field.tag: field for field in known if field.tag is not None}
    for tag, start in tagged.items():
        if tag in by_tag:  # a tag that is not known is skipped, as KIP-482 wants it
            reader.position = start
            values[by_tag[tag].name] = by_tag[tag].read(reader)
    reader.position = end
    return values

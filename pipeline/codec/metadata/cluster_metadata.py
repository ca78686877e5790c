"""Records of KRaft's `__cluster_metadata` log: what the controllers decided, one message per record value.

A value is three unsigned varints (frame version, api key, message version), then the message in flexible encoding.
Types that say nothing about brokers, topics and partitions (ACLs, quotas, tokens...) are named, not decoded.

References:
    `AbstractApiMessageSerde`, `metadata/src/main/resources/common/metadata/*.json` (Kafka 4.4, message versions up to
    `metadata.version` 4.5-IV0; cordoned log directories are KIP-1066).
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from pipeline.codec.metadata.flexible_fields import FieldReader
from pipeline.errors import InputError, parser
from pipeline.model.cluster import StateSubject

FRAME_VERSION = 1


class RecordType(IntEnum):
    """Kafka's names of the types, less `_RECORD`."""

    REGISTER_BROKER = 0
    UNREGISTER_BROKER = 1
    TOPIC = 2
    PARTITION = 3
    CONFIG = 4
    PARTITION_CHANGE = 5
    FENCE_BROKER = 7
    UNFENCE_BROKER = 8
    REMOVE_TOPIC = 9
    DELEGATION_TOKEN = 10
    USER_SCRAM_CREDENTIAL = 11
    FEATURE_LEVEL = 12
    CLIENT_QUOTA = 14
    PRODUCER_IDS = 15
    BROKER_REGISTRATION_CHANGE = 17
    ACCESS_CONTROL_ENTRY = 18
    REMOVE_ACCESS_CONTROL_ENTRY = 19
    NO_OP = 20
    ZK_MIGRATION_STATE = 21
    REMOVE_USER_SCRAM_CREDENTIAL = 22
    BEGIN_TRANSACTION = 23
    END_TRANSACTION = 24
    ABORT_TRANSACTION = 25
    REMOVE_DELEGATION_TOKEN = 26
    REGISTER_CONTROLLER = 27
    CLEAR_ELR = 28
    UNREGISTER_CONTROLLER = 29


_TYPES = frozenset(RecordType)


class MetadataRecord(NamedTuple):
    """One record of the metadata log.

    `fields` by snake-case name; a tagged one is there only where the record has it; empty for types not decoded.
    """

    api_key: int
    version: int
    fields: Mapping[str, Any]

    @property
    def type_name(self) -> str:
        """Kafka's name of the type, such as `PARTITION_RECORD`."""
        return f"{RecordType(self.api_key).name}_RECORD" if self.api_key in _TYPES else f"UNKNOWN_{self.api_key}"


class _Field(NamedTuple):
    """A field of a message: since which version, and under which tag where it is a tagged one."""

    name: str
    read: Callable[[FieldReader], Any]
    since_version: int = 0
    tag: int | None = None


class _Message(NamedTuple):
    max_version: int
    fields: tuple[_Field, ...]


def _int32_array(reader: FieldReader) -> list[int] | None:
    return reader.read_compact_array(reader.read_int32)


def _uuid_array(reader: FieldReader) -> list[str] | None:
    return reader.read_compact_array(reader.read_uuid)


def _struct_array(*fields: _Field) -> Callable[[FieldReader], list[dict[str, Any]] | None]:
    def read(reader: FieldReader) -> list[dict[str, Any]] | None:
        return reader.read_compact_array(lambda: _read_fields(reader, fields, version=0))

    return read


_NAME = _Field("name", FieldReader.read_compact_string)
_ENDPOINTS = _struct_array(
    _NAME,
    _Field("host", FieldReader.read_compact_string),
    _Field("port", FieldReader.read_uint16),
    _Field("security_protocol", FieldReader.read_int16),
)
_FEATURES = _struct_array(
    _NAME,
    _Field("min_supported_version", FieldReader.read_int16),
    _Field("max_supported_version", FieldReader.read_int16),
)
_BROKER_ID = _Field("broker_id", FieldReader.read_int32)
_BROKER_EPOCH = _Field("broker_epoch", FieldReader.read_int64)
_TOPIC_ID = _Field("topic_id", FieldReader.read_uuid)
_PARTITION_ID = _Field("partition_id", FieldReader.read_int32)
_FENCING = (_Field("id", FieldReader.read_int32), _Field("epoch", FieldReader.read_int64))

_MESSAGES: dict[int, _Message] = {
    RecordType.REGISTER_BROKER: _Message(
        4,
        (
            _BROKER_ID,
            _Field("is_migrating_zk_broker", FieldReader.read_boolean, since_version=2),
            _Field("incarnation_id", FieldReader.read_uuid),
            _BROKER_EPOCH,
            _Field("end_points", _ENDPOINTS),
            _Field("features", _FEATURES),
            _Field("rack", FieldReader.read_compact_nullable_string),
            _Field("fenced", FieldReader.read_boolean),
            _Field("in_controlled_shutdown", FieldReader.read_boolean, since_version=1),
            _Field("log_dirs", _uuid_array, since_version=3, tag=0),
            _Field("cordoned_log_dirs", _uuid_array, since_version=4, tag=1),
        ),
    ),
    RecordType.UNREGISTER_BROKER: _Message(0, (_BROKER_ID, _BROKER_EPOCH)),
    RecordType.TOPIC: _Message(0, (_NAME, _TOPIC_ID)),
    RecordType.PARTITION: _Message(
        2,
        (
            _PARTITION_ID,
            _TOPIC_ID,
            _Field("replicas", _int32_array),
            _Field("isr", _int32_array),
            _Field("removing_replicas", _int32_array),
            _Field("adding_replicas", _int32_array),
            _Field("leader", FieldReader.read_int32),
            _Field("leader_epoch", FieldReader.read_int32),
            _Field("partition_epoch", FieldReader.read_int32),
            _Field("directories", _uuid_array, since_version=1),
            _Field("leader_recovery_state", FieldReader.read_int8, tag=0),
            _Field("eligible_leader_replicas", _int32_array, since_version=2, tag=1),
            _Field("last_known_elr", _int32_array, since_version=2, tag=2),
        ),
    ),
    RecordType.CONFIG: _Message(
        0,
        (
            _Field("resource_type", FieldReader.read_int8),
            _Field("resource_name", FieldReader.read_compact_string),
            _NAME,
            _Field("value", FieldReader.read_compact_nullable_string),
        ),
    ),
    RecordType.PARTITION_CHANGE: _Message(
        2,
        (
            _PARTITION_ID,
            _TOPIC_ID,
            _Field("isr", _int32_array, tag=0),
            _Field("leader", FieldReader.read_int32, tag=1),
            _Field("replicas", _int32_array, tag=2),
            _Field("removing_replicas", _int32_array, tag=3),
            _Field("adding_replicas", _int32_array, tag=4),
            _Field("leader_recovery_state", FieldReader.read_int8, tag=5),
            _Field("eligible_leader_replicas", _int32_array, since_version=2, tag=6),
            _Field("last_known_elr", _int32_array, since_version=2, tag=7),
            _Field("directories", _uuid_array, since_version=1, tag=8),
        ),
    ),
    RecordType.FENCE_BROKER: _Message(0, _FENCING),
    RecordType.UNFENCE_BROKER: _Message(0, _FENCING),
    RecordType.REMOVE_TOPIC: _Message(0, (_TOPIC_ID,)),
    RecordType.FEATURE_LEVEL: _Message(0, (_NAME, _Field("feature_level", FieldReader.read_int16))),
    RecordType.BROKER_REGISTRATION_CHANGE: _Message(
        3,
        (
            _BROKER_ID,
            _BROKER_EPOCH,
            _Field("fenced", FieldReader.read_int8, tag=0),
            _Field("in_controlled_shutdown", FieldReader.read_int8, since_version=1, tag=1),
            _Field("log_dirs", _uuid_array, since_version=2, tag=2),
            _Field("cordoned_log_dirs", _uuid_array, since_version=3, tag=3),
        ),
    ),
    RecordType.BEGIN_TRANSACTION: _Message(0, (_Field("name", FieldReader.read_compact_nullable_string, tag=0),)),
    RecordType.END_TRANSACTION: _Message(0, ()),
    RecordType.ABORT_TRANSACTION: _Message(0, (_Field("reason", FieldReader.read_compact_nullable_string, tag=0),)),
    RecordType.CLEAR_ELR: _Message(0, (_Field("topic_name", FieldReader.read_compact_string),)),
}


@parser
def parse_metadata_record(value: bytes) -> MetadataRecord:
    """Decodes one record value of the metadata log; without fields for types that are not decoded.

    Raises:
        InputError: Another frame version, a type or a message version newer than known (its layout cannot be guessed), or
            bytes that do not fit; `position` is relative to the value.
    """
    reader = FieldReader(value)
    frame = reader.read_unsigned_varint()
    if frame != FRAME_VERSION:
        raise InputError(f"frame version {frame}, expected {FRAME_VERSION}", position=0, first_bytes=value)
    api_key = reader.read_unsigned_varint()
    version = reader.read_unsigned_varint()
    message = _MESSAGES.get(api_key)
    if message is None and api_key in _TYPES:
        return MetadataRecord(api_key, version, {})
    if message is None:
        reason = f"a record of type {api_key}, known are types up to {max(_TYPES)}"
        raise InputError(reason, position=0, first_bytes=value)
    if version > message.max_version:
        reason = f"{RecordType(api_key).name}_RECORD of version {version}, known up to {message.max_version}"
        raise InputError(reason, position=0, first_bytes=value)
    fields = _read_fields(reader, message.fields, version)
    if reader.remaining_bytes:
        reason = f"{RecordType(api_key).name}_RECORD has {reader.remaining_bytes} bytes left over"
        raise InputError(reason, position=reader.position, first_bytes=value[reader.position :])
    return MetadataRecord(api_key, version, fields)


_ABOUT_BROKERS = frozenset(
    {
        *(RecordType.REGISTER_BROKER, RecordType.UNREGISTER_BROKER, RecordType.FENCE_BROKER),
        *(RecordType.UNFENCE_BROKER, RecordType.BROKER_REGISTRATION_CHANGE),
    }
)


def find_subjects(value: bytes) -> frozenset[StateSubject]:
    """What a record that cannot be read is about, by its type; all there is where its type is not known either.

    A transaction's beginning or end that is not read decides over records of every kind.
    """
    try:
        reader = FieldReader(value)
        _, api_key = reader.read_unsigned_varint(), reader.read_unsigned_varint()
    except InputError:
        return frozenset(StateSubject)
    if api_key in _ABOUT_BROKERS:
        return frozenset({StateSubject.BROKERS})
    if api_key == RecordType.CONFIG:
        return frozenset({StateSubject.CONFIGS})
    about_partitions = (RecordType.TOPIC, RecordType.REMOVE_TOPIC, RecordType.PARTITION, RecordType.PARTITION_CHANGE)
    if api_key in (*about_partitions, RecordType.CLEAR_ELR):
        return frozenset({StateSubject.PARTITIONS})
    return frozenset(StateSubject)


def _read_fields(reader: FieldReader, fields: tuple[_Field, ...], version: int) -> dict[str, Any]:
    values = {
        field.name: field.read(reader) for field in fields if field.tag is None and field.since_version <= version
    }
    tagged = reader.read_tagged_fields()
    end = reader.position
    by_tag = {field.tag: field for field in fields if field.tag is not None and field.since_version <= version}
    for tag, (start, _) in tagged.items():
        if tag in by_tag:  # a tag that is not known is skipped, as KIP-482 wants it
            reader.position = start
            values[by_tag[tag].name] = by_tag[tag].read(reader)
    reader.position = end
    return values

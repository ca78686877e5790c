"""The fold of metadata records: rows of records, and the state they must leave (rules of `PartitionRegistration.merge`)."""

import struct
import time

import pytest

from pipeline.codec.metadata.cluster_history import MetadataEntry, fold_cluster_history
from pipeline.codec.metadata.cluster_metadata import (
    READERS,
    FieldReader,
    MetadataRecord,
    RecordType,
    find_subjects,
    parse_metadata_record,
)
from pipeline.errors import InputError
from pipeline.model.cluster import NO_LEADER, LeaderTerm, StateSubject
from pipeline.model.log import TopicPartition

T0 = TopicPartition("t", 0)


def topic(name="t", topic_id="id"):
    return RecordType.TOPIC, {"name": name, "topic_id": topic_id}


def partition(leader=1, topic_id="id", number=0):
    fields = {"partition_id": number, "topic_id": topic_id, "leader": leader, "leader_epoch": 0, "partition_epoch": 0}
    replicas = {"replicas": [1, 2], "isr": [1, 2], "removing_replicas": [], "adding_replicas": []}
    return RecordType.PARTITION, fields | replicas


def change(topic_id="id", **fields):
    return RecordType.PARTITION_CHANGE, {"partition_id": 0, "topic_id": topic_id, **fields}


def broker(broker_id=1, *, fenced=True):
    fields = {"broker_id": broker_id, "broker_epoch": 5, "rack": "r", "fenced": fenced, "log_dirs": ["d"]}
    return RecordType.REGISTER_BROKER, fields | {"end_points": [{"name": "C", "host": "h", "port": 9092}]}


def broker_change(**fields):
    return RecordType.BROKER_REGISTRATION_CHANGE, {"broker_id": 1, "broker_epoch": 5, **fields}


def config(value, resource=2, name="t"):
    return RecordType.CONFIG, {"resource_type": resource, "resource_name": name, "name": "retention.ms", "value": value}


def fold(*timed):
    """Rows of (moment, (api key, fields)...) to a history and its orphans."""
    records = [(at_ms, row) for at_ms, *rows in timed for row in rows]
    entries = (MetadataEntry(at, i, MetadataRecord(key, 0, fields)) for i, (at, (key, fields)) in enumerate(records))
    return fold_cluster_history(entries)


@pytest.mark.parametrize(
    ("fields", "leader", "epoch", "isr"),
    [
        ({"isr": [1]}, 1, 0, (1,)),
        ({"leader": 2}, 2, 1, (1, 2)),
        ({"leader": 1}, 1, 1, (1, 2)),  # the same leader again still starts an epoch
        ({"leader": -1, "isr": []}, NO_LEADER, 1, ()),
        ({"leader": -2}, 1, 0, (1, 2)),
        ({"isr": None}, 1, 0, (1, 2)),
    ],
)
def test_a_partition_change(fields, leader, epoch, isr):
    history, _ = fold((10, topic(), partition()), (20, change(**fields)))
    before, after = history.state_at(19).partitions[T0], history.state_at(20).partitions[T0]
    assert (before.leader_id, before.leader_epoch, before.isr, before.partition_epoch) == (1, 0, (1, 2), 0)
    assert (after.leader_id, after.leader_epoch, after.isr, after.partition_epoch) == (leader, epoch, isr, 1)
    assert after.preferred_leader_id == 1


def test_leader_terms():
    changes = ((20, change(leader=2)), (25, change(isr=[2])), (30, change(leader=-1)))
    history, _ = fold((10, topic(), partition()), *changes)
    terms = ((0, 1, 10), (1, 2, 20), (2, NO_LEADER, 30))
    assert history.leader_terms(T0) == tuple(LeaderTerm("id", *term) for term in terms)
    assert history.state_at(30).leaders == {}
    assert history.known_since_ms == 10
    assert history.state_at(0).leaders == {T0: 1}  # before the first record: the first state that is known


def test_a_topic_made_again_starts_over():
    history, _ = fold(
        (10, topic(), partition(1), config("5")),
        (20, (RecordType.REMOVE_TOPIC, {"topic_id": "id"})),
        (30, topic(topic_id="new"), partition(2, topic_id="new")),
    )
    first, gone, again = (history.state_at(at).partitions.get(T0) for at in (10, 20, 30))
    assert (first.topic_id, gone, again.topic_id) == ("id", None, "new")
    assert history.state_at(20).topic_configs == {}
    assert history.leader_terms(T0) == (LeaderTerm("id", 0, 1, 10), LeaderTerm("new", 0, 2, 30))


@pytest.mark.parametrize(
    ("end", "leader"),
    [(RecordType.END_TRANSACTION, 2), (RecordType.ABORT_TRANSACTION, 1)],
    ids=["committed", "aborted"],
)
def test_a_metadata_transaction_takes_effect_at_its_end_or_never(end, leader):
    begin = (RecordType.BEGIN_TRANSACTION, {})
    history, _ = fold((10, topic(), partition()), (20, begin, change(leader=2)), (30, (end, {})), (40, change(isr=[2])))
    assert history.state_at(29).leaders == {T0: 1}
    assert history.state_at(30).leaders == {T0: leader}
    assert history.state_at(40).partitions[T0].isr == (2,)


def test_an_unfinished_transaction_has_no_effect():
    history, _ = fold((10, topic(), partition()), (20, (RecordType.BEGIN_TRANSACTION, {}), change(leader=2)))
    assert history.state_at(20).leaders == {T0: 1}


@pytest.mark.parametrize(
    ("rows", "fenced", "stopping", "disks"),
    [
        ([], True, False, ("d",)),
        ([broker_change(fenced=-1)], False, False, ("d",)),
        ([broker_change(fenced=-1), broker_change(in_controlled_shutdown=1)], False, True, ("d",)),
        ([broker_change(fenced=-1), broker_change(fenced=1)], True, False, ("d",)),
        ([(RecordType.UNFENCE_BROKER, {"id": 1, "epoch": 5})], False, False, ("d",)),
        ([broker_change(log_dirs=["d", "e"])], True, False, ("d", "e")),
        ([broker_change(in_controlled_shutdown=1), broker(fenced=False)], False, False, ("d",)),
    ],
)
def test_brokers(rows, fenced, stopping, disks):
    history, _ = fold((10, broker(), *rows))
    found = history.state_at(10).brokers[1]
    assert (found.is_fenced, found.is_in_controlled_shutdown, found.directory_ids) == (fenced, stopping, disks)
    assert (found.rack, found.endpoints[0].port) == ("r", 9092)


def test_an_unregistered_broker_is_gone():
    history, _ = fold((10, broker()), (20, (RecordType.UNREGISTER_BROKER, {"broker_id": 1, "broker_epoch": 5})))
    assert history.state_at(19).brokers.keys() == {1}
    assert history.state_at(20).brokers == {}


def test_configs_override_defaults_and_can_be_taken_back():
    default = config("7", resource=4, name="")
    history, _ = fold((10, topic(), partition(), default), (20, config("5")), (30, config(None)))
    assert [history.state_at(at).topic_config("t") for at in (10, 20, 30)] == [{"retention.ms": days} for days in "757"]


def test_eligible_leaders_are_cleared_by_topic_or_everywhere():
    elr = {"eligible_leader_replicas": [1], "last_known_elr": [2]}
    for name, left in (("t", ()), ("", ()), ("other", (1,))):
        history, _ = fold((10, topic(), partition(), change(**elr)), (20, (RecordType.CLEAR_ELR, {"topic_name": name})))
        assert history.state_at(10).partitions[T0].last_known_elr == (2,)
        assert history.state_at(20).partitions[T0].eligible_leader_replicas == left


def test_a_clock_that_steps_back_does_not_reorder():
    history, _ = fold((30, topic(), partition()), (10, change(leader=2)), (40, change(leader=1)))
    assert [history.state_at(at).leaders[T0] for at in (30, 39, 40)] == [2, 2, 1]


def test_records_about_nothing_known_are_named():
    history, orphans = fold((10, partition(), change(leader=2), broker_change(fenced=1)))
    assert [orphan.offset for orphan in orphans] == [0, 1, 2]
    assert history.partitions == {}


@pytest.mark.parametrize("number", [-1, 200_001, 2**31 - 2])
def test_a_partition_that_no_topic_has_is_left_out(number):
    history, orphans = fold((10, topic(), partition(), partition(number=number)))
    assert [orphan.record.fields["partition_id"] for orphan in orphans] == [number]
    assert [*history.partitions] == [T0]


ID = bytes(range(16))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "expected 1 bytes"),
        (b"\x00\x02\x00", "frame version 0, expected 1"),
        (b"\x01\x02\x01\x02t" + ID + b"\0", "TOPIC_RECORD of version 1, known up to 0"),
        (b"\x01\x02\x00\x02t" + ID + b"\0\0", "1 bytes left over"),
        (b"\x01\x02\x00\x02t" + ID[:9], "expected 16 bytes, 9 are left"),
        (b"\x01\x02\x00\x00" + ID + b"\0", "a null string"),
        (b"\x01\x02\x00\x02\xff" + ID + b"\0", "not UTF-8"),
        (b"\x01\x03\x00\0\0\0\0" + ID + b"\xff\xff\xff\xff\x0f", "an array of"),
        (b"\x01\x02\x00\xff\xff\xff\xff\xff", "more than 5 bytes"),
    ],
)
def test_broken_records(value, reason):
    with pytest.raises(InputError, match=reason):
        parse_metadata_record(value)


# the end of `validVersions` in Kafka 4.4's JSON files of these records
NEWEST_VERSIONS = {
    "REGISTER_BROKER": 4,
    "PARTITION": 2,
    "PARTITION_CHANGE": 2,
    "BROKER_REGISTRATION_CHANGE": 3,
    **dict.fromkeys(("UNREGISTER_BROKER", "TOPIC", "CONFIG", "FENCE_BROKER", "UNFENCE_BROKER", "REMOVE_TOPIC"), 0),
    **dict.fromkeys(("FEATURE_LEVEL", "BEGIN_TRANSACTION", "END_TRANSACTION", "ABORT_TRANSACTION", "CLEAR_ELR"), 0),
}


@pytest.mark.parametrize(("name", "newest"), NEWEST_VERSIONS.items())
def test_a_version_newer_than_the_newest_is_not_guessed_at(name, newest):
    header = bytes([1, RecordType[name]])
    with pytest.raises(InputError, match=rf"^{name}_RECORD of version {newest + 1}, known up to {newest}"):
        parse_metadata_record(header + bytes([newest + 1]))
    if name != "END_TRANSACTION":  # one without fields
        with pytest.raises(InputError, match=r"expected \d+ bytes"):
            parse_metadata_record(header + bytes([newest]))


def test_types_that_say_nothing_of_the_cluster_are_named_only():
    assert parse_metadata_record(b"\x01\x1d\x00rubbish") == MetadataRecord(29, 0, {})
    assert parse_metadata_record(b"\x01\x1d\x00").type_name == "UNREGISTER_CONTROLLER_RECORD"


def test_a_type_newer_than_the_newest_is_not_passed_over():
    with pytest.raises(InputError, match="a record of type 99, known are types up to 29"):
        parse_metadata_record(b"\x01\x63\x07rubbish")


EVERYTHING = {StateSubject.BROKERS, StateSubject.PARTITIONS, StateSubject.CONFIGS}


@pytest.mark.parametrize(
    ("value", "subjects"),
    [
        (bytes([1, RecordType.REGISTER_BROKER, 9]), {StateSubject.BROKERS}),
        (bytes([1, RecordType.PARTITION_CHANGE, 9]), {StateSubject.PARTITIONS}),
        (bytes([1, RecordType.CONFIG, 9]), {StateSubject.CONFIGS}),
        (bytes([1, RecordType.END_TRANSACTION, 9]), EVERYTHING),
        (bytes([1, 99, 0]), EVERYTHING),
        (b"\xff", EVERYTHING),
    ],
)
def test_what_a_record_that_cannot_be_read_is_about(value, subjects):
    assert find_subjects(value) == subjects


def test_unknown_tags_are_passed_over():
    leader_and_unknown_tag = b"\x02\x01\x04" + struct.pack(">i", 7) + b"\x33\x02ab"
    record = parse_metadata_record(b"\x01\x05\x00" + struct.pack(">i", 3) + ID + leader_and_unknown_tag)
    assert record.fields == {"partition_id": 3, "topic_id": "AAECAwQFBgcICQoLDA0ODw", "leader": 7}


def test_numbers_of_every_width():
    reader = FieldReader(struct.pack(">bhHiq?", -1, -2, 65535, -3, -4, True))
    kinds = ("int8", "int16", "uint16", "int32", "int64", "boolean")
    assert [READERS[kind](reader) for kind in kinds] == [-1, -2, 65535, -3, -4, True]
    assert reader.remaining_bytes == 0


REGISTERED = (
    struct.pack(">i?", 3, False)  # broker id, not migrating
    + ID  # incarnation
    + struct.pack(">q", 7)  # broker epoch
    + b"\x01\x01"  # no end points, no features
    + b"\x03r3"
    + b"\x01\x00"  # fenced, not in controlled shutdown
)


@pytest.mark.parametrize(
    ("tags", "cordoned"),
    [(b"\x01\x00\x11\x02" + ID, ()), (b"\x02\x00\x11\x02" + ID + b"\x01\x11\x02" + ID, ("AAECAwQFBgcICQoLDA0ODw",))],
    ids=["none cordoned", "one cordoned"],
)
def test_a_broker_registers_as_of_kafka_4_2_on(tags, cordoned):
    """Version 4 has what version 3 has, and the cordoned log directories (KIP-1066) under tag 1."""
    record = parse_metadata_record(b"\x01\x00\x04" + REGISTERED + tags)
    history, _ = fold((10, (record.api_key, record.fields)))
    registered = history.state_at(10).brokers[3]
    assert (registered.rack, registered.directory_ids) == ("r3", ("AAECAwQFBgcICQoLDA0ODw",))
    assert registered.cordoned_directory_ids == cordoned


def test_log_directories_are_cordoned_and_uncordoned_by_a_change():
    one = ("AAECAwQFBgcICQoLDA0ODw",)
    change = b"\x01\x11\x03" + struct.pack(">iq", 1, 7)
    cordon, leave, uncordon = (
        parse_metadata_record(change + tags)
        for tags in (b"\x01\x03\x11\x02" + ID, b"\x01\x00\x01\xff", b"\x01\x03\x01\x01")
    )
    rows = [(record.api_key, record.fields) for record in (cordon, leave, uncordon)]
    history, _ = fold((10, broker()), *((20 + at, row) for at, row in enumerate(rows)))
    assert [history.state_at(at).brokers[1].cordoned_directory_ids for at in (10, 20, 21, 22)] == [(), one, one, ()]
    assert history.state_at(21).brokers[1].is_fenced is False


def seconds_of(*rows):
    began = time.process_time()
    fold((10, topic(), *(partition(number=number) for number in range(5_000))), (20, *rows))
    return time.process_time() - began


def test_no_record_has_all_partitions_looked_at():
    """A host may write any number of them into its own log."""
    few = (RecordType.CLEAR_ELR, {"topic_name": "t"})
    gone = [topic("u", "other"), (RecordType.REMOVE_TOPIC, {"topic_id": "other"})]
    assert seconds_of(*[few] * 5_000) < 2
    assert seconds_of(*gone * 5_000) < 2


def test_configs_of_a_topic_take_no_memory_of_their_square(monkeypatch):
    monkeypatch.setattr("pipeline.codec.metadata.cluster_history._MOST_COPIED", 1_000, raising=False)
    named = [(RecordType.CONFIG, {**config("1")[1], "name": f"c{number}"}) for number in range(3_000)]
    history, orphans = fold((10, topic(), *named))
    assert sum(len(state) for state in history.topic_configs["t"].values) < 2_000
    assert len(orphans) == 1_000

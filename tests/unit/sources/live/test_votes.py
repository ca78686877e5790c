"""What brokers say about the cluster, counted. Oracle: written out by hand; real brokers are in `tests/integration/test_lying_broker.py`."""

import asyncio
import struct
from types import SimpleNamespace

import pytest
from kafka.errors import KafkaConnectionError
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from pipeline.model.cluster import NO_LEADER
from pipeline.model.log import TopicPartition
from pipeline.sources.live.admin import ask_metadata
from pipeline.sources.live.connection import ASKED_BROKERS, BROKERS_REQUEST, ClusterConnection
from pipeline.sources.live.settings import LiveSettings

KEY = TopicPartition("t", 0)
HONEST, LIAR = ("a:1", "c:3"), "b:2"
ALL = ("a:1", "b:2", "c:3")


def node(broker_id, address, rack=None):
    host, port = address.split(":")
    return SimpleNamespace(node_id=broker_id, host=host, port=int(port), rack=rack)


def reply(leader, addresses=ALL, isr=(1, 2), number=0):
    partition = SimpleNamespace(
        partition_index=number, leader_id=leader, leader_epoch=7, replica_nodes=[1, 2], isr_nodes=isr
    )
    return SimpleNamespace(
        brokers=[node(number, address) for number, address in enumerate(addresses)],
        topics=[SimpleNamespace(name="t", is_internal=False, partitions=[partition])],
    )


class Cluster:
    """Nodes as the library keeps them."""

    def __init__(self, address):
        self._bootstrap_brokers, self._brokers = {"bootstrap-0": node("bootstrap-0", address)}, {}

    def bootstrap_brokers(self):
        return list(self._bootstrap_brokers.values())

    def brokers(self):
        return list(self._brokers.values())

    def update_metadata(self, said):
        self._brokers = {
            broker_id: node(broker_id, f"{host}:{port}", rack) for broker_id, host, port, rack in said.brokers
        }


class Manager:
    """A loop, and brokers that answer after a while; None does not answer."""

    def __init__(self, replies, waits_s, address):
        self.cluster, self._replies, self._waits_s, self.asked, self.config = Cluster(address), replies, waits_s, [], {}

    def send(self, _request, node_id, _timeout_ms):
        nodes = self.cluster._bootstrap_brokers | self.cluster._brokers
        address = f"{nodes[node_id].host}:{nodes[node_id].port}"
        self.asked.append(address)
        return asyncio.ensure_future(self._answer(address))

    async def _answer(self, address):
        await asyncio.sleep(self._waits_s.get(address, 0))
        if self._replies[address] is None:
            raise KafkaConnectionError
        return self._replies[address]

    def run(self, coroutine, *arguments):
        return asyncio.run(coroutine(*arguments))


def connected(replies, waits_s=None, addresses=ALL):
    admin = SimpleNamespace(_manager=Manager(replies, waits_s or {}, addresses[0]), close=lambda: None)
    return ClusterConnection(admin, LiveSettings(bootstrap_servers=",".join(addresses)))


def test_most_brokers_decide_who_leads_and_who_says_otherwise_is_named():
    liar = reply(2, addresses=[LIAR] * 3)
    metadata = ask_metadata(connected({"a:1": reply(0), "b:2": liar, "c:3": reply(0)}))
    assert metadata.partitions[KEY].leader_id == 0
    assert [broker.endpoints[0][1:] for broker in metadata.brokers.values()] == [("a", 1), ("b", 2), ("c", 3)]
    assert metadata.dissenters == {LIAR: "of broker 0, broker 2, t-0"}


def test_a_partition_that_no_topic_has_is_none_though_most_brokers_say_so():
    said = {address: reply(0, number=200_001) for address in ALL}
    metadata = ask_metadata(connected(said))
    assert (metadata.partitions, metadata.impossible) == ({}, {TopicPartition("t", 200_001)})
    assert ask_metadata(connected(said | {"a:1": reply(0), "c:3": reply(0)})).partitions.keys() == {KEY}


def test_a_partition_without_majority_has_no_leader():
    metadata = ask_metadata(connected({"a:1": reply(0), "b:2": reply(2), "c:3": reply(1)}))
    assert metadata.contested == {KEY}
    assert metadata.partitions[KEY].leader_id == NO_LEADER


def test_in_sync_sets_that_change_make_no_one_a_liar():
    metadata = ask_metadata(connected({"a:1": reply(0), "b:2": reply(0, isr=(1,)), "c:3": reply(0)}))
    assert (metadata.partitions[KEY].isr, metadata.dissenters) == ((1, 2), {})


@pytest.mark.parametrize("third", [None, reply(0, isr=(2,))])
def test_an_in_sync_set_of_which_brokers_say_different_things_is_not_known(third):
    """Then all replicas counted as in sync: one broker of two made a partition below its `min.insync.replicas` well."""
    metadata = ask_metadata(connected({"a:1": reply(0), "b:2": reply(0, isr=(1,)), "c:3": third}))
    assert (metadata.partitions[KEY].isr, metadata.contested, metadata.dissenters) == (None, frozenset(), {})


def test_a_refresh_beside_a_question_believes_no_one_alone():
    """The library refreshes when a connection has ended, as a broker can make it whenever it likes."""
    waits_s = dict.fromkeys(HONEST, 0.05)
    connection = connected({"a:1": reply(0), "b:2": reply(2, addresses=[LIAR] * 3), "c:3": reply(0)}, waits_s)

    async def both():
        asked = asyncio.ensure_future(connection._ask_metadata(MetadataRequest()))
        await asyncio.sleep(0.02)  # the liar has answered, the others have not
        await connection._refresh(None)
        await asked

    connection._manager.run(both)
    assert [f"{one.host}:{one.port}" for one in connection._manager.cluster.brokers()] == [*ALL]


def test_who_does_not_answer_is_asked_once():
    connection = connected({"a:1": reply(0), "b:2": None, "c:3": reply(0)})
    for _ in range(3):
        assert set(connection.ask_metadata(BROKERS_REQUEST)) == {*HONEST}
    assert connection._manager.asked.count("b:2") == 1


def test_no_broker_that_answers_is_an_error_and_all_are_asked_again():
    connection = connected(dict.fromkeys(ALL))
    for tried in (1, 2):
        with pytest.raises(KafkaConnectionError):
            connection.ask_metadata(BROKERS_REQUEST)
        assert len(connection._manager.asked) == 3 * tried


def test_one_broker_at_two_addresses_has_one_vote():
    """The address that it advertises is another one than that of the configuration, and an honest broker is down."""
    liar = reply(2, addresses=["liar:9"] * 3)
    replies = {"down:1": None, "liar:2": liar, "c:3": reply(0, addresses=["down:1", "liar:9", "c:3"]), "liar:9": liar}
    metadata = ask_metadata(connected(replies, addresses=["down:1", "liar:2", "c:3"]))
    assert metadata.contested == {KEY}
    assert {*metadata.brokers} == {1}  # both name it


def test_brokers_that_do_not_answer_are_not_asked_without_end():
    """A single bootstrap broker may name any number of them."""
    many = [f"x:{number}" for number in range(100)]
    connection = connected({"a:1": reply(0, addresses=["a:1", *many]), **dict.fromkeys(many)}, addresses=["a:1"])
    assert set(connection.ask_metadata(BROKERS_REQUEST)) == {"a:1"}
    assert len(connection._manager.asked) == 1 + 2 * ASKED_BROKERS


def test_addresses_that_do_not_answer_are_named():
    connection = connected({"a:1": reply(0), "b:2": None, "c:3": reply(0)})
    connection.ask_metadata(BROKERS_REQUEST)
    assert connection.unheard == ("b:2",)


NOWHERE = struct.pack(">iii", -1, 0, -1)
NO_PARTITIONS = struct.pack(">iiihh1s?i", 0, 0, 1, 0, 1, b"t", False, -1)
NO_REPLICAS = struct.pack(">iiihh1s?ihiiii", 0, 0, 1, 0, 1, b"t", False, 1, 0, 0, 1, -1, -1)


@pytest.mark.parametrize("odd", [NOWHERE, NO_PARTITIONS, NO_REPLICAS], ids=["nothing", "partitions", "replicas"])
def test_an_answer_with_nulls_is_one_with_nothing(odd):
    """The protocol has null arrays, and the library takes them where no broker may send one."""
    lie = MetadataResponse.decode(odd, version=1)
    replies = dict.fromkeys(HONEST, reply(1)) | {LIAR: lie}
    metadata = ask_metadata(connected(replies))
    assert metadata.partitions[KEY].leader_id == 1
    assert [*metadata.dissenters] == [LIAR]

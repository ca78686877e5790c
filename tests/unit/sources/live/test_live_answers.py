"""What brokers answer about configs, disks and reassignments, one by one. Oracle: the answers below, written out by hand."""

from types import SimpleNamespace

import pytest
from kafka.errors import KafkaTimeoutError

from pipeline.model.log import TopicPartition
from pipeline.sources.live.requests import (
    PAGE_TOPICS,
    Failures,
    ask_broker_configs,
    ask_log_directories,
    ask_reassignments,
    ask_topic_configs,
)
from tests.unit.sources.live.live_answers import KEY, answering, asking, directory


def configured(name, values, code=0):
    """What a broker tells of the configs of a topic or broker."""
    configs = [SimpleNamespace(name=config, value=value) for config, value in values.items()]
    return SimpleNamespace(error_code=code, resource_name=name, configs=configs)


@pytest.mark.parametrize(
    ("said", "threads"),
    [
        ([configured(name, {"num.io.threads": name}) for name in ("x", "2", "1")], "1"),
        ([configured("1", dict.fromkeys(("num.io.threads", None, "n" * 30_000), "8"))], "8"),
    ],
    ids=["those of others", "names that no row holds"],
)
def test_a_broker_tells_its_own_configs_that_it_was_asked_for_only(said, threads):
    told = ask_broker_configs(answering(*said), [1], ["num.io.threads"], Failures())
    assert told == {1: {"num.io.threads": threads}}


@pytest.mark.parametrize(
    ("brokers", "told", "questions"),
    [
        ([1, 2, 3], {"t": {"retention.ms": "9"}}, []),  # the second lies
        ([1, 2], {}, ["some topic configs"]),
        ([4, 1], {"t": {"retention.ms": "9"}}, []),  # the fourth refuses
        ([4], {}, ["topic configs"]),
    ],
)
def test_configs_of_topics_are_those_of_most_brokers(brokers, told, questions):
    said = {one: configured("t", {"retention.ms": "9"}) for one in (1, 3)}
    said |= {2: configured("t", {"retention.ms": "1"}), 4: configured("t", {"retention.ms": "9"}, 29)}
    failures = Failures()
    connection = asking(lambda _, broker_id: SimpleNamespace(results=[said[broker_id]]))
    assert ask_topic_configs(connection, brokers, ["t"], ["retention.ms"], failures) == told
    assert [*failures.questions] == questions


def test_configs_that_one_page_of_topics_did_not_get_are_named_though_the_next_did():
    def send(request, _):
        refused = request.resources[0][1] == "t0"
        return SimpleNamespace(results=[configured("t500", {"retention.ms": "9"}, 29 if refused else 0)])

    failures = Failures()
    topics = [f"t{number}" for number in range(PAGE_TOPICS + 1)]
    told = ask_topic_configs(asking(send), [1, 2, 3], topics, ["retention.ms"], failures)
    assert told == {"t500": {"retention.ms": "9"}}
    assert [*failures.questions] == ["topic configs"]


def test_a_topic_that_is_gone_or_may_not_be_described_hides_no_configs_of_others():
    def send(request, _):
        codes = [(name, 3 if name == "gone" else 0) for _, name, _ in request.resources]
        return SimpleNamespace(results=[configured(name, configs, code) for name, code in codes])

    configs, failures = {"min.insync.replicas": "2"}, Failures()
    told = ask_topic_configs(asking(send), [1, 2, 3], ["gone", "orders"], [*configs], failures)
    assert told == {"orders": configs}
    assert [*failures.questions] == ["topic configs of gone"]


def test_a_size_that_no_disk_holds_or_nobody_asked_for_is_not_known():
    keys = [TopicPartition("t", number) for number in range(3)]
    failures = Failures()
    replicas, _ = ask_log_directories(answering(directory("/d", 5, 2**63 - 1, -1, 7)), [1], keys, failures)
    assert [(one.topic_partition, one.size_bytes) for one in replicas] == [(KEY, 5)]
    assert [*failures.questions] == ["some replica sizes of broker 1"]


def test_a_broker_that_is_slow_to_tell_its_disks_is_not_away():
    """Of a hot one none of the records was read then, so it was never blamed."""

    def send(*_):
        raise KafkaTimeoutError("no answer within 30 s")

    failures = Failures()
    assert ask_log_directories(asking(send), [1], [KEY], failures) == ([], {})
    assert failures.brokers == {}
    assert failures.questions == {"replica sizes of broker 1": "KafkaTimeout: no answer within 30 s"}


def test_directories_that_no_disk_has_are_left_out_and_told():
    """Each replica has a row with its directory, and each directory is compared with all others."""
    paths = ["/d", None, "/" + 5_000 * "d", *(f"/d{number}" for number in range(2_000))]
    failures = Failures()
    told = answering(*(directory(path, 5) for path in paths))
    replicas, spaces = ask_log_directories(told, [1], [KEY], failures)
    assert (len(replicas), len(spaces[1]), max(map(len, spaces[1]))) == (100, 100, 4)
    assert [*failures.questions] == ["some replica sizes of broker 1"]


def test_values_of_configs_that_are_too_long_are_not_known():
    """A topic's owner chooses them, and each replica has a row with them."""
    result = configured("t", {"a": 5_000 * "0" + "9", "b": "9"})
    assert ask_topic_configs(answering(result), [1], ["t"], ["a", "b"], Failures()) == {"t": {"b": "9"}}


def reassigning(adding=(), removing=()):
    row = SimpleNamespace(partition_index=0, adding_replicas=[*adding], removing_replicas=[*removing])
    return SimpleNamespace(error_code=0, topics=[SimpleNamespace(name="t", partitions=[row])])


@pytest.mark.parametrize(("liars", "moving"), [([1], {}), ([1, 2], {KEY: ((2,), ())})])
def test_one_broker_that_says_a_partition_moves_is_not_believed(liars, moving):
    """No window is judged while a reassignment runs: one broker would silence every verdict."""
    lie, failures = reassigning(adding=[2]), Failures()
    connection = asking(lambda _, broker_id: lie if broker_id in liars else SimpleNamespace(error_code=0, topics=[]))
    assert ask_reassignments(connection, [1, 2, 3, 4], failures) == moving
    assert not failures.questions


@pytest.mark.parametrize(("controller", "moving", "refused"), [(5, {KEY: ((), (3,))}, []), (6, {}, ["reassignments"])])
def test_brokers_that_know_no_reassignments_leave_them_to_the_controller(controller, moving, refused):
    """With ZooKeeper: NOT_CONTROLLER."""
    told, refusal, failures = reassigning(removing=[3]), SimpleNamespace(error_code=41), Failures()
    connection = asking(lambda _, broker_id: told if broker_id == controller else refusal)
    assert ask_reassignments(connection, [1, 2, 3, 4, 5], failures) == moving
    assert [*failures.questions] == refused

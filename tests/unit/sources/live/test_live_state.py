"""A cluster's state and what offsets tell, from answers made by hand. Oracle: written out by hand."""

import uuid
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from pipeline.codec.tools.tool_text import DescribedReplica
from pipeline.model.cluster import LIVE_CLUSTER, NO_LEADER, ClusterHistory, EarlierState, PartitionState, Timeline
from pipeline.model.log import TopicPartition
from pipeline.model.window import TimeWindow
from pipeline.sources.kinds.live_cluster import LiveCluster
from pipeline.sources.live import admin, offsets, reading
from pipeline.sources.live.admin import OffsetAt, ask_metadata
from pipeline.sources.live.plan import Shortfall
from pipeline.sources.live.reading import LiveReading, forget_deleted
from pipeline.sources.live.requests import Failures, ask_log_directories
from pipeline.sources.live.state import (
    LiveState,
    _find_leaderless,
    _replica_states,
    _timelines,
    describe_unanswered,
    read_live_state,
)
from tests.unit.sources.live.live_answers import KEY, answering, directory

WINDOWS = [TimeWindow(0, 1000), TimeWindow(1000, 2000)]

SOURCE = LiveCluster(kind="live_cluster", bootstrap_servers="b:9092")


def partition(leader=1, epoch=7, topic_id="new"):
    of = {"topic": "t", "topic_id": topic_id, "partition": 0, "replicas": (1, 2), "isr": (1, 2)}
    return PartitionState(leader_id=leader, leader_epoch=epoch, **of)


def earlier(**changes):
    log = {"log_start_offset": 0, "log_end_offset": 100, "size_bytes": 10_000}
    of = {"topic": "t", "topic_id": "new", "partition": 0, "leader_id": 1, "leader_epoch": 7}
    return EarlierState(**{"window_start_ms": 0, **of, **log, **changes})


def state(*, start=0, end=200, size=30_000, silent=None):
    now = partition()
    return LiveState(
        history=ClusterHistory(state_source=LIVE_CLUSTER, partitions={KEY: Timeline.always(now)}),
        partitions={KEY: now},
        in_scope=(KEY,),
        replicas=(),
        log_starts={KEY: OffsetAt(start, -1)},
        high_watermarks={KEY: OffsetAt(end, -1)},
        leader_sizes={} if size is None else {KEY: size},
        silent_brokers=silent or {},
    )


@pytest.mark.parametrize(
    ("past", "wanted"),
    [
        (None, 150),  # all the log holds
        (earlier(), 200),  # what it grew by: 20,000 bytes for 100 offsets
        (earlier(leader_id=2), 150),  # another replica's disk
        (earlier(topic_id="old"), 150),
        (earlier(log_start_offset=5), 150),  # retention took some since
        (earlier(size_bytes=None), 150),
        (earlier(log_end_offset=200), 150),
    ],
)
def test_bytes_per_offset(past, wanted):
    assert offsets._bytes_per_offset(KEY, state(), past) == wanted


def tiered(value):
    configs = {"t": Timeline.always({"remote.storage.enable": value})}
    return replace(state(), history=replace(state().history, topic_configs=configs))


@pytest.mark.parametrize(
    ("now", "past", "word"),
    [
        (state(), None, None),
        (state(), earlier(), None),
        (state(size=None), None, "size of its log is unknown"),
        (state(), earlier(topic_id="old"), "recreated"),
        (state(end=90), earlier(), "was cut"),
        (state(), earlier(leader_id=2, leader_epoch=6), "its leader changed"),
        (state(size=9_000), earlier(), "compaction took"),
        (state(size=9_000, start=5), earlier(), None),  # retention did
        (tiered("true"), earlier(), "its local log only"),
        (tiered("false"), earlier(), None),
    ],
)
def test_what_makes_a_partition_unknowable(now, past, word):
    found = list(offsets._unknowable(KEY, now, past, -1))
    assert (found == []) if word is None else (word in found[0])


@pytest.mark.parametrize(
    ("others", "terms"),
    [
        ([], [(7, 1, 99)]),
        (
            [earlier(leader_id=2, leader_epoch=5, observed_at_ms=10), earlier(leader_id=0, leader_epoch=6), earlier()],
            [(5, 2, 10), (6, 0, 99), (7, 1, 99)],
        ),
        ([earlier(observed_at_ms=20)], [(7, 1, 20)]),
        # by a run that came later
        ([earlier(leader_id=2, leader_epoch=8, observed_at_ms=200)], [(8, 2, 99), (7, 1, 99)]),
        ([earlier(topic_id="old", leader_epoch=5), earlier(topic_id="", leader_epoch=6)], [(7, 1, 99)]),
    ],
)
def test_leaders_of_other_epochs_are_known_from_other_runs(others, terms):
    partitions = _timelines({KEY: partition()}, 99, others)
    history = ClusterHistory(state_source=LIVE_CLUSTER, known_since_ms=99, partitions=partitions)
    assert [(t.leader_epoch, t.leader_id, t.since_ms) for t in history.leader_terms(KEY)] == terms
    assert history.state_at(0).partitions[KEY].leader_id == 1
    assert history.state_at(99).partitions[KEY].leader_id == 1


@pytest.mark.parametrize(
    ("epochs", "led"),
    [
        ((7, 7), (1, 7)),
        ((5, 5), (2, 5)),
        ((5, 7), (NO_LEADER, -1)),  # it moved within the window
        ((6, 6), (NO_LEADER, -1)),  # to whom is not known
        ((-1, 7), (NO_LEADER, -1)),  # the broker does not say
    ],
)
def test_offsets_are_the_load_of_who_led_at_both_ends_of_a_window(epochs, led):
    now = partition()
    known = _timelines({KEY: now}, 99, [earlier(leader_id=2, leader_epoch=5)])
    history = ClusterHistory(state_source=LIVE_CLUSTER, known_since_ms=99, partitions=known)
    assert offsets._led_all(KEY, replace(state(), history=history), *epochs) == led


def test_what_arrived_and_what_is_missing_by_window():
    lost = Shortfall(TopicPartition("t", 0), "retention took offsets 0 to 9", until_ms=900)
    answered = state(silent={2: "no answer"})
    reading = LiveReading(source=SOURCE, observed_at_ms=WINDOWS[1].start_ms, state=answered, shortfalls=(lost,))
    first, second = (reading.availability(window) for window in WINDOWS)
    assert (first.expected_count - first.arrived_count, first.missing) == (1, "t-0 (retention took offsets 0 to 9)")
    # the broker is away when asked, and every partition's records came: nothing is missing of the window
    assert (second.expected_count - second.arrived_count, second.missing) == (0, "broker 2 (no answer)")
    both = replace(reading, observed_at_ms=WINDOWS[0].end_ms - 1).availability(WINDOWS[0])
    assert both.missing == "broker 2 (no answer), t-0 (retention took offsets 0 to 9)"
    gone = LiveReading(source=SOURCE, observed_at_ms=0, unreachable="nobody there")
    assert gone.availability(WINDOWS[0]) == type(first)(None, 0, "nobody there")


def test_a_partition_that_nobody_led_stays_so_in_the_window_of_before():
    """Each run describes the window before anew, by what runs observed since."""
    now = {KEY: partition(leader=-1, epoch=8)}
    others = [earlier(observed_at_ms=5), earlier(leader_id=-1, leader_epoch=8, observed_at_ms=40)]
    others += [earlier(leader_id=-1, observed_at_ms=30), earlier(leader_id=-1, leader_epoch=None, observed_at_ms=20)]
    history = ClusterHistory(state_source=LIVE_CLUSTER, known_since_ms=5, partitions=_timelines(now, 99, others))
    led = {at_ms: history.state_at(at_ms).partitions[KEY] for at_ms in (10, 35, 50, 99)}
    assert [(one.leader_id, one.leader_epoch) for one in led.values()] == [(1, 7), (1, 7), (-1, 8), (-1, 8)]


@pytest.mark.parametrize(
    ("past", "missing"),
    [
        (earlier(leader_id=-1, observed_at_ms=WINDOWS[1].start_ms), [True, False]),
        (earlier(leader_id=-1, observed_at_ms=None), [True, True]),
        (earlier(leader_id=-1, leader_epoch=6, observed_at_ms=0), [True, True]),  # somebody led meanwhile
        (earlier(leader_id=1, observed_at_ms=0), [True, True]),  # it was led in that epoch, and written to
        (earlier(leader_id=-1, topic_id="old", observed_at_ms=0), [True, True]),
    ],
)
def test_a_partition_that_nobody_led_all_the_window_lacks_nothing_of_it(past, missing):
    now = {KEY: replace(partition(), leader_id=-1)}
    failures = Failures(partitions={KEY: admin.LEADERLESS})
    since_ms = _find_leaderless(now, failures, [past])
    lost = Shortfall(KEY, admin.LEADERLESS, since_ms.get(KEY))
    reading = LiveReading(source=SOURCE, observed_at_ms=WINDOWS[1].end_ms, state=state(), shortfalls=(lost,))
    assert [bool(reading.availability(window).missing) for window in WINDOWS] == missing
    assert _find_leaderless(now, Failures(partitions={KEY: "brokers name different leaders"}), [past]) == {}


def listed(name, *partitions, leader_id=1, replicas=(1,), **more):
    """A topic as a broker lists it."""
    told = {"leader_id": leader_id, "leader_epoch": 7, "replica_nodes": [*replicas], "isr_nodes": [*replicas]}
    rows = [SimpleNamespace(partition_index=number, **told) for number in partitions]
    return SimpleNamespace(is_internal=False, name=name, partitions=rows, **more)


def metadata(*topics):
    return {"a:1": SimpleNamespace(brokers=[], topics=topics)}


@pytest.mark.parametrize(
    ("topics", "read", "incomplete", "said"),
    [
        ((), {"clicks", "orders-eu"}, {}, []),
        (("orders-*",), {"orders-eu"}, {}, []),
        (("orders-eu", "nope*"), {"orders-eu"}, {}, ["topics like nope*"]),
        (("!orders-*",), {"clicks"}, {}, []),
        (("nope*",), set(), {"nope*"}, []),  # nothing is read: no window is healthy
        (("!*",), set(), {"*"}, []),
        (("!clicks",), {"orders-eu"}, {}, []),  # Kafka is not asked for a topic of that name
    ],
)
def test_topics_are_patterns_and_one_that_fits_nothing_is_named(topics, read, incomplete, said):
    known = [listed(name, 0, leader_id=-1, replicas=()) for name in ("orders-eu", "clicks")]

    def ask(request):
        names = [one.name for one in request.topics or ()]
        named = [SimpleNamespace(name=name, error_code=29 if "!" in name else 3) for name in names]
        return metadata(*(named or known))

    now = read_live_state(SimpleNamespace(ask_metadata=ask, unheard=()), topics=topics)
    assert {key.topic for key in now.in_scope} == read
    assert now.failures.topics.keys() == {*incomplete}
    assert [question for question in now.failures.questions if question.startswith("topics")] == said


@pytest.mark.parametrize(
    ("told", "code", "missing"),
    [
        ({"kept": 1}, 3, "kept-0 (no answer)"),  # deleted: most brokers list it no longer
        ({"kept": 1, "t": 3}, 0, "kept-0 (no answer)"),  # and made anew
        ({"kept": 1}, 29, "t-0 (the topic was deleted, or recreated), kept-0 (no answer)"),  # only denied
        ({"kept": 1, "t": 2}, 0, "t-0 (the topic was deleted, or recreated), kept-0 (no answer)"),  # a broker lied
    ],
)
def test_a_topic_deleted_while_it_is_read_is_no_failure_of_its_brokers(monkeypatch, told, code, missing):
    def ask(request):
        named = [SimpleNamespace(name=one.name, error_code=code) for one in request.topics or ()]
        return metadata(*(named or [listed(name, 0, topic_id=uuid.UUID(int=one)) for name, one in told.items()]))

    monkeypatch.setattr(reading, "connect", lambda _: nullcontext(SimpleNamespace(ask_metadata=ask)))
    kept = TopicPartition("kept", 0)
    ids = [admin.format_topic_id(uuid.UUID(int=number)) for number in (2, 1)]
    partitions = {key: partition(topic_id=one) for key, one in zip((KEY, kept), ids, strict=True)}
    now = replace(state(), in_scope=(KEY, kept), partitions=partitions)
    short = (Shortfall(KEY, "the topic was deleted, or recreated"), Shortfall(kept, "no answer"))
    live = forget_deleted(LiveReading(source=SOURCE, observed_at_ms=1500, state=now, shortfalls=short))
    assert live.availability(WINDOWS[0]).missing == missing
    is_named = any("last records of t" in problem.reason for problem in live.problems)
    assert is_named == (not missing.startswith("t-0"))


def test_a_log_directory_that_fails_hides_no_size_of_the_others_and_is_named():
    """A disk of several is lost: its broker answers, and leads what is on the others."""
    told = answering(directory("/bad", code=56), directory("/odd\n", code=-1), directory("/good", 5))
    failures = Failures()
    replicas, spaces = ask_log_directories(told, [1], [KEY], failures)
    assert [(one.log_directory, one.size_bytes) for one in replicas] == [("/good", 5)]
    assert ([*spaces[1]], failures.brokers, failures.questions) == (["/good"], {}, {})
    now = replace(state(), failures=failures)
    said = r"log directories of broker 1: /bad (KafkaStorage), /odd\n (Unknown)"
    assert [problem.reason for problem in describe_unanswered(now, "c")] == [f"sizes are not known in {said}"]
    first, second = (LiveReading(source=SOURCE, observed_at_ms=1500, state=now).availability(one) for one in WINDOWS)
    assert (first.missing, second.missing) == ("", said)


def test_a_topic_without_a_name_is_none():
    told = metadata(listed("orders", 0), listed(None, 0))
    assert [*ask_metadata(SimpleNamespace(ask_metadata=lambda _: told)).partitions] == [TopicPartition("orders", 0)]


def test_partitions_that_no_topic_has_are_named_once():
    told = metadata(listed("t", -1, 0, *range(200_001, 200_101), leader_id=-1, replicas=()))
    now = read_live_state(SimpleNamespace(ask_metadata=lambda _: told, unheard=()))
    assert now.partitions.keys() == {KEY}
    (said, _) = [problem.reason for problem in describe_unanswered(now, "c")]
    assert said.startswith("partitions t--1, t-200001, t-200002,")
    assert said.endswith("and 96 more are not known: no topic has so many")


def test_a_topic_that_may_no_longer_be_described_is_named_and_not_taken_for_deleted():
    """Brokers leave it out of their answers about all topics; asked for it, they refuse. One of three lies about another."""
    codes = {"a:1": {"gone": 3, "secret": 29}, "b:2": {"gone": 29, "secret": 29}, "c:3": {"gone": 3, "secret": 29}}

    def ask(request):
        names = [one.name for one in request.topics or ()]
        told = {at: [SimpleNamespace(name=one, error_code=own[one]) for one in names] for at, own in codes.items()}
        return {at: SimpleNamespace(brokers=[], topics=topics) for at, topics in told.items()}

    connection = SimpleNamespace(ask_metadata=ask, unheard=())
    past = [earlier(topic="gone"), earlier(topic="secret")]
    for now in (read_live_state(connection, earlier=past), read_live_state(connection, topics=["secret"])):
        (said,) = [problem.reason for problem in describe_unanswered(now, "c")]
        assert said.startswith("partitions of secret are not known: TopicAuthorizationFailed: ")
        brought = LiveReading(source=SOURCE, observed_at_ms=0, state=now).availability(WINDOWS[0])
        assert (brought.expected_count, brought.arrived_count) == (1, 0)
        assert brought.missing.startswith("topic secret (TopicAuthorizationFailed: ")
    gone = read_live_state(connection, topics=["gone"], earlier=past).failures.topics
    assert gone == {"gone": "no topic fits this pattern of `topics`"}


def test_a_follower_is_not_ahead_of_its_leader():
    disk = DescribedReplica(2, "/d", KEY, 5, -(2**63), is_future=False)
    rows = _replica_states({KEY: partition()}, [disk], {KEY: OffsetAt(0, -1)}, {KEY: OffsetAt(10, -1)})
    assert max(row.log_end_offset for row in rows) == 10

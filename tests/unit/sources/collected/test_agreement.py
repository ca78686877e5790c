"""Whose metadata counts: no single host's of three or more, and honest hosts lose nothing.

Times are minutes of a day; the window is the hour from 720 on.
"""

from dataclasses import replace

import pytest

from pipeline.model.cluster import CLUSTER_METADATA, Broker, StateSubject, Timeline, UnreadState
from pipeline.model.log_tree import LogDirectory, LogTree
from pipeline.model.window import TimeWindow
from pipeline.sources.collected.agreement import agree_on_history
from pipeline.sources.collected.host import Host
from pipeline.sources.collected.landing import choose_copies
from pipeline.sources.collected.manifest import CollectedAs, HostState, LogProgress, Manifest, SegmentTotals
from pipeline.sources.collected.stored_folder import StoredFolder
from tests.unit.sources.collected.disks import TOPIC_ID, state_of

MINUTE_MS = 60_000
START, END = 720, 780
SPAN = TimeWindow(START * MINUTE_MS, END * MINUTE_MS)
MOVED = ((0, 1), (100, 2), (740, 1))
"""The partition's leaders: 1, from 100 on 2, from 740 on 1 again."""


def tell(*leaders, since=0, until=790, collected=None, is_exact=True, fenced=()):
    """A host's manifest: `leaders` are minutes and brokers, those before `since` as a snapshot gives them."""
    changes = [
        (max(since, minute), state_of(leader, epoch))
        for epoch, (minute, leader) in enumerate(leaders)
        if minute <= until
    ]
    begun = [state for minute, state in changes if minute == since]
    changes = [(since, begun[-1])] * bool(begun) + [one for one in changes if one[0] > since]
    timeline = Timeline(tuple(round(minute * MINUTE_MS) for minute, _ in changes), tuple(one for _, one in changes))
    brokers = {n: Timeline((round(since * MINUTE_MS),), (Broker(broker_id=n),)) for n in (1, 2, 3)}
    if fenced:  # broker 1, at minutes in turn
        values = [Broker(broker_id=1, is_fenced=n % 2 == 1) for n in range(len(fenced) + 1)]
        brokers[1] = Timeline(tuple(minute * MINUTE_MS for minute in (since, *fenced)), tuple(values))
    state = HostState(
        **dict.fromkeys(("directories", "cleaned", "replicas", "problems"), ()),
        metadata_length=(0, 1000),
        brokers=brokers,
        partitions=(timeline,) if changes else (),
        state_source=CLUSTER_METADATA,
        known_since_ms=round(since * MINUTE_MS),
        newest_ms=round(until * MINUTE_MS) if is_exact else None,
    )
    collected_as = CollectedAs(window_ms=1, counts_keys=False, secret_check="", reads_arrivals=False)
    collected_at_ms = round((until if collected is None else collected) * MINUTE_MS)
    return Manifest(host="", collected_as=collected_as, collected_at_ms=collected_at_ms, state=state)


def agree(*manifests):
    hosts = [Host(StoredFolder(f"l/broker-{n}"), one) for n, one in enumerate(manifests, start=1)]
    return agree_on_history(hosts, SPAN)


def leaders_of(history, *minutes):
    key = state_of(1, 0).topic_partition
    states = [history.state_at(minute * MINUTE_MS).partitions.get(key) for minute in minutes]
    return [None if one is None else one.leader_id for one in states]


HONEST = [
    ("all alike", [tell(*MOVED)] * 3),
    ("read at different times", [tell(*MOVED, until=one) for one in (781, 785, 790)]),
    ("one lags", [tell(*MOVED, until=730), *[tell(*MOVED)] * 2]),
    ("one joined an hour ago", [tell(*MOVED), tell(*MOVED), tell(*MOVED, since=735)]),
    ("one begins with a snapshot within the window", [tell(*MOVED), tell(*MOVED, since=760), tell(*MOVED)]),
    ("two begin with snapshots within the window", [tell(*MOVED), *[tell(*MOVED, since=760)] * 2]),
    ("all begin with snapshots of their own", [tell(*MOVED, since=one) for one in (300, 400, 500)]),
    ("two hosts", [tell(*MOVED), tell(*MOVED, until=785)]),
    ("two hosts, one with a snapshot", [tell(*MOVED, since=735), tell(*MOVED)]),
    ("one host", [tell(*MOVED)]),
    ("a broker that is dead, its host is read", [tell(*MOVED), tell(*MOVED, until=600, collected=790), tell(*MOVED)]),
    ("two of three brokers are dead", [tell(*MOVED), *[tell(*MOVED, until=600, collected=790)] * 2]),
    ("of two brokers one is dead", [tell(*MOVED), tell(*MOVED, until=600, collected=790)]),
    ("of two brokers one died before the other's log begins", [tell(*MOVED, since=700), tell(*MOVED, until=90)]),
    ("hosts that are gone are more than those that stayed", [*[tell(*MOVED, until=90)] * 4, *[tell(*MOVED)] * 2]),
    ("a broker that died within the window", [tell(*MOVED), tell(*MOVED, until=730, collected=790), tell(*MOVED)]),
    ("older collectors", [tell(*MOVED, is_exact=False)] * 3),
    ("older collectors, one dead", [tell(*MOVED, until=600, collected=790, is_exact=False), *[tell(*MOVED)] * 2]),
    ("two older collectors, one dead", [tell(*MOVED, until=600, collected=790, is_exact=False), tell(*MOVED)]),
    ("one that ends with the last change", [tell(*MOVED, until=740), tell(*MOVED), tell(*MOVED)]),
]


@pytest.mark.parametrize("manifests", [row[1] for row in HONEST], ids=[row[0] for row in HONEST])
def test_honest_hosts_lose_nothing(manifests):
    for order in (manifests, manifests[::-1], [*manifests[1:], manifests[0]]):
        found = agree(*order)
        assert (found.refused, found.doubts) == ({}, ())
        assert leaders_of(found.history, 720, 739, 740, 780) == [2, 2, 1, 1]


def test_what_happened_as_hosts_were_read_is_settled_by_the_next_reading():
    later = (*MOVED, (785, 3))
    found = agree(tell(*later, until=786), tell(*later, until=784), tell(*later, until=783))
    assert (found.refused, found.doubts, leaders_of(found.history, 790)) == ({}, (), [1])
    found = agree(tell(*later, until=786), tell(*later, until=788), tell(*later, until=783))
    assert (found.refused, found.doubts, leaders_of(found.history, 790)) == ({}, (), [3])


HOST_3 = "too few other hosts have what the metadata log of broker-3 says since 1970-01-01T"
FORGED = [
    ("a beginning after all others were read", tell((795, 3), since=795, until=796), None),
    ("a beginning half a day ahead", tell((1500, 3), since=1500, until=1501, collected=800), None),
    ("a beginning after all others were read, older", tell((795, 3), since=795, until=796, is_exact=False), None),
    ("a beginning after others end, with true leaders", tell(*MOVED, since=795, until=796), None),
    ("a beginning within the window, with true leaders", tell(*MOVED, since=770, until=796), None),
    ("a beginning before others'", tell(*MOVED, since=10), None),
    ("another leader before others begin", tell((10, 3), *MOVED[1:], since=10), "refused"),
    ("a leader within the window", tell(*MOVED, (760, 3)), "refused"),
    ("another leader before the window", tell((0, 1), (100, 3), (740, 1)), "refused"),
    ("no change within the window", tell(*MOVED[:2]), "refused"),
    ("that a broker is fenced", tell(*MOVED, fenced=[750]), "refused"),
]


@pytest.mark.parametrize("is_exact", [True, False], ids=["", "older collectors"])
@pytest.mark.parametrize(("forged", "said"), [row[1:] for row in FORGED], ids=[row[0] for row in FORGED])
def test_one_host_s_metadata_replaces_nothing(forged, said, is_exact):
    honest = [tell(*MOVED, since=20, until=until, is_exact=is_exact) for until in (788, 790)]
    found = agree(*honest, forged)
    assert leaders_of(found.history, 720, 739, 740, 780) == [2, 2, 1, 1]
    assert found.history.known_since_ms == 20 * MINUTE_MS
    assert not found.history.state_at(SPAN.end_ms).brokers[1].is_fenced
    assert ([*found.refused] == [2]) is (said == "refused")


@pytest.mark.parametrize("reaches", [(779, 779), (788, 779)], ids=["read before", "one read before"])
@pytest.mark.parametrize("is_exact", [True, False], ids=["", "older collectors"])
def test_what_one_host_alone_tells_of_the_window_does_not_count_and_is_a_doubt(reaches, is_exact):
    """Two other hosts were read before the change that it tells of, or one of them."""
    honest = [tell(*MOVED, until=until + (not is_exact), is_exact=is_exact) for until in reaches]
    for forged in (tell(*MOVED, (779.5, 3), until=796), tell((779.5, 3), since=779.5, until=796)):
        found = agree(*honest, forged)
        assert leaders_of(found.history, 720, 739, 740, 780) == [2, 2, 1, 1]
        assert any(one.startswith(f"{HOST_3}12:59:30") for one in found.doubts)


def test_where_the_third_host_cannot_tell_who_is_right_the_windows_are_in_doubt():
    found = agree(tell(*MOVED), tell(*MOVED, since=770), tell(*MOVED, fenced=[750, 765]))
    assert found.refused == {}
    assert "broker-1 and broker-3 have different metadata logs" in found.doubts


def test_of_two_hosts_neither_outvotes_the_other_about_a_change():
    found = agree(tell(*MOVED), tell(*MOVED, (760, 3)))
    assert (found.refused, found.doubts) == ({}, ("broker-1 and broker-2 have different metadata logs",))
    found = agree(tell(*MOVED), tell((795, 3), since=795, until=796))
    assert leaders_of(found.history, 720, 780) == [2, 1]


def test_a_host_that_tells_of_the_future_is_left_out():
    for forged in (tell(*MOVED, until=5000, collected=800), tell((5000, 3), since=5000, until=5000, collected=800)):
        assert [*agree(tell(*MOVED), tell(*MOVED), forged).refused] == [2]


KEY = state_of(1, 0).topic_partition


def owners_of(found):
    return [(term.leader_epoch, term.leader_id) for term in found.history.leader_terms(KEY)]


def with_states(manifest, *told):
    """The manifest with states of the partition more, at minutes; of one minute it tells them first."""
    (timeline,) = manifest.state.partitions
    both = [
        *((round(minute * MINUTE_MS), state) for minute, state in told),
        *zip(timeline.moments_ms, timeline.values, strict=True),
    ]
    moments, states = zip(*sorted(both, key=lambda one: one[0]), strict=True)
    state = manifest.state.model_copy(update={"partitions": (Timeline(moments, states),)})
    return manifest.model_copy(update={"state": state})


def test_a_log_that_ends_with_what_comes_later_cuts_nothing():
    """It told the last leader change early and ended there: it counted as the newest log, and the change was cut off."""
    forged = tell((0, 1), (100, 2), (725, 1), since=20, until=725, collected=796)
    found = agree(tell(*MOVED, since=10), tell(*MOVED, since=30), forged)
    assert leaders_of(found.history, 720, 739, 740, 780) == [2, 2, 1, 1]


@pytest.mark.parametrize("minute", [19, 20, 740], ids=["before its beginning", "at its beginning", "beside a change"])
def test_no_state_of_a_host_goes_uncompared(minute):
    """Only the last one of a moment was compared, and none of before the log's beginning; who leads went by all of them."""
    forged = with_states(tell(*MOVED, since=20), *((minute, state_of(3, epoch)) for epoch in range(3)))
    found = agree(tell(*MOVED, since=10), tell(*MOVED, since=30), forged)
    assert {leader for _, leader in owners_of(found)} == {1, 2}


def test_a_snapshots_order_of_log_directories_is_no_difference():
    """A snapshot sorts them, the log has the order in which the broker registered: an honest host was left out."""
    hosts = [tell(*MOVED) for _ in range(3)]
    for host, ids in zip(hosts, ("ab", "ab", "ba"), strict=True):
        host.state.brokers[1] = Timeline((0,), (Broker(broker_id=1, directory_ids=tuple(ids)),))
    found = agree(*hosts)
    assert (found.refused, found.doubts) == ({}, ())


def lacking(manifest, *told):
    """The manifest of a host that could not read something of its log: minutes, and what it says of each."""
    unread = tuple(UnreadState(minute * MINUTE_MS, frozenset({of}), reason) for minute, of, reason in told)
    return manifest.model_copy(update={"state": manifest.state.model_copy(update={"unread": unread})})


BROKERS, CONFIGS = StateSubject.BROKERS, StateSubject.CONFIGS


def test_hosts_that_cannot_read_one_record_name_it_each_in_its_way():
    """As of a newer Kafka: each names its own file, and one whose log begins later its snapshot. All were left out."""
    said = [
        ((100, BROKERS, "at 5 of 0.log"), (100, CONFIGS, "at 9 of 0.log"), (300, BROKERS, "at 8 of 0.log")),
        ((100, CONFIGS, "at 1 of 7.log"), (100, BROKERS, "at 2 of 7.log")),
        ((200, BROKERS, "at 3 of 9.checkpoint"), (200, CONFIGS, "at 4 of 9.checkpoint")),
    ]
    hosts = [lacking(tell(*MOVED, since=since), *told) for since, told in zip((10, 20, 200), said, strict=True)]
    found = agree(*hosts)
    assert (found.refused, found.doubts) == ({}, ())
    assert [one.reason for one in found.history.unread] == [one[2] for one in said[1]]


def test_what_one_host_alone_cannot_read_does_not_count():
    for forged in (lacking(tell(*MOVED), (750, BROKERS, "x")), lacking(tell(*MOVED), (0, BROKERS, "x"))):
        found = agree(tell(*MOVED), forged, tell(*MOVED))
        assert ([*found.refused], found.history.unread) == ([1], ())


def test_where_controllers_write_only_changes_the_end_of_a_log_proves_nothing():
    history = tell(*MOVED).state.history
    made = [
        HostState.of(
            LogTree(directories=()), replace(history, newest_ms=5, quiet_ms=quiet_ms), replicas=(), problems=()
        )
        for quiet_ms in (None, 500)
    ]
    assert [one.newest_ms for one in made] == [None, 5]


def test_of_a_partition_whose_leaders_are_known_from_later_on_the_first_leader_s_rows_count(tmp_path):
    """Not those of who says that it was read last."""
    of = {"topic": "orders", "topic_id": TOPIC_ID, "partition": 0, "totals": SegmentTotals(row={}, producer_ids=())}
    zeros = dict.fromkeys(("base_offset", "position", "newest_ms", "collected_at_ms"), 0)
    progress = LogProgress(**of, **zeros, next_offset=9, stamps_ms=())
    hosts = []
    for number, collected in ((1, 790), (2, 795)):
        manifest = tell(*MOVED, collected=collected)
        directory = LogDirectory(path="x", broker_id=number)
        state = manifest.state.model_copy(update={"directories": (directory,)})
        manifest = manifest.model_copy(update={"state": state, "progress": (progress,)})
        hosts.append(Host(StoredFolder(str(tmp_path / f"broker-{number}")), manifest))
    history = tell((795, 1), since=795, until=796).state.history
    assert [*map(len, choose_copies(hosts, history, SPAN, ()).of)] == [1, 0]

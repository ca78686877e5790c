"""A client that tells its version (KIP-714, `app-info`) gives its session that version and its defaults."""

import dataclasses

import pytest

from pipeline.calibration.caveats import Caveat, Origin
from pipeline.calibration.partitioner.linger_waits import Waiting, settle_linger
from pipeline.calibration.partitioner.settings import Setting
from pipeline.replay.clients import name_versions, take_version
from pipeline.replay.metrics import SessionMetrics
from pipeline.replay.recorded import ClientNode, Recording
from tests.unit.replay.session_groups import START_MS, make_baseline
from tests.unit.replay.test_zones import make_session

OPEN = Setting("0", Origin.DEFAULT, 0.0, None)
QUICK = Setting("0", Origin.DEFAULT, 0.0, 0.7)


def found(baseline, rows_of, *, with_requests=False, **fields):
    own = {"window_start_ms": START_MS, "client_id": "a", "broker_id": 0}
    nodes = {START_MS: {client: [ClientNode(**own, **row)] for client, row in rows_of.items()}}
    requests = dict.fromkeys(rows_of, ()) if with_requests else {}
    recording = Recording(windows=(), window_ms=60_000, nodes=nodes, requests=requests)
    session = dataclasses.replace(make_session(baseline), **fields)
    [named] = name_versions(recording, [session], {session.key: SessionMetrics({}, clients=tuple(rows_of))})
    return named.baseline


def with_linger(baseline, linger):
    return dataclasses.replace(baseline, settings={"linger.ms": linger})


@pytest.mark.parametrize(
    ("rows", "version"),
    [
        ([{"client_software_name": "apache-kafka-java", "client_version": "4.1.1"}], "4.1.1"),
        ([{"client_version": "3.9.1"}], "3.9.1"),
        ([{"client_version": "7.9.2-ccs"}], "3.9.2"),
        ([{"client_version": "3.9.1"}, {"client_version": "3.9.1"}], "3.9.1"),
        ([{"client_version": "3.9.1"}, {"client_version": "4.1.1"}], None),
        ([{"client_version": "3.9.1"}, {"client_version": None}], None),
        ([{"client_version": "unknown"}], None),
        ([{"client_version": f"{'9' * 5_000}.1"}], None),  # Python converts no such number
        ([{"client_version": f"{'9' * 5_000}.1.1-ccs"}], None),
        ([{"client_software_name": "a-library-of-ours", "client_version": "4.1.1"}], None),
        ([], None),
    ],
)
def test_a_session_has_the_version_that_all_its_clients_tell(rows, version):
    baseline = make_baseline("java-builtin", version="3.7.2")
    named = found(baseline, {("10.0.0.1:80", f"app-{number}"): row for number, row in enumerate(rows)})
    if version is None:
        assert named == baseline
    else:
        assert (named.version, named.version_range) == (version, f"{version}, as the client tells")


def test_a_default_is_that_of_the_version_told():
    open_linger = with_linger(make_baseline("java-builtin", version="3.9.1"), OPEN)
    assert take_version(open_linger, "kafka-clients", "4.1.1").settings["linger.ms"].value == "5"


def test_a_default_that_the_data_exclude_was_set():
    quick = with_linger(make_baseline("java-builtin", version="3.9.1"), QUICK)
    linger = take_version(quick, "kafka-clients", "4.1.1").settings["linger.ms"]
    assert (linger.value, linger.source) == ("0", Origin.INFERRED)


def test_waits_do_not_change_the_version_told():
    told = take_version(with_linger(make_baseline("java-builtin", version="3.9.1"), OPEN), "kafka-clients", "3.9.1")
    waiting = Waiting(queue_time_ms=5.2, under_way=0.5, least_under_way=0.5, least_latency_ms=0.5)
    settled = settle_linger(dataclasses.replace(told, source=Origin.INFERRED), waiting)
    assert (settled.version, settled.settings["linger.ms"].value) == ("3.9.1", "5")
    assert settled.settings["linger.ms"].source is Origin.INFERRED  # 3.9.1's default is 0


def test_of_strategies_that_look_alike_it_is_the_one_of_the_version_told():
    alike = (Caveat.CLIENTS_ALIKE.say(clients="Sarama"),)
    baseline = dataclasses.replace(make_baseline("java-murmur2", version="2.3.1"), assumptions=alike)
    named = take_version(baseline, "kafka-clients", "4.1.1")
    assert (named.strategy, named.version, named.assumptions) == ("java-round-robin-3.9.2", "4.1.1", ())


def test_batches_are_believed_where_the_version_has_no_such_partitioner():
    baseline = make_baseline("java-builtin", version="3.9.1")
    named = take_version(baseline, "kafka-clients", "2.3.1")
    assert (named.version, named.strategy) == ("3.9.1", "java-builtin")
    assert [one.kind for one in named.assumptions] == [Caveat.OTHER_VERSION]


def test_a_version_older_than_any_that_is_simulated_changes_nothing_but_a_note():
    """`resolve_producer` refuses it, which would end the replay of its cluster."""
    baseline = make_baseline("librdkafka-consistent_random", client="librdkafka", version="2.16.0")
    named = found(
        baseline, {("10.0.0.1:80", "app"): {"client_software_name": "librdkafka", "client_version": "0.11.6"}}
    )
    assert (named.client, named.version) == ("librdkafka", "2.16.0")
    assert [one.kind for one in named.assumptions] == [Caveat.OTHER_VERSION]


KEYED = dataclasses.replace(
    make_baseline("librdkafka-murmur2_random", client="librdkafka", version="2.10.0"),
    settings={"linger.ms": Setting("5", Origin.DEFAULT, 3.0, 9.0)},
)
"""What keys alone leave of a Java client without producer ids."""
SCRAPED = ("10.0.0.1:80", "app")


@pytest.mark.parametrize(
    ("row", "with_requests", "named"),
    [
        # only Java's metrics say how long requests take
        ({"source": "prometheus"}, True, ("kafka-clients", "java-sticky-2.4")),
        ({"source": "prometheus"}, False, ("librdkafka", "librdkafka-murmur2_random")),
        ({"source": "librdkafka_statistics"}, False, ("librdkafka", "librdkafka-murmur2_random")),
        ({"client_version": "4.1.1"}, False, ("kafka-clients", "java-builtin")),
        ({"client_version": "2.3.1"}, False, ("kafka-clients", "java-murmur2")),
    ],
)
def test_what_keys_leave_open_the_library_of_the_metrics_tells(row, with_requests, named):
    told = found(KEYED, {SCRAPED: row}, with_requests=with_requests, keyless_count=0, producer_id=-1)
    assert (told.client, told.strategy) == named


@pytest.mark.parametrize(
    ("producer_id", "version_range", "source"),
    [(-1, "2.4 to 3.1", Origin.INFERRED), (7, "4.0 or later", Origin.DEFAULT)],
)
def test_a_library_without_a_version_gets_one_whose_defaults_fit(producer_id, version_range, source):
    told = found(KEYED, {SCRAPED: {}}, with_requests=True, keyless_count=0, producer_id=producer_id)
    assert (told.version_range, told.is_told) == (version_range, False)
    assert (told.settings["linger.ms"].value, told.settings["linger.ms"].source) == ("5", source)


def test_batches_without_keys_are_believed_where_the_library_has_no_such_partitioner():
    timed = make_baseline("librdkafka-consistent_random", client="librdkafka", version="2.10.0")
    assert found(timed, {SCRAPED: {}}, with_requests=True) == timed

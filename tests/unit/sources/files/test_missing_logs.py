"""Partitions, log directories and paths that are on no disk that was read. Oracle: written out by hand."""

import pytest

from pipeline.model.cluster import NO_LEADER, Broker, ClusterHistory, Timeline
from pipeline.model.log_tree import LogDirectory, LogTree
from pipeline.model.window import TimeWindow
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.files.log_gaps import list_live, name_left_out, weigh_disks
from pipeline.sources.kinds.log_directories import LogDirectories
from pipeline.sources.questions import ClusterQuestion
from pipeline.sources.source import Described
from tests.batches import START_MS
from tests.unit.sources.files.disks import OTHER, A, led, read_disks, registered, write_log

WINDOW = TimeWindow(100, 200)
GONE = "records were gone before they were read, by retention or a purge (`topics` leaves topics out): of a-0"


def weigh(partitions, *, brokers=(1, 2), fenced=None, **fields):
    reading = read_disks(brokers=brokers, of_brokers=fenced, partitions=partitions, **fields)
    weighed = weigh_disks(reading, WINDOW, brokers)
    return weighed.expected_count, weighed.arrived_count, weighed.missing


@pytest.mark.parametrize(
    ("partitions", "wanted"),
    [
        ({A: led(A, (0, 1))}, (3, 2, "no log of a-0")),
        ({A: led(A, (0, 1), (150, NO_LEADER))}, (3, 2, "no log of a-0")),  # its records of before are on that disk
        ({A: led(A, (0, NO_LEADER))}, (2, 2, "")),  # nobody could write to it
        ({A: led(A, (0, 1), (250, None))}, (2, 2, "")),  # deleted since
        ({A: led(A, (0, 3))}, (3, 2, "no log of a-0")),  # 3 is no broker any more
    ],
)
def test_a_partition_that_is_on_no_disk_is_missing(partitions, wanted):
    assert weigh(partitions, found=[OTHER]) == wanted
    assert weigh(partitions, found=[OTHER, A]) == (2, 2, "")
    assert weigh(partitions, found=[OTHER], topics=("other-*",)) == (2, 2, "")
    if partitions[A].at(250) is None or partitions[A].at(250).leader_id != NO_LEADER:
        assert weigh(partitions) == (2, 2, "")  # a copy of the disks may leave the topic out


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        (((0, 1), (150, NO_LEADER)), "no log of a-0"),
        (((0, 1), (250, NO_LEADER)), "no log of a-0"),  # before the disk was read
        (((0, 1), (50, NO_LEADER)), ""),  # nobody could write to it in the window
        (((0, 1), (150, NO_LEADER), (160, 1)), ""),  # it is back: a copy of the disks leaves the topic out
        (((0, 1), (150, NO_LEADER), (250, None)), ""),  # deleted since
    ],
)
def test_a_topic_whose_only_disk_failed_in_the_window_is_missing(terms, said):
    """Its broker registers without that disk then, and the whole topic was taken to be left out by copies."""
    assert weigh({A: led(A, *terms)}) == (2 + bool(said), 2, said)


def test_topics_without_any_log_are_named(tmp_path):
    write_log(tmp_path / "d", "b-0", 0, START_MS)
    tree = discover_logs([tmp_path / "d"])
    history = ClusterHistory(state_source="s", partitions={A: led(A, (0, 1)), OTHER: led(OTHER, (0, NO_LEADER))})
    (problem,) = name_left_out(tree, list_live(tree), history.state_at(9), ())
    assert problem.reason == "no disk holds a partition of a: taken to be left out, as `topics` may say"
    assert not list(name_left_out(tree, list_live(tree), history.state_at(9), ("b",)))


def test_a_topic_that_was_created_anew_is_another_one():
    partitions = {A: Timeline((0, 250), (led(A, (0, 1)).values[0], led(A, (0, 1), topic_id="new").values[0]))}
    assert weigh(partitions, found=[OTHER]) == (2, 2, "")


def test_partitions_of_a_broker_that_is_missing_as_a_whole_are_not_named_too():
    assert weigh({A: led(A, (0, 2))}, brokers=(1,), found=[OTHER]) == (2, 1, "no disk of broker 2")


@pytest.mark.parametrize(
    ("states", "is_expected"),
    [
        ([(0, True)], False),  # dead all the time, or gone and never unregistered
        ([(0, False), (150, True)], True),
        ([(0, True), (150, False)], True),
        ([(150, True)], False),
        ([(0, True), (120, False), (180, True)], True),  # it led meanwhile
        ([(0, True), (120, False), (180, None)], False),
        ([(50, True), (250, False)], False),
    ],
)
def test_a_broker_that_is_fenced_all_the_window_is_not_expected(states, is_expected):
    wanted = (3, 2, "no disk of broker 3") if is_expected else (2, 2, "")
    assert weigh({}, fenced={3: registered(*states)}) == wanted


def test_a_log_with_a_gap_in_the_window_is_missing():
    for gap, said in ((TimeWindow(0, 100), ""), (TimeWindow(0, 101), GONE), (TimeWindow(200, 900), "")):
        assert weigh({A: led(A, (0, 1))}, found=[A], gaps={A: gap})[2] == said


def test_paths_without_a_log_are_missing():
    assert weigh({}, unfound=("/d2",)) == (3, 2, "no log in /d2")


@pytest.mark.parametrize(
    ("registered_ids", "found_ids", "said"),
    [
        ([(0, "xy")], "x", "no disk with directory.id y of broker 1"),
        ([(0, "xy")], "xy", ""),
        ([(0, "xy")], ("x", None), ""),  # its id is not known
        ([(0, "xy")], "", ""),  # the broker is named as a whole where it is expected
        ([(0, "xy"), (250, "x")], "x", ""),  # the disk was taken away since: others led its partitions then
        ([(0, "x"), (250, "xy")], "x", ""),  # it was added after the window
    ],
)
def test_a_log_directory_of_a_broker_that_is_on_no_disk_is_missing(registered_ids, found_ids, said):
    """One that was not mounted held whole topics, and all of its load was left out of the shares."""
    brokers = tuple(Broker(broker_id=1, directory_ids=(*ids,)) for _, ids in registered_ids)
    timeline = Timeline(tuple(at for at, _ in registered_ids), brokers)
    tree = LogTree(directories=tuple(LogDirectory(path="", broker_id=1, directory_id=one) for one in found_ids))
    assert weigh({}, fenced={1: timeline}, tree=tree) == (2 + bool(said), 2, said)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_configured_disk_that_is_not_mounted_is_named(tmp_path, is_there):
    """Without a metadata log nothing else says that something is missing."""
    write_log(tmp_path / "d1", "a-0", 50, START_MS)
    if is_there:
        (tmp_path / "d2/lost+found").mkdir(parents=True)  # as a disk is that is not mounted, or new
    source = LogDirectories(kind="log_directories", paths=(tmp_path / "d1", tmp_path / "d2"))
    windows = tuple(TimeWindow(START_MS + part - 1000, START_MS + part) for part in (0, 2000))
    question = ClusterQuestion(name="c", topics=(), windows=windows, as_of_ms=START_MS + 9000, earlier=())
    reading = LogDirectories.read_cluster([source], question, Described())
    found = [source.availability(reading, window, None) for window in windows]
    missing = f"no log in {tmp_path / 'd2'}"
    assert [one.missing for one in found] == [f"{missing}; {GONE}", missing]
    assert [(one.expected_count, one.arrived_count) for one in found] == [(3, 1), (2, 1)]

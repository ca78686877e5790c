"""Which window an observation belongs to, and what a window lacks whose leaders are not known. Oracle: written by hand."""

import pytest

from pipeline.cli.run import list_undone
from pipeline.config_file import load_config
from pipeline.errors import NothingUsableError
from pipeline.jobs import ingest
from pipeline.jobs.ingest.windows import _list_unknown_leaders, describe_other_lengths, find_newest_window
from pipeline.model.window import TimeWindow, instant_of
from pipeline.runs import plan_runs
from pipeline.sources.questions import SourceAvailability
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.bronze import WINDOW_STATUS
from pipeline.tables.silver import PARTITION_TRAFFIC
from tests.config_files import write_configuration
from tests.table_rows import zero_row

MINUTE_MS = 60_000
START_MS = 1_795_251_600_000


def window(minute):
    return TimeWindow(START_MS + minute * MINUTE_MS, START_MS + (minute + 1) * MINUTE_MS)


def plan(folder, first, last, now_ms, **cluster):
    lab = {"sources": [{"kind": "log_directories", "paths": [str(folder)]}], **cluster}
    path = write_configuration(folder, {"lab": lab}, window="PT1M", keys={"secret": "secret"})
    span = TimeWindow(window(first).start_ms, window(last).end_ms)
    (run,) = plan_runs(load_config(path), span, run_id="test", now_ms=now_ms)
    return run


def commit(run, minutes, *, length_ms=MINUTE_MS, **fields):
    """Windows of some minutes were ingested before."""
    ensure_tables(run.warehouse)
    starts_ms = [window(minute).start_ms for minute in minutes]
    rows = [zero_row(WINDOW_STATUS, at_ms, window_end=instant_of(at_ms + length_ms), **fields) for at_ms in starts_ms]
    run.replace(WINDOW_STATUS, rows, [window(minute) for minute in minutes])


@pytest.mark.parametrize(
    ("stored", "late_ms", "is_newest"),
    [
        ((), 5 * MINUTE_MS, True),
        ((0, 1, 2), 5 * MINUTE_MS, True),  # it is run once more
        ((0, 1, 3), 5 * MINUTE_MS, False),  # it is caught up with
        ((), 61 * MINUTE_MS, True),  # schedules slip
        ((), 62 * MINUTE_MS, False),  # grace, half a window; a window; an hour
    ],
)
def test_the_present_state_belongs_to_the_newest_window_that_was_due_lately(tmp_path, stored, late_ms, is_newest):
    run = plan(tmp_path, 1, 2, window(2).end_ms + late_ms)
    if stored:
        commit(run, stored)
    assert find_newest_window(run) == (window(2) if is_newest else None)


def test_partitions_whose_leader_is_not_known_are_named(tmp_path):
    run = plan(tmp_path, 0, 1, window(1).end_ms)
    ensure_tables(run.warehouse)
    places = [(0, "b", 0, -1, 4), (0, "a", 3, -1, 1), (0, "a", 3, 2, 2), (1, "a", 3, -1, -1), (1, "a", 4, 0, 0)]
    names = ("topic", "partition", "leader_id", "leader_epoch")
    rows = [
        zero_row(PARTITION_TRAFFIC, window(minute).start_ms, **dict(zip(names, place, strict=True)))
        for minute, *place in places
    ]
    run.replace(PARTITION_TRAFFIC, rows, run.windows)
    unknown = "(who led in leader epoch {} is not known)".format
    assert dict(_list_unknown_leaders(run)) == {
        window(0).start_ms: [f"a-3 {unknown(1)}", f"b-0 {unknown(4)}"],
        window(1).start_ms: ["a-3 (who led is not known)"],
    }


@pytest.mark.parametrize(
    ("brought", "names", "expected", "missing"),
    [
        (SourceAvailability(3, 3), ["a-0 (x)"], 4, "a-0 (x)"),
        (SourceAvailability(3, 2, "broker 2 (gone)"), ["a-0 (x)"], 4, "broker 2 (gone); a-0 (x)"),
        (SourceAvailability(None, 5), list("abcdefg"), 12, "a; b; c; d; e; 2 more"),
    ],
)
def test_a_window_lacks_the_partitions_whose_leader_is_not_known(brought, names, expected, missing):
    found = brought.without(names, len(names))
    assert (found.expected_count, found.arrived_count, found.missing) == (expected, brought.arrived_count, missing)


@pytest.mark.parametrize("minutes", [1, 5])
def test_a_changed_length_of_windows_is_said(tmp_path, minutes):
    run = plan(tmp_path, 5, 5, window(5).end_ms)
    commit(run, [0], length_ms=minutes * MINUTE_MS)
    said = describe_other_lengths(run)
    assert said.startswith("windows of the last day are 5 minutes long, and `window` is now 1 minute: ") or minutes == 1
    assert bool(said) is (minutes == 5)


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        ((), ()),  # the first run of all
        ((0, 1, 2, 3, 4), ()),
        ((0, 1, 4), (2, 3)),
        ((0, 2, 4), (1, 3)),
    ],
)
def test_windows_that_are_left_undone_are_said(tmp_path, stored, said):
    run = plan(tmp_path, 5, 5, window(5).end_ms)
    if stored:
        commit(run, stored, is_trusted=True)
    notes = list_undone(run)
    if not said:
        assert notes == ()
        return
    (note,) = notes
    span = TimeWindow(window(said[0]).start_ms, window(said[-1]).end_ms)
    command = f"`partition-health run --window {span} --config "
    assert note.startswith(f"2 windows before it, {span}, were not ingested: {command}")


def test_of_many_sources_that_hold_nothing_some_are_named(tmp_path):
    folders = [str(tmp_path / f"gone-{number}") for number in range(1_000)]
    run = plan(tmp_path, 0, 0, START_MS + MINUTE_MS, sources=[{"kind": "log_directories", "paths": folders}])
    with pytest.raises(NothingUsableError, match=r"gone-0: No such file or directory, .* and 995 more") as raised:
        ingest.run(None, run)
    assert len(str(raised.value)) < 5 * len(folders[0]) + 500

"""Rows are dropped once their window is replayed and judged (`sums_only`). Oracle: the same runs with all rows kept."""

import shutil

import pytest

from pipeline.config.sections import SUMMED_UP
from pipeline.errors import RowsNotKeptError
from pipeline.model.window import milliseconds_of
from pipeline.steps import STEPS, take_steps
from pipeline.storage.rows import load_rows
from pipeline.tables.keys import EXPIRING
from tests.spark.capture_runs import SCRAPES, differences, plan

TOPICS = ("payments", "audit")
MINUTES = (4, 5)
DROPPED = {table.name for table in (*SUMMED_UP, *EXPIRING)}


def take(config, span, run_id):
    """One run; its notes and errors."""
    done, errors = take_steps((plan(config, span, run_id=run_id),), STEPS, lambda *_: None)
    return [note for reports in done.values() for report in reports for note in report.notes], errors


@pytest.fixture(scope="module")
def modes(capture, tmp_path_factory):
    """Two windows, one run each, without and with `sums_only`: capture, configurations."""
    folder = tmp_path_factory.mktemp("modes")
    part = capture.part(folder / "capture", topics=TOPICS, scrapes=SCRAPES[:1])
    keys = {"secret": str(folder / "shared.secret")}
    sources = ("log_directories", "producer_metrics")
    configs = [
        part.write_config(
            folder / str(only), topics=TOPICS, sources=sources, keys=keys, replay={"seeds": 1}, sums_only=only
        )
        for only in (False, True)
    ]
    for config in configs:
        for minute in MINUTES:
            assert take(config, part.span(minute, minute + 1), f"at {minute}")[1] == []
    return part, *configs


def minutes_in(part, config, table):
    return {
        part.minute_of(milliseconds_of(at)) for at in load_rows(config.warehouse, table)["window_start"].to_pylist()
    }


def test_shares_verdicts_and_replays_equal_those_of_the_full_mode(modes):
    _, full, only = modes
    assert differences(full.warehouse, only.warehouse).keys() <= DROPPED


@pytest.mark.parametrize("table", SUMMED_UP, ids=lambda table: table.name)
def test_rows_stay_for_the_window_whose_successor_is_not_replayed(modes, table):
    part, full, only = modes
    assert minutes_in(part, full, table) == {*MINUTES}
    assert minutes_in(part, only, table) == {MINUTES[-1]}


def test_a_window_without_rows_keeps_its_sums_and_says_why(modes):
    """Most of its logs are gone too, so that an ingest brings nothing back."""
    part, _, only = modes
    before = only.warehouse.parent / "before"
    shutil.copytree(only.warehouse, before)
    for log in (part.folder / "brokers").glob("*/payments-*/*.log"):
        log.unlink()
    notes, errors = take(only, part.span(MINUTES[0], MINUTES[0] + 1), "again")
    assert [type(error) for error in errors] == [RowsNotKeptError]
    assert "record batches are no longer kept (sums_only, retention)" in str(errors[0])
    assert any("replay and shares stay as they are" in note for note in notes)
    changed = differences(before, only.warehouse, leave_out=("bronze.window_status.source_expired",))
    assert {name for name in changed if name.startswith(("gold", "silver"))} == set()

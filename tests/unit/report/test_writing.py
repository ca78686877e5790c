"""Where reports are written, what mails call them, and which ones go. Oracle: the names, written out."""

import shutil
from datetime import timedelta

import pytest

from pipeline.cli import main
from pipeline.config_file import load_config
from pipeline.model.incident import AlertMessage
from pipeline.model.window import DAY_MS, HOUR_MS, TimeWindow
from pipeline.report.page import write_reports
from pipeline.runs import plan_runs
from pipeline.storage.rows import insert_rows
from pipeline.tables.incidents import ALERT_OUTBOX
from tests.report_tables import T0_MS, write_config, write_warehouse


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables") / "warehouse"
    write_warehouse(folder)
    return folder


@pytest.fixture
def folder(tmp_path, warehouse):
    shutil.copytree(warehouse, tmp_path / "warehouse")
    write_config(tmp_path)
    return tmp_path


def configured(base, **report):
    """The configuration of a folder, with settings of its reports."""
    config = load_config(base / "partition-health.yaml")
    return config.model_copy(update={"report": config.report.model_copy(update=report)})


def command(folder, *options):
    return main(["report", "--config", str(folder / "partition-health.yaml"), *options])


def plan(config, first_hour, hours):
    span = TimeWindow(T0_MS + first_hour * HOUR_MS, T0_MS + (first_hour + hours) * HOUR_MS)
    (run,) = plan_runs(config, span, run_id="r", now_ms=span.end_ms)
    return run


def names(folder):
    return sorted(path.name for path in folder.glob("warehouse/reports/*"))


def test_a_run_writes_the_report_of_its_newest_window_and_those_of_incidents(folder):
    run = plan(configured(folder), 0, 6)
    (note,) = write_reports(run, run.windows[:3])
    assert names(folder) == ["demo-2026-11-21T02-00Z.html"]
    assert note == f"report {folder}/warehouse/reports/demo-2026-11-21T02-00Z.html"
    write_reports(run, run.windows)
    assert names(folder) == ["demo-2026-11-21T02-00Z.html", "demo-2026-11-21T05-00Z.html"]


def test_what_a_waiting_message_names_is_written_whatever_window_the_run_is_about(folder):
    run = plan(configured(folder), 0, 6)
    of = {"message_id": "K-1-new.x@y", "cluster": "demo", "incident_id": "K-1", "state": "new", "queued_at_ms": T0_MS}
    told = {"channel": None, "tells": None, "subject_line": "", "recipients": "", "payload": b""}
    message = AlertMessage(window_start_ms=run.windows[4].start_ms, **of, **told)
    insert_rows(run.table_of(ALERT_OUTBOX, [message]), run.warehouse, ALERT_OUTBOX)
    write_reports(run, run.windows[:3])
    assert names(folder) == ["demo-2026-11-21T02-00Z.html", "demo-2026-11-21T04-00Z.html"]


def test_old_reports_of_the_cluster_go(folder):
    kept = configured(folder, keep=timedelta(days=2))
    (kept.warehouse / "reports").mkdir()
    stay = ["demo-2026-11-20T00-00Z.html", "demo-mine.html", "other-2026-11-01T00-00Z.html"]
    for name in (*stay, "demo-2026-11-18T00-00Z.html"):
        (kept.warehouse / "reports" / name).touch()
    run = plan(kept, 5, 1)
    write_reports(run, run.windows)
    assert names(folder) == sorted([*stay, "demo-2026-11-21T05-00Z.html"])


def test_a_folder_that_cannot_be_written_is_a_note(folder):
    (folder / "file").touch()
    run = plan(configured(folder, folder=folder / "file"), 5, 1)
    (note,) = write_reports(run, run.windows)
    assert note.startswith("the report could not be written: ")


@pytest.mark.parametrize(
    ("asked", "hour", "said"),
    [
        ((), "05", "6 windows, 2026-11-21 00:00 to 06:00 UTC"),
        (("--last", "2h"), "05", "2 windows, 2026-11-21 04:00 to 06:00 UTC"),
        (("--window", "2026-11-21T02:00:00Z/PT1H"), "02", "3 windows, 2026-11-21 00:00 to 03:00 UTC"),
        (("--window", "2026-11-21T02:00:00Z/PT2H"), "03", "2 windows, 2026-11-21 02:00 to 04:00 UTC"),
    ],
)
def test_the_command_writes_the_report_asked_for(folder, capsys, asked, hour, said):
    assert command(folder, *asked) == 0
    path = folder / f"warehouse/reports/demo-2026-11-21T{hour}-00Z.html"
    assert capsys.readouterr().out == f"{path}\n"
    assert said in path.read_text()


def test_a_file_of_ones_own(folder, capsys):
    path = folder / "some/where.html"
    assert command(folder, "--output", str(path)) == 0
    assert capsys.readouterr().out == f"{path}\n"
    assert path.read_text().startswith("<!doctype html>")


def test_without_judged_windows_there_is_no_report(folder, capsys):
    assert command(folder, "--window", "2026-11-20T00:00:00Z/PT1H") == 3
    assert "no window of cluster demo was judged" in capsys.readouterr().err


def test_mails_name_the_file_or_its_address(folder):
    link = configured(folder).report_link("demo", T0_MS)
    assert link == f"{folder}/warehouse/reports/demo-2026-11-21T00-00Z.html"
    shown = configured(folder, base_url="https://reports.example/")
    assert shown.report_link("demo", T0_MS + DAY_MS) == "https://reports.example/demo-2026-11-22T00-00Z.html"


def test_clusters_with_names_that_look_alike_have_files_of_their_own(folder):
    config = configured(folder)
    names = {config.report_path(cluster, T0_MS).name for cluster in ("a b", "a/b", "a-b")}
    assert len(names) == 3
    assert "a-b-2026-11-21T00-00Z.html" in names


def test_a_cluster_without_judged_windows_does_not_keep_the_others_from_a_report(folder, capsys):
    path = folder / "partition-health.yaml"
    path.write_text(f"{path.read_text()}  idle:\n    sources:\n      - {{kind: log_directories, paths: [{folder}]}}\n")
    assert command(folder) == 0
    said = capsys.readouterr()
    assert said.out == f"{folder}/warehouse/reports/demo-2026-11-21T05-00Z.html\n"
    assert "no window of cluster idle was judged" in said.err


def test_a_window_that_was_not_judged_is_a_note(folder):
    run = plan(configured(folder), -5, 1)
    (note,) = write_reports(run, run.windows)
    assert note.startswith("the report could not be written: no window of cluster demo was judged")

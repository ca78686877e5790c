"""Reports in Airflow's pages, behind its own sign-in. Oracle: Airflow's application with its auth manager, asked over HTTP."""

from __future__ import annotations

import pytest
import yaml

from dags.reports_page import list_reports
from tests.dags.conftest import EMPTY
from tests.dags.open_reports import NAME, PATHS

OTHER = "demo-2026-11-21T11-00Z.html"
REPORT = "<!doctype html>\n<title>FAIL demo · partition health</title>\n"


@pytest.fixture(scope="module")
def answers(described, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    config = folder / "partition-health.yaml"
    config.write_text(yaml.safe_dump(EMPTY | {"report": {"folder": "shown"}}))
    (folder / "shown").mkdir()
    for name in (NAME, OTHER):
        (folder / "shown" / name).write_text(REPORT)
    for name in ("secret.html", "shown/secret.html", "shown/demo.html"):
        (folder / name).write_text("secret")
    return described["home"].copy_to(folder / "airflow", config).run_script("open_reports")


@pytest.mark.parametrize(("role", "status"), [("None", 401), ("nobody", 403)])
def test_who_may_not_look_sees_nothing(answers, role, status):
    assert set(answers[role]["statuses"].values()) <= {status, 404}
    assert answers[role]["statuses"][""] == answers[role]["statuses"][NAME] == status
    assert "demo" not in answers[role]["list"]


def test_a_viewer_looks_and_finds_reports_alone(answers):
    statuses = answers["viewer"]["statuses"]
    assert {path: status for path, status in statuses.items() if status == 200} == {"": 200, NAME: 200}
    assert {statuses[path] for path in PATHS[2:]} == {404}
    assert answers["viewer"]["report"] == REPORT
    assert f'<a href="{NAME}" target="_blank" rel="noopener">2026-11-21 09:43 UTC</a>' in answers["viewer"]["list"]
    assert "FAIL" in answers["viewer"]["list"]


@pytest.mark.parametrize("role", ["None", "nobody", "viewer"])
def test_nobody_writes(answers, role):
    assert answers[role]["written"] == [405] * 4
    assert answers[role]["runs_written"] == [405] * 4


def test_a_run_leads_to_the_reports_of_its_windows(answers):
    """Of one it leads on to it; of none, and of a run of others, it lists nothing."""
    shown = [303, f"../../{NAME}"]
    both = [200, [f"../../{OTHER}", f"../../{NAME}"]]
    assert answers["viewer"]["runs"] == {
        "one_window": shown,
        "scheduled__2026-11-21T09:05:00+00:00": shown,
        "other_window": [200, []],
        "ranged": both,
        "nothing": [200, []],
        "of_others": [200, []],
        "unknown": [200, []],
    }
    for role, status in (("None", 401), ("nobody", 403)):
        assert {status for status, _ in answers[role]["runs"].values()} == {status}


def test_a_report_is_in_a_sandbox_without_airflows_origin(answers):
    listed, shown = answers["viewer"]["policies"]
    assert listed.startswith("default-src 'none'")
    assert shown.startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in shown


def test_reports_are_listed_with_the_newest_window_first(tmp_path):
    for name in ("a-2026-11-20T00-00Z.html", "b-c-2026-11-21T13-30Z.html", "<x>-2026-11-21T00-00Z.html"):
        (tmp_path / name).write_text("<title>OK a</title>")
    assert list_reports(tmp_path) == [
        ("b-c-2026-11-21T13-30Z.html", "b-c", "2026-11-21 13:30 UTC", "OK"),
        ("a-2026-11-20T00-00Z.html", "a", "2026-11-20 00:00 UTC", "OK"),
    ]
    assert list_reports(tmp_path / "nowhere") == []

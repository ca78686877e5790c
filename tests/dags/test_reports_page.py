"""Reports in Airflow's pages, behind its own sign-in. Oracles: Airflow's application with its auth manager, asked over HTTP;
Chromium with what it answered."""

import pytest

from dags.reports_page import list_data_docs, list_reports
from pipeline.model.window import TimeWindow, milliseconds_of, parse_instant
from tests.dags.conftest import DATA_DOCS, OTHER, REPORT
from tests.dags.open_reports import DOCS, NAME, PATHS
from tests.lab.browser import find_chromium, running_chromium


@pytest.fixture(scope="module")
def answers(asked):
    return asked[0]["reports"]


@pytest.mark.parametrize(("role", "status"), [("None", 401), ("nobody", 403)])
def test_who_may_not_look_sees_nothing(answers, role, status):
    assert set(answers[role]["statuses"].values()) <= {status, 404}
    assert answers[role]["statuses"][""] == answers[role]["statuses"][NAME] == answers[role]["statuses"][DOCS] == status
    assert "demo" not in answers[role]["list"]


def test_a_viewer_looks_and_finds_reports_alone(answers):
    statuses = answers["viewer"]["statuses"]
    assert {path: status for path, status in statuses.items() if status == 200} == {"": 200, NAME: 200, DOCS: 200}
    assert {statuses[path] for path in PATHS[3:]} == {404}
    assert answers["viewer"]["report"] == REPORT
    assert f'<a href="{NAME}" target="_blank" rel="noopener">2026-11-21 09:43 UTC</a>' in answers["viewer"]["list"]
    assert "FAIL" in answers["viewer"]["list"]
    assert answers["viewer"]["docs"] == DATA_DOCS
    assert f'<a href="{DOCS}" target="_blank" rel="noopener">demo</a>' in answers["viewer"]["list"]


@pytest.mark.parametrize("role", ["None", "nobody", "viewer"])
def test_nobody_writes(answers, role):
    assert answers[role]["written"] == [405] * 8
    assert answers[role]["runs_written"] == [405] * 4


def test_a_run_leads_to_the_reports_of_its_windows(answers):
    """Of one it leads on to it; of none, and of a run of others, it lists nothing."""
    shown = [303, f"../../{NAME}"]
    both = [200, [f"../../{OTHER}", f"../../{NAME}"]]
    none = {name: [200, []] for name in ("other_window", "nothing", "of_others", "unknown")}
    led = {"one_window": shown, "scheduled__2026-11-21T09:05:00+00:00": shown, "ranged": both}
    assert answers["viewer"]["runs"] == led | none
    for role, status in (("None", 401), ("nobody", 403)):
        assert {status for status, _ in answers[role]["runs"].values()} == {status}


def test_a_report_is_in_a_sandbox_without_airflows_origin(answers):
    policies = [answers["viewer"]["headers"][path]["content-security-policy"] for path in ("", NAME, DOCS)]
    assert policies[0].startswith("default-src 'none'")
    assert policies[1].startswith("sandbox allow-scripts")
    assert policies[2].startswith("sandbox allow-popups; default-src 'none'")
    assert not [policy for policy in policies if "allow-same-origin" in policy]


@pytest.mark.skipif(find_chromium() is None, reason="no Chromium here: apt-get install chromium")
def test_no_script_acts_as_the_reader(answers):
    """Even where escaping and the pages' own policy failed."""
    origin = "https://airflow.example"
    shown = {"": answers["viewer"]["list"], NAME: answers["viewer"]["report"], DOCS: answers["viewer"]["docs"]}
    with running_chromium() as browser:
        context = browser.new_context()
        context.add_cookies([{"name": "_token", "value": "secret", "url": origin, "sameSite": "Lax"}])
        cookies = {}

        def answer(route):
            path = route.request.url.removeprefix(origin).removeprefix("/partition-health/")
            cookies[path] = route.request.all_headers().get("cookie")
            if path in shown:
                route.fulfill(body=shown[path], headers=answers["viewer"]["headers"][path])
            else:
                route.fulfill(status=404)

        context.route("**/*", answer)
        page = context.new_page()
        titles = {}
        for path in shown:
            page.goto(f"{origin}/partition-health/{path}", wait_until="networkidle")
            if page.locator("#bait").count():
                page.click("#bait")
            titles[path] = page.title()
    assert titles == {"": "Partition health: reports", NAME: "caged", DOCS: "Data Docs"}
    assert cookies == dict.fromkeys(shown, "_token=secret") | {"/api": None}


def test_reports_are_listed_with_the_newest_window_first(tmp_path):
    for name in ("a-2026-11-20T00-00Z.html", "b-c-2026-11-21T13-30Z.html", "<x>-2026-11-21T00-00Z.html"):
        (tmp_path / name).write_text("<title>OK a</title>")
    assert list_reports(tmp_path) == [
        ("b-c-2026-11-21T13-30Z.html", "b-c", "2026-11-21 13:30 UTC", "OK"),
        ("a-2026-11-20T00-00Z.html", "a", "2026-11-20 00:00 UTC", "OK"),
    ]
    of_run = TimeWindow(*(milliseconds_of(parse_instant(at)) for at in ("2026-11-20T00:00Z", "2026-11-21T13:30Z")))
    assert [name for _, name, *_ in list_reports(tmp_path, of_run)] == ["a"]  # from its start on, up to before its end
    assert list_reports(tmp_path / "nowhere") == []


def test_what_is_no_report_of_the_folder_is_left_out_of_the_list(tmp_path):
    """Else one name ends the page for all reports, or shows a file from elsewhere."""
    folder = tmp_path / "reports"
    (folder / "folder-2026-11-21T13-30Z.html").mkdir(parents=True)
    (folder / "never-2026-99-99T99-99Z.html").write_text("")
    (folder / "a-2026-11-20T00-00Z.html").write_text("<title>OK a</title>")
    (folder / "same-2026-11-20T00-00Z.html").symlink_to("a-2026-11-20T00-00Z.html")
    (tmp_path / "elsewhere.txt").write_text("<title>SECRET")
    (folder / "link-2026-11-21T13-30Z.html").symlink_to(tmp_path / "elsewhere.txt")
    (folder / "data-docs").symlink_to(tmp_path)
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo/index.html").write_text("")
    assert sorted(name for _, name, *_ in list_reports(folder)) == ["a", "same"]
    assert list_data_docs(folder) == []


def test_data_docs_are_listed_by_cluster(tmp_path):
    for name in ("b", "a", "<x>"):
        (tmp_path / "data-docs" / name).mkdir(parents=True)
        (tmp_path / "data-docs" / name / "index.html").write_text("")
    assert list_data_docs(tmp_path) == [("data-docs/a/index.html", "a"), ("data-docs/b/index.html", "b")]
    assert list_data_docs(tmp_path / "nowhere") == []

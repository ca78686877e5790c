"""Great Expectations' Data Docs: every suite has pages, they say what was found, and no name becomes markup.

Oracles: the suites' own files, the reports that the pages are about, Python's HTML parser.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from html import unescape

import pytest

from expectations.actions import write_data_docs
from expectations.checkpoints import ExpectRowsToHold
from expectations.suite_files import SUITES
from tests.gates.data_docs import HOSTILE, check_suites, write_pages
from tests.gates.rows import gate_run
from tests.report_page import read_page

NAMES = sorted({path.stem for path in SUITES.glob("*.json")} - {"key_answers_gate", "key_matrices_gate"})
"""Of suites that the configuration has use for: it names no strategies."""
RUN = {report.suite for report in check_suites()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_pages(tmp_path_factory.mktemp("docs"))


@pytest.fixture(scope="module")
def pages(folder):
    return {path.stem: read_page(path.read_text()) for path in folder.glob("*.html")}


def test_every_suite_has_its_page_and_that_of_its_last_validation(pages):
    assert set(pages) == {"index", *(f"suite.{name}" for name in NAMES), *RUN}


def test_the_index_leads_to_every_suite_with_what_was_found(pages):
    cells = [[cell.text.strip() for cell in row.all("td")] for row in pages["index"].one("tbody").all("tr")]
    links = {link.text.strip(): link.attributes["href"] for link in pages["index"].one("tbody").all("a")}
    assert links == {name: f"{name}.html" if name in RUN else f"suite.{name}.html" for name in NAMES}
    assert set(links.values()) <= {f"{name}.html" for name in pages}
    by_name = {name: (checked, question) for _, name, checked, question in cells}
    for name, (_, question) in by_name.items():
        assert question == json.loads((SUITES / f"{name}.json").read_text())["meta"]["question"]
    span = "2026-11-21 09:00 to 09:10 UTC"
    assert by_name["health_gate"][0] == f"{span}: 1 of 4 failed"
    assert by_name["record_batches_gate"][0] == f"{span}: 3 of 3 failed"
    assert by_name["arrivals_gate"][0] == f"{span}: 0 of 2 failed"
    assert {row[1] for row in cells if row[0] == "not run yet"} == {*NAMES} - RUN
    badges = {
        row.one("a").text.strip(): row.one("i").attributes["class"]
        for row in pages["index"].all("tr")
        if [*row.all("i")]
    }
    assert {name for name, classes in badges.items() if "text-success" in classes} == {"arrivals_gate"}
    assert {name for name, classes in badges.items() if "text-warning" in classes} == {"log_ends_gate"}


def test_a_page_says_of_each_check_what_was_found(pages):
    for report in check_suites():
        page = pages[report.suite]
        for check in report.checks:
            assert check.description in page.text
            shown = check.rows[0].values() if check.rows else ()
            assert all(str(value) in page.text for value in shown if isinstance(value, int))
        assert ("Failed" if any(not check.success for check in report.checks) else "Succeeded") in page.text


def test_our_own_expectations_say_what_was_found_and_what_was_asked(pages):
    """Great Expectations' own renderer would print their arguments; a failed check shows its SQL, one that passed its count."""
    text = re.sub(r"\s+", " ", pages["partition_traffic_gate"].text)
    assert f"{len(HOSTILE)} rows" in text
    assert "Expected of rows with NOT is_compacted: missing_offset_count = 0." in text
    assert "expect_rows_to_hold(" not in text
    assert "0 windows" in pages["window_status_gate"].text


def test_one_without_a_description_is_described_by_its_sql():
    """As a person adds it in a hurry."""
    given = {"condition": "size_bytes <= :limit", "where": "broker_id = 1", "limit": 9, "shown": []}
    made = ExpectRowsToHold(**given)
    (said,) = made._prescriptive_renderer(configuration=made.configuration)
    assert said.string_template["template"] == "Expected of rows with $where: $condition."
    assert said.string_template["params"] == {"condition": "size_bytes <= 9", "where": "broker_id = 1"}


def test_links_between_pages_lead_somewhere(pages):
    for name, page in pages.items():
        links = {link.attributes["href"] for link in page.all("a")}
        assert {link.partition("#")[0].removesuffix(".html") for link in links} <= {"", *pages}, name


def test_no_name_becomes_markup(pages):
    for name, page in pages.items():
        tags = {element.tag for element in page.all()}
        attributes = {key for element in page.all() for key in element.attributes}
        assert not tags & {"script", "img", "svg", "link", "iframe", "form", "base", "object"}, name
        assert not {key for key in attributes if key.startswith("on")} | attributes & {"src", "srcdoc", "action"}, name
        assert [one.attributes.get("http-equiv") for one in page.all("meta") if "http-equiv" in one.attributes] == [
            "Content-Security-Policy"
        ]
    for name in ("health_gate", "partition_traffic_gate", "quarantine_gate"):
        for text in HOSTILE[:-1]:
            assert text in re.sub(r"\s+", " ", pages[name].text)


def test_nothing_is_loaded_and_no_script_may_run(folder):
    for path in folder.glob("*.html"):
        html = path.read_text()
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)[1]
        assert policy == "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
        assert html.index("Content-Security-Policy") < html.index("<title>")
        assert "://" not in unescape(html).replace("https://example.org/", "")  # which HOSTILE names


def test_the_newest_run_takes_the_place_of_the_one_before(tmp_path):
    run = gate_run(tmp_path)
    folder = run.config.data_docs_index("lab").parent
    first, *others = check_suites()
    write_data_docs(run, [first])
    write_data_docs(run, others)
    assert {f"{report.suite}.html" for report in (first, *others)} <= {path.name for path in folder.iterdir()}
    before = {path.name: path.read_text() for path in folder.iterdir()}
    write_data_docs(run, [])
    assert {path.name: path.read_text() for path in folder.iterdir()} == before


WRONG = """
import sys
from pathlib import Path
import pipeline.config_file
from expectations.gates import check_health
from tests.gates.test_actions import HOT, gate_run, judge
run, done = gate_run(Path(sys.argv[1])), []
check_health(run, judge([HOT] * 3), lambda: done.append(run.config.data_docs_index("lab").exists()))
print(done)
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "hot_keys_gate.json cannot be read"),
        ("{}", "hot_keys_gate.json is no suite"),
        ('{"name": "x", "meta": {"question": "?"}, "expectations": 5}', "TypeError"),
    ],
)
def test_a_suite_that_somebody_edited_wrongly_stops_no_other_gate_and_is_named(tmp_path, text, said):
    """Every gate has pages of all suites, and that of health had them before it queued its incidents."""
    package = shutil.copytree(SUITES.parent, tmp_path / "expectations", ignore=shutil.ignore_patterns("__pycache__"))
    (package / "suites/hot_keys_gate.json").write_text(text)
    command = [sys.executable, "-c", WRONG, str(tmp_path / "run")]
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{SUITES.parents[1]}"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[False]"
    (told,) = [line for line in done.stderr.splitlines() if "Data Docs could not be written" in line]
    assert said in told


def test_pages_that_cannot_be_written_stop_no_run(tmp_path, caplog):
    run = gate_run(tmp_path)
    (run.warehouse / "reports").write_text("a file in the way")
    write_data_docs(run, [])
    assert "Data Docs could not be written" in caplog.text

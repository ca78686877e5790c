"""Actions of Checkpoints. One writes Data Docs as pages of our own: the site builder takes 3.5 s, and its pages reach other hosts."""

import copy
import logging
import re
from collections.abc import Callable, Iterable
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Literal, Self

from great_expectations.checkpoint import ActionContext, CheckpointResult, ValidationAction
from great_expectations.compatibility.pydantic import PrivateAttr
from great_expectations.core.run_identifier import RunIdentifier
from great_expectations.render import RenderedDocumentContent
from great_expectations.render.renderer import ExpectationSuitePageRenderer, ValidationResultsPageRenderer
from great_expectations.render.view import DefaultJinjaPageView
from jinja2 import ChoiceLoader, FileSystemLoader

from expectations.checkpoints import make_suite
from expectations.reports import CheckResult, SuiteReport
from expectations.suite_files import OF_STRATEGIES, list_suites, read_suite
from pipeline import charts
from pipeline.model.number_text import format_between, format_cell, format_name
from pipeline.model.window import instant_of
from pipeline.runs import RunContext

_TITLE = re.compile(r"<title>(PASS|WARN|FAIL) \S+ · (.*)</title>")
_ICONS = {"PASS": "fa-check-circle text-success", "WARN": "fa-exclamation text-warning", "FAIL": "fa-times text-danger"}
_MARKUP = (
    (re.compile(r"(?:\.\./)+expectations/"), "suite."),  # one folder holds all our pages
    (re.compile(r"<(/?)h5\b"), r"<\1h2"),  # headings by their order, as screen readers need them
    (re.compile(r"<(/?)h6\b"), r"<\1h3"),
    (re.compile(r'(<div id="[^"]*" class="[^"]*table-responsive[^"]*")'), r'\1 tabindex="0"'),  # scrolls by keys, too
)
_HEAD_BYTES = 1_000
_MOST_CHARACTERS = 400
_COUNTS = {"unexpected_count", "unexpected_percent"}
_log = logging.getLogger(__name__)


class OwnAction(ValidationAction):  # type: ignore[misc] # untyped
    _act: Callable[[CheckpointResult], object] = PrivateAttr()

    @classmethod
    def by(cls, act: Callable[[CheckpointResult], object]) -> Self:
        action = cls()
        action._act = act
        return action

    def run(self, checkpoint_result: CheckpointResult, action_context: ActionContext | None = None) -> dict[str, Any]:
        return {"report": self._act(checkpoint_result)}


class WriteDataDocs(OwnAction):
    """Writes our pages of Great Expectations' Data Docs; `update_data_docs`, its own action, takes 3.5 s for our suites."""

    type: Literal["write_data_docs"] = "write_data_docs"
    name: str = "write Data Docs"


class QueueIncidents(OwnAction):
    type: Literal["queue_incidents"] = "queue_incidents"
    name: str = "queue incidents"


def write_data_docs(run: RunContext, reports: Iterable[SuiteReport]) -> None:
    """Writes the pages of suites that just ran, of suites that have none, and the index; a failure stops no run."""
    folder = run.config.data_docs_index(run.cluster_name).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for report in reports:
            _write(folder / f"{report.suite}.html", _render_result(run, report))
        for name in _used_suites(run):
            _write(folder / f"suite.{name}.html", _render_suite(name))
        _write(folder / "index.html", _render_index(run, folder))
    except Exception as error:  # noqa: BLE001 - of whatever a suite holds that somebody edited: all suites have pages
        _log.warning("Data Docs could not be written: %s: %s", type(error).__name__, error)


def _write(path: Path, html: str) -> None:
    part = path.with_suffix(".part")
    part.write_text(html, encoding="utf-8")
    part.replace(path)


def _used_suites(run: RunContext) -> list[str]:
    return [name for name in list_suites() if name not in OF_STRATEGIES or run.config.keys.strategies]


@cache
def _view() -> DefaultJinjaPageView:
    view = DefaultJinjaPageView()
    view.env.loader = ChoiceLoader([FileSystemLoader(Path(__file__).parent / "templates"), view.env.loader])
    return view


def _render(document: RenderedDocumentContent, title: str, question: str) -> str:
    html: str = _view().render(document, title=title, question=question, palette=charts)
    for found, ours in _MARKUP:
        html = found.sub(ours, html)
    return html


def _render_result(run: RunContext, report: SuiteReport) -> str:
    result, windows = copy.copy(report.result), format_between(run.span.start_ms, run.span.end_ms)
    by_name = {check.name: check for check in report.checks}
    result.results = [_show_rows(one, by_name[one.expectation_config.meta["check"]]) for one in result.results]
    table = read_suite(report.suite)["meta"].get("table", "several tables")
    result.meta = {
        "great_expectations_version": result.meta["great_expectations_version"],
        "run_id": RunIdentifier(run_name=f"windows {windows}", run_time=instant_of(run.now_ms)),
        "batch_spec": {"data_asset_name": f"{table} of cluster {format_name(run.cluster_name)}"},
    }
    badge = "FAIL" if report.failures else "WARN" if report.warnings else "PASS"
    checked = f"{windows}: {sum(not check.success for check in report.checks)} of {len(report.checks)} failed"
    document = ValidationResultsPageRenderer(run_info_at_end=True).render(result)
    return _render(document, f"{badge} {report.suite} · {checked}", read_suite(report.suite)["meta"]["question"])


def _show_rows(result: Any, check: CheckResult) -> Any:  # noqa: ANN401 - Great Expectations' own
    """A result with the first breaking rows in place of single values, which its templates would not escape."""
    shown = copy.copy(result)
    kept = {name: value for name, value in result.result.items() if "unexpected_" not in name or name in _COUNTS}
    cells = [[f"{name} {format_cell(value, _MOST_CHARACTERS)}" for name, value in row.items()] for row in check.rows]
    if rows := [", ".join(row) for row in cells]:
        listed = [escape(format_name(row, _MOST_CHARACTERS)) for row in rows]
        kept = {"unexpected_count": 0} | kept | {"partial_unexpected_list": listed}
    shown.result = kept
    return shown


@cache
def _render_suite(name: str) -> str:
    document = ExpectationSuitePageRenderer().render(make_suite(name))
    return _render(document, f"Suite {name}", read_suite(name)["meta"]["question"])


def _render_index(run: RunContext, folder: Path) -> str:
    suites = []
    for name in _used_suites(run):
        page = folder / f"{name}.html"
        link, badge, checked = f"suite.{name}.html", "", ""
        if page.exists():
            title = _TITLE.search(page.read_text(encoding="utf-8")[:_HEAD_BYTES])
            link, (badge, checked) = page.name, title.groups() if title else ("FAIL", "unreadable")
        suites.append((_ICONS.get(badge), name, link, checked, read_suite(name)["meta"]["question"]))
    heading = f"Data Docs of cluster {format_name(run.cluster_name)}"
    html: str = (
        _view()
        .env.get_template("page.j2")
        .render(
            title=heading,
            page_title=heading,
            question="What Great Expectations found when each suite ran last.",
            palette=charts,
            suites=suites,
        )
    )
    return html

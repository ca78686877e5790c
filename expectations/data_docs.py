"""Great Expectations' Data Docs: its pages about every suite and about what its last validation found, for each cluster.

Its renderers and templates make the pages, 10 ms each. Its site builder would take 3.5 s for our suites; and pages in its own frame
load scripts and styles from six other hosts, ours reach nothing and run nothing.

References:
    Great Expectations 1.x: `great_expectations.render`, `render/view/templates`; these escape only what has a style, so that values
    are escaped where they enter (`expectations.rows`).
"""

import logging
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from great_expectations.core.run_identifier import RunIdentifier
from great_expectations.render import (
    RenderedDocumentContent,
    RenderedSectionContent,
    RenderedStringTemplateContent,
    RenderedTableContent,
)
from great_expectations.render.renderer import ExpectationSuitePageRenderer, ValidationResultsPageRenderer
from great_expectations.render.view import DefaultJinjaPageView
from jinja2 import ChoiceLoader, FileSystemLoader

from expectations.engine import SUITES, make_suite, read_suite
from expectations.gate import GateReport
from pipeline.charts import palette
from pipeline.model.number_text import format_between, format_name
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
_log = logging.getLogger(__name__)


def write_data_docs(run: RunContext, reports: Iterable[GateReport]) -> None:
    """Writes the pages of suites that just ran, of suites that have none, and the index; a failure stops no run."""
    folder = run.config.data_docs_index(run.cluster_name).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for report in reports:
            _write(folder / f"{report.page}.html", _render_result(run, report))
        for name in _suites():
            _write(folder / f"suite.{name}.html", _render_suite(name))
        _write(folder / "index.html", _render_index(run, folder))
    except OSError as error:
        _log.warning("Data Docs could not be written: %s", error)


def _write(path: Path, html: str) -> None:
    """Replaces a page; it is written anew by the next run, so that nothing waits for the disk."""
    part = path.with_suffix(".part")
    part.write_text(html, encoding="utf-8")
    part.replace(path)


def _suites() -> Iterator[str]:
    return (path.stem for path in sorted(SUITES.glob("*.json")))


@cache
def _view() -> DefaultJinjaPageView:
    view = DefaultJinjaPageView()
    view.env.loader = ChoiceLoader([FileSystemLoader(Path(__file__).parent / "templates"), view.env.loader])
    return view


def _render(document: RenderedDocumentContent, title: str, question: str) -> str:
    html: str = _view().render(document, title=title, question=question, palette=palette)
    for found, ours in _MARKUP:
        html = found.sub(ours, html)
    return html


def _render_result(run: RunContext, report: GateReport) -> str:
    """Renders what a suite found; `run_id` and `data_asset_name` are where Great Expectations looks for them."""
    result, windows = report.result, format_between(run.span.start_ms, run.span.end_ms)
    result.meta = {
        "great_expectations_version": result.meta["great_expectations_version"],
        "run_id": RunIdentifier(run_name=f"windows {windows}", run_time=instant_of(run.now_ms)),
        "batch_spec": {
            "data_asset_name": f"{report.table or 'several tables'} of cluster {format_name(run.cluster_name)}"
        },
    }
    badge = "FAIL" if report.failures else "WARN" if report.warnings else "PASS"
    checked = f"{windows}: {sum(not check.success for check in report.checks)} of {len(report.checks)} failed"
    document = ValidationResultsPageRenderer(run_info_at_end=True).render(result)
    return _render(document, f"{badge} {report.page} · {checked}", read_suite(report.suite)["meta"]["question"])


@cache
def _render_suite(name: str) -> str:
    document = ExpectationSuitePageRenderer().render(make_suite(name))
    return _render(document, f"Suite {name}", read_suite(name)["meta"]["question"])


def _render_index(run: RunContext, folder: Path) -> str:
    """Renders the list of all suites with the last result of each; a suite that several tables share has several."""
    table = []
    for name in _suites():
        pages = sorted(folder.glob(f"{name}.html")) + sorted(folder.glob(f"{name}-*.html"))
        question = read_suite(name)["meta"]["question"]
        for page in pages:
            title = _TITLE.search(page.read_text(encoding="utf-8")[:_HEAD_BYTES])
            badge, checked = title.groups() if title else ("FAIL", "unreadable")
            table.append([_element("i", "", classes=_ICONS[badge]), _link(page.stem, page.name), checked, question])
        if not pages:
            table.append(["not run yet", _link(name, f"suite.{name}.html"), "", question])
    block = RenderedTableContent(
        content_block_type="table",
        header_row=["Status", "Expectation suite", "Windows, checks", "Question"],
        table=table,
        styling={"body": {"classes": ["table"]}},
    )
    heading = f"Data Docs of cluster {format_name(run.cluster_name)}"
    section = RenderedSectionContent(section_name="Suites", content_blocks=[block])
    document = RenderedDocumentContent(renderer_type="SiteIndexPageRenderer", page_title=heading, sections=[section])
    return _render(document, heading, "What Great Expectations found when each suite ran last.")


def _link(text: str, href: str) -> RenderedStringTemplateContent:
    return _element("a", text, href=href)


def _element(tag: str, text: str, *, classes: str = "", **attributes: str) -> RenderedStringTemplateContent:
    styling = {"classes": classes.split(), "attributes": attributes}
    return RenderedStringTemplateContent(
        content_block_type="string_template",
        string_template={"template": "$text", "params": {"text": text}, "tag": tag, "styling": styling},
    )

"""The page: every cluster's sections, put into one HTML file that needs nothing else and reaches nothing.

References:
    Content Security Policy Level 3: a `meta` element states the policy, a script or style of the page is named by its hash.
    No style attribute and no handler is ever allowed by it, so nothing in a name can act even where escaping failed.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import jinja2

from pipeline.charts import palette
from pipeline.errors import NothingUsableError
from pipeline.model.number_text import escape_hidden, format_between, format_clock, format_ms, format_percent
from pipeline.model.window import TimeWindow, format_instant, milliseconds_of
from pipeline.report import queries
from pipeline.report.answers import LINES_TOGETHER, STRIPS_SHOWN, Answer, Asker, pivot_columns
from pipeline.report.brokers import draw_causes, draw_latency, draw_room, draw_shares, draw_waiting
from pipeline.report.marks import TableChart
from pipeline.report.quality import draw_abstentions, draw_judged, draw_quarantine, draw_sources
from pipeline.report.status import Status, find_status
from pipeline.report.timeline import LineChart, TimeStrip, draw_lines, draw_strip
from pipeline.report.topics import HeatMap, draw_heat_map, draw_hot_keys, draw_topics
from pipeline.report.what_if import draw_advice, draw_back_tests, draw_promises, draw_replay
from pipeline.runs import RunContext
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.gold import VERDICTS
from pipeline.tables.health import FORECAST, PROMISES
from pipeline.tables.incidents import INCIDENTS


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSection:
    """A titled part of a cluster's report; charts that nothing is known for are left out."""

    name: str
    title: str
    rows: tuple[TableChart, ...] = ()
    lines: tuple[LineChart, ...] = ()
    heat: HeatMap | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReport:
    """All of one cluster's report."""

    cluster: str
    window_start_ms: int
    window: str
    period: str
    status: Status
    strip: TimeStrip
    sections: tuple[ReportSection, ...]
    data_docs: str = ""  # address seen from the folder of reports; empty without them


def gather_report(run: RunContext, *, until_ms: int, length_ms: int) -> ClusterReport:
    """Reads the tables and draws a cluster's report about its newest judged window that started before an instant.

    `length_ms`: how far back the charts over windows reach from the end of that window.

    Raises:
        NothingUsableError: if no window was judged until then.
    """
    asker = Asker(
        warehouse=run.warehouse, cluster=run.cluster_name, period=TimeWindow(0, until_ms), window=TimeWindow(0, 1)
    )
    start_ms = asker.find_newest()
    if start_ms is None:
        raise NothingUsableError(
            f"no window of cluster {run.cluster_name} was judged until then; `partition-health run` does it"
        )
    # an older warehouse lacks the first two, and columns of the others
    ensure_tables(run.warehouse, (PROMISES, FORECAST, VERDICTS, INCIDENTS))
    window = run.window_at(start_ms)
    asker = replace(asker, period=TimeWindow(window.end_ms - length_ms, window.end_ms), window=window)
    verdicts = asker.ask("verdicts", queries.STRIP)
    first_ms = min((milliseconds_of(row["window_start"]) for row in verdicts.rows), default=window.start_ms)
    span = TimeWindow(first_ms, window.end_ms)
    strip = draw_strip(verdicts, asker.ask("incidents", queries.INCIDENTS), span, run.window_ms)
    status = find_status(run, window)
    shares = asker.ask("shares", queries.SHARES)
    ranked = [row["broker_id"] for row in shares.rows]
    data_docs = run.config.data_docs_index(run.cluster_name)
    folder = run.config.report_path(run.cluster_name, window.start_ms).parent
    broker = status.broker if status.broker is not None else ranked[0] if ranked else 0
    return ClusterReport(
        cluster=escape_hidden(run.cluster_name),
        window_start_ms=window.start_ms,
        window=format_between(window.start_ms, window.end_ms),
        period=format_between(span.start_ms, span.end_ms),
        status=status,
        strip=strip,
        sections=(
            _brokers_section(asker, shares, strip, span, run, broker=broker),
            _topics_section(asker, shares, broker),
            _latency_section(asker, strip, span, run),
            _replay_section(asker),
            ReportSection(
                name="quality",
                title="What this rests on",
                rows=(
                    draw_sources(asker.ask("sources", queries.SOURCES)),
                    draw_abstentions(asker.ask("abstentions", queries.ABSTENTIONS)),
                    draw_quarantine(asker.ask("quarantine", queries.QUARANTINE)),
                ),
            ),
        ),
        data_docs=data_docs.relative_to(folder).as_posix() if data_docs.exists() else "",
    )


def _known(*charts: TableChart | None) -> tuple[TableChart, ...]:
    return tuple(chart for chart in charts if chart is not None)


def _brokers_section(
    asker: Asker, shares: Answer, strip: TimeStrip, span: TimeWindow, run: RunContext, *, broker: int
) -> ReportSection:
    brokers = [row["broker_id"] for row in asker.ask("loudest", queries.LOUDEST).rows]
    above = [
        row["broker_id"]
        for row in shares.rows
        if row["limit_value"] and (row["share_ratio"] or 0) >= row["limit_value"]
    ]
    first = next((row for row in shares.rows if row["limit_value"]), None)
    levels = []
    if first is not None:
        levels = [(first["expected_share"], "fair", ""), (first["expected_share"] * first["limit_value"], "limit", "")]
    lines: tuple[LineChart, ...] = ()
    if brokers:
        columns = {"columns": pivot_columns(brokers, "share")}
        lines = (
            draw_lines(
                asker.ask("share_lines", queries.SHARE_LINES, columns),
                span,
                run.window_ms,
                title="Shares over the windows",
                says=f"Tinted: incidents. Dashed: fair share; solid: limit.{_describe_strips(brokers, 'highest above their fair shares')}",
                hot=[f"broker_{broker}" for broker in above],
                levels=levels,
                spans=strip.bars,
                format_value=format_percent,
            ),
        )
    return ReportSection(
        name="brokers",
        title="Who is hot, why, and what to do",
        rows=_known(
            draw_judged(asker.ask("judged", queries.JUDGED)),
            draw_shares(shares),
            draw_causes(asker.ask("causes", queries.CAUSES), broker),
            draw_advice(asker.ask("advice", queries.ADVICE)),
            draw_promises(asker.ask("promises", queries.PROMISES)),
        ),
        lines=lines,
    )


def _describe_strips(brokers: Sequence[int], how: str) -> str:
    """Describes which brokers have strips, where there are too many for one plot."""
    if len(brokers) <= LINES_TOGETHER:
        return ""
    which = (
        f"the {STRIPS_SHOWN} of {len(brokers)} brokers that were {how}"
        if len(brokers) > STRIPS_SHOWN
        else "each broker"
    )
    return (
        f" A strip for {which}: its newest value and its highest. Grey: from the lowest to the highest of all brokers."
    )


def _topics_section(asker: Asker, shares: Answer, broker: int) -> ReportSection:
    fair = next((row["expected_share"] for row in shares.rows if row["broker_id"] == broker), 0.0)
    topics = asker.ask("topics", queries.TOPICS, {"broker": f"{broker}", "expected_share": f"{fair!r}"})
    return ReportSection(
        name="topics",
        title="Topics, partitions, keys",
        rows=_known(draw_topics(topics, broker), draw_hot_keys(asker.ask("hot_keys", queries.HOT_KEYS))),
        heat=draw_heat_map(asker.ask("partitions", queries.PARTITIONS), topics, broker),
    )


def _latency_section(asker: Asker, strip: TimeStrip, span: TimeWindow, run: RunContext) -> ReportSection:
    latency = asker.ask("latency", queries.LATENCY)
    brokers = [row["broker_id"] for row in asker.ask("slowest", queries.SLOWEST).rows]
    lines: tuple[LineChart, ...] = ()
    if brokers:
        columns = {"columns": pivot_columns(brokers, "request_latency_avg_ms")}
        lines = (
            draw_lines(
                asker.ask("latency_lines", queries.LATENCY_LINES, columns),
                span,
                run.window_ms,
                title="Mean request latency over the windows",
                says=f"Tinted: incidents.{_describe_strips(brokers, 'slowest')}",
                hot=[],
                spans=strip.bars,
                format_value=format_ms,
            ),
        )
    return ReportSection(
        name="latency",
        title="Latency and room",
        rows=_known(
            draw_latency(latency),
            draw_room(asker.ask("room", queries.ROOM)),
            draw_waiting(asker.ask("waiting", queries.WAITING)),
        ),
        lines=lines,
    )


def _replay_section(asker: Asker) -> ReportSection:
    return ReportSection(
        name="replay",
        title="What other clients and settings would change",
        rows=_known(
            draw_replay(asker.ask("replay", queries.REPLAY)),
            draw_back_tests(asker.ask("back_tests", queries.BACK_TESTS)),
        ),
    )


def render_report(clusters: Sequence[ClusterReport], *, now_ms: int, command: str) -> str:
    """The page of one cluster or several; the same arguments give the same text."""
    environment = _templates()
    style = environment.get_template("report.css.j2").render(palette=palette)
    script = files("pipeline.report").joinpath("templates/report.js").read_text(encoding="utf-8")
    return environment.get_template("report.html.j2").render(
        clusters=clusters,
        style=style,
        style_hash=_source_hash(style),
        script=script,
        script_hash=_source_hash(script),
        made_at=format_clock(now_ms),
        made_at_instant=format_instant(now_ms),
        command=command,
    )


def render_list(
    reports: Sequence[tuple[str, str, str, str]], root: str = "", data_docs: Sequence[tuple[str, str]] = ()
) -> str:
    """Renders a page that links files at `root`: name, cluster, window and badge of reports; name and cluster of Data Docs."""
    environment = _templates()
    style = environment.get_template("report.css.j2").render(palette=palette)
    return environment.get_template("list.html.j2").render(reports=reports, root=root, data_docs=data_docs, style=style)


def _source_hash(text: str) -> str:
    """A source of the policy: the hash of an element's text.

    >>> _source_hash("a")
    'sha256-ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs='
    """
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("pipeline.report"),
        autoescape=jinja2.select_autoescape(enabled_extensions=("html.j2",), default=False),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

"""The page: every cluster's sections in one HTML file, which reaches nothing; its policy names script and style by their hashes."""

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from pipeline import charts
from pipeline.alerting.message import load_templates
from pipeline.config.sections import report_name
from pipeline.errors import NothingUsableError, PipelineError
from pipeline.files import replace_file
from pipeline.model.number_text import escape_hidden, format_between, format_bytes, format_clock, format_name
from pipeline.model.window import TimeWindow, Windows, milliseconds_of
from pipeline.report.answers import Asker, Chart, ChartColumn, DrawnTable, Point, Rows, Words, ask_newest, cell_of
from pipeline.report.brokers import LATENCY, ROOM, SHARES, WAITING, causes_of
from pipeline.report.status import ABSTENTIONS, JUDGED, QUARANTINE, SOURCES, Status, find_status
from pipeline.report.timeline import LATENCY_LINES, SHARE_LINES, TimeStrip, draw_strip
from pipeline.report.topics import (
    ADVICE,
    BACK_TESTS,
    HOT_KEYS,
    KEPT_PROMISES,
    REPLAY,
    draw_heat_map,
    partitions_of,
    topics_of,
)
from pipeline.runs import RunContext
from pipeline.storage.outbox import pending
from pipeline.storage.tables_on_disk import ensure_measures
from pipeline.tables.incidents import INCIDENTS

_SHOWN = 30
_SOURCES = {"client": "its client says", "rack_aware": "its records show", "brokers": "brokers", "unknown": "not known"}


def _say(rows: Rows) -> str:
    between = sum(row["size_bytes"] for row in rows if row["is_between_zones"])
    produced = [row for row in rows if row["kind"] == "produce"]
    across = sum(row["size_bytes"] for row in produced if row["is_between_zones"])
    whole = sum(row["size_bytes"] for row in produced) or 1
    assumed = sum(row["size_bytes"] for row in produced if row["zone_source"] in {"assumed", "unknown"}) / whole
    costs = [row["cost_per_month"] for row in rows if row["cost_per_month"] is not None]
    money = f", {sum(costs):,.2f} a month at your price" if costs else ""
    guess = f" The zones of producers of {assumed:.0%} of the bytes are assumed." if assumed else ""
    return f"{format_bytes(between)} go between zones{money}, among them {across / whole:.0%} of the produced bytes.{guess}"


ZONES = Chart(
    name="zones", title="Bytes between zones", says=_say, most_rows=_SHOWN,
    columns=(
        Words("kind", "kind"),
        Words("zones", lambda row: f"{row['from_zone'] or 'not known'} to {row['to_zone'] or 'not known'}"),
        Words("zone known by", "zone_source", lambda source: format_name(_SOURCES.get(source, source))),
        ChartColumn("bytes", "size_bytes", format_bytes),
        ChartColumn("a month", "cost_per_month", "{:,.2f}".format),
    ),
    marks=(Point(lambda row: "hot" if row["is_between_zones"] else "bar", "size_bytes", format_bytes, start=0.0),),
    legend=(("hot", "from zone to zone"), ("bar", "within a zone, or not known")),
    is_marked=lambda row: bool(row["is_between_zones"]),
)  # fmt: skip  # a table: short fields share a line


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSection:
    name: str
    title: str
    rows: tuple[DrawnTable, ...]
    lines: tuple[dict[str, Any], ...] = ()
    heat: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReport:
    cluster: str
    window_start_ms: int
    window: str
    period: str
    status: Status
    strip: TimeStrip
    sections: tuple[ReportSection, ...]
    data_docs: str = ""  # address seen from the folder of reports; empty without them


def gather_report(run: RunContext, *, until_ms: int, length_ms: int) -> ClusterReport:
    """A cluster's report on the newest window judged before an instant, `length_ms` back; `NothingUsableError` without."""
    newest = ask_newest(run, until_ms)
    if newest is None:
        judged = f"no window of cluster {run.cluster_name} was judged until then"
        raise NothingUsableError(f"{judged}; `partition-health run` does it")
    # an older warehouse lacks some of these, and columns of the others
    ensure_measures(run.warehouse)
    window = newest.window
    asker = replace(newest, period=TimeWindow(window.end_ms - length_ms, window.end_ms))
    verdicts = asker.ask("verdicts")
    first_ms = min((milliseconds_of(row["window_start"]) for row in verdicts.rows), default=window.start_ms)
    span = TimeWindow(first_ms, window.end_ms)
    status = find_status(run, window)
    strip = draw_strip(verdicts, asker.ask("incidents"), span, run.window_ms)
    data_docs = run.config.data_docs_index(run.cluster_name)
    folder = run.config.report_path(run.cluster_name, window.start_ms).parent
    return ClusterReport(
        cluster=escape_hidden(run.cluster_name),
        window_start_ms=window.start_ms,
        window=format_between(window.start_ms, window.end_ms),
        period=format_between(span.start_ms, span.end_ms),
        status=status,
        strip=strip,
        sections=_draw_sections(asker, strip, status),
        data_docs=data_docs.relative_to(folder).as_posix() if data_docs.exists() else "",
    )


def _draw_sections(asker: Asker, strip: TimeStrip, status: Status) -> tuple[ReportSection, ...]:
    shares = asker.ask(SHARES.name)
    fair = {row["broker_id"]: row["expected_share"] for row in shares.rows}
    explained = status.explained or dict.fromkeys((*fair, 0)[:1], ())  # else of the highest share ratio
    first = next(iter(explained))

    def draw(*charts: Chart) -> tuple[DrawnTable, ...]:
        answers = (replace(asker.ask(one.name, one.values), name=f"{one.name}{one.suffix}") for one in charts)
        drawn = (chart.draw(answer) for chart, answer in zip(charts, answers, strict=True))
        return tuple(chart for chart in drawn if chart is not None)

    def of_each(chart_of: Callable[[int], Chart]) -> tuple[Chart, ...]:
        return tuple(replace(chart_of(one), suffix="" if one == first else f"_{one}") for one in explained)

    causes = of_each(lambda broker: causes_of(broker, explained[broker]))
    topics = of_each(lambda broker: topics_of(broker, fair.get(broker, 0.0)))
    by_topic = asker.ask(topics[0].name, topics[0].values)
    zones = draw(ZONES)
    return (
        ReportSection(
            name="brokers", title="Who is hot, why, and what to do", lines=SHARE_LINES.draw(asker, shares, strip),
            rows=draw(JUDGED, SHARES, *causes, ADVICE, KEPT_PROMISES),
        ),
        ReportSection(
            name="topics", title="Topics, partitions, keys", rows=draw(*topics, *of_each(partitions_of), HOT_KEYS),
            heat=draw_heat_map(asker.ask("partitions"), by_topic, first),
        ),
        ReportSection(
            name="latency", title="Latency and room", lines=LATENCY_LINES.draw(asker, shares, strip),
            rows=draw(LATENCY, ROOM, WAITING),
        ),
        ReportSection(name="replay", title="What other clients and settings would change", rows=draw(REPLAY, BACK_TESTS)),
        *((ReportSection(name="zones", title="Zones", rows=zones),) if zones else ()),
        ReportSection(name="quality", title="Data behind this report", rows=draw(SOURCES, ABSTENTIONS, QUARANTINE)),
    )  # fmt: skip  # a table: short fields share a line


def render_report(clusters: Sequence[ClusterReport], *, now_ms: int, command: str) -> str:
    """The page of one cluster or several; the same arguments give the same text."""
    environment = load_templates("pipeline.report")
    style = environment.get_template("report.css.j2").render(palette=charts)
    script = files("pipeline.report").joinpath("templates/report.js").read_text(encoding="utf-8")
    return environment.get_template("report.html.j2").render(
        clusters=clusters,
        style=style,
        style_hash=_source_hash(style),
        script=script,
        script_hash=_source_hash(script),
        made_at=format_clock(now_ms),
        command=command,
        cell_of=cell_of,
    )


def render_list(
    reports: Sequence[tuple[str, str, str, str]], root: str = "", data_docs: Sequence[tuple[str, str]] = ()
) -> str:
    """Renders a page that links files at `root`: name, cluster, window and badge of reports; name and cluster of Data Docs."""
    environment = load_templates("pipeline.report")
    style = environment.get_template("report.css.j2").render(palette=charts)
    return environment.get_template("list.html.j2").render(reports=reports, root=root, data_docs=data_docs, style=style)


def _source_hash(text: str) -> str:
    """A source of the policy: the hash of an element's text.

    >>> _source_hash("a")
    'sha256-ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs='
    """
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


_MOST_REPORTS = 24  # of a backfill: the newest, beside those that messages name


def write_report(html: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, html.encode(), mode=0o644)


def write_reports(run: RunContext, windows: Windows) -> tuple[str, ...]:
    """Writes reports of the newest judged window and of those in which an incident changed; returns notes, and stops no run."""
    starts_ms = {start_ms for (start_ms,) in run.tuples(INCIDENTS, windows, "window_start_ms")}
    newest = sorted(starts_ms | {max(windows).start_ms})[-_MOST_REPORTS:]
    path, length_ms = None, milliseconds_of(run.config.report.period)
    try:
        for start_ms in sorted({*newest, *list_missing(run)}):
            report = gather_report(run, until_ms=start_ms + run.window_ms, length_ms=length_ms)
            path = run.config.report_path(run.cluster_name, report.window_start_ms)
            write_report(render_report([report], now_ms=run.now_ms, command=run.config.command("sql")), path)
        expired_ms = max(0, max(windows).end_ms - milliseconds_of(run.config.report.keep))
        oldest = run.config.report_path(run.cluster_name, expired_ms)
        for old in oldest.parent.glob(report_name(run.cluster_name, "20??-??-??T??-??Z")):
            if old.name < oldest.name:  # names of one cluster sort by their windows
                old.unlink(missing_ok=True)
    except (OSError, PipelineError) as error:
        return (f"the report could not be written: {error}",)
    return (f"report {path}",)


def list_missing(run: RunContext) -> list[int]:
    waiting = {one.window_start_ms for one in pending(run.warehouse) if one.cluster == run.cluster_name}
    return sorted(ms for ms in waiting if not run.config.report_path(run.cluster_name, ms).exists())

"""Reports and Data Docs in Airflow, for users who may see runs of `partition_health_health`; each in a sandboxed origin."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigError
from pipeline.model.window import TimeWindow, milliseconds_of, parse_instant

REPORT_NAME = r"[A-Za-z0-9_-]{1,80}-\d{4}-\d{2}-\d{2}T\d{2}-\d{2}Z\.html"
DATA_DOCS_NAME = r"data-docs/[A-Za-z0-9_-]{1,80}/[a-z_.-]{1,80}\.html"
DAGS_OF_WINDOWS = ("ingest", "replay", "health")  # without the configuration's prefix, health last
MOST_LISTED = 500
EVER = TimeWindow(0, 2**53)
_TITLE = re.compile(r"<title>([A-Z]+) ")
_HEAD_BYTES = 2_000
_HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
_LIST_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"
_LIST_HEADERS = _HEADERS | {"Content-Security-Policy": _LIST_POLICY}
_DATA_DOCS_POLICY = f"sandbox allow-popups; {_LIST_POLICY}"
_REPORT_POLICY = "sandbox allow-scripts allow-popups; frame-ancestors 'self'"


async def reports_app(scope: Any, receive: Any, send: Any) -> None:
    """The pages as an ASGI application, made when the first request comes: other processes load this module too."""
    await make_app()(scope, receive, send)


@cache
def make_app() -> Any:
    """Makes the application: `/` lists reports, `/NAME` shows one, `/run/DAG/RUN` leads to those of a run's windows."""
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import requires_access_dag
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from fastapi import Depends, FastAPI, HTTPException
    from fastapi.responses import HTMLResponse, RedirectResponse
    from sqlalchemy import select

    from pipeline.config_file import load_usable
    from pipeline.report.page import render_list

    of_windows = [load_usable().airflow.name(one) for one in DAGS_OF_WINDOWS]
    may_look = Depends(requires_access_dag("GET", DagAccessEntity.RUN, of_windows[-1]))
    app = FastAPI(title="Partition health", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/", dependencies=[may_look])
    def show_list() -> HTMLResponse:
        folder = reports_folder()
        return HTMLResponse(render_list(list_reports(folder), data_docs=list_data_docs(folder)), headers=_LIST_HEADERS)

    @app.get("/run/{dag_id}/{run_id:path}", dependencies=[may_look])
    def show_run(dag_id: str, run_id: str) -> Any:
        with create_session() as session:
            run = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
            is_ours = dag_id in of_windows
            span = span_of_run(run.partition_key, run.conf) if is_ours and run is not None else None
        listed = list_reports(reports_folder(), span)
        root = "../../"  # a slash in a run's id is encoded: the browser counts two folders
        if len(listed) == 1:
            return RedirectResponse(f"{root}{listed[0][0]}", 303, headers=_HEADERS)
        return HTMLResponse(render_list(listed, root), headers=_LIST_HEADERS)

    @app.get("/{name}", dependencies=[may_look])
    def show_report(name: str) -> HTMLResponse:
        return show_file(name, REPORT_NAME, _REPORT_POLICY)

    @app.get("/data-docs/{cluster}/{name}", dependencies=[may_look])
    def show_data_docs(cluster: str, name: str) -> HTMLResponse:
        return show_file(f"data-docs/{cluster}/{name}", DATA_DOCS_NAME, _DATA_DOCS_POLICY)

    def show_file(name: str, pattern: str, policy: str) -> HTMLResponse:
        path = reports_folder() / name
        if re.fullmatch(pattern, name) is None or not is_inside(path, reports_folder()):
            raise HTTPException(404, "no such report")
        return HTMLResponse(path.read_bytes(), headers=_HEADERS | {"Content-Security-Policy": policy})

    return app


def is_inside(path: Path, folder: Path) -> bool:
    """Whether it is a file, and one of the folder: a link that leads out of it is none."""
    return path.is_file() and path.resolve().is_relative_to(folder.resolve())


def reports_folder() -> Path:
    from pipeline.config_file import load_usable

    return load_usable().report_path("any", 0).parent


def span_of_run(partition_key: str | None, conf: Mapping[str, Any] | None) -> TimeWindow | None:
    from dags.runs import requested_span  # Airflow's SDK
    from pipeline.config_file import load_usable

    try:
        return requested_span(load_usable(), partition_key, conf or {})
    except ConfigError:
        return None


def list_reports(folder: Path, span: TimeWindow | None = EVER) -> list[tuple[str, str, str, str]]:
    named = (path for path in folder.glob("*.html") if re.fullmatch(REPORT_NAME, path.name))
    starts = ((path, _start_ms(path)) for path in named if is_inside(path, folder))
    paths = [path for path, at in starts if span is not None and at is not None and span.start_ms <= at < span.end_ms]
    paths.sort(key=lambda path: path.stem[-17:], reverse=True)
    found = []
    for path in paths[:MOST_LISTED]:
        with path.open("rb") as file:
            title = _TITLE.search(file.read(_HEAD_BYTES).decode("utf-8", "replace"))
        window = path.stem[-17:].replace("T", " ").removesuffix("Z")
        found.append((path.name, path.stem[:-18], f"{window[:13]}:{window[14:]} UTC", title[1] if title else ""))
    return found


def list_data_docs(folder: Path) -> list[tuple[str, str]]:
    found = [path for path in sorted(folder.glob("data-docs/*/index.html")) if is_inside(path, folder)]
    names = [path.relative_to(folder).as_posix() for path in found]
    return [(name, name.split("/")[1]) for name in names if re.fullmatch(DATA_DOCS_NAME, name)]


def _start_ms(path: Path) -> int | None:
    """Parses the start of a report's window from its file name; None where no calendar holds it."""
    day, _, time = path.stem[-17:].partition("T")
    try:
        return milliseconds_of(parse_instant(f"{day}T{time.replace('-', ':')}"))
    except ConfigError:
        return None

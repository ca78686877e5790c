"""Exporters' pages, read over HTTP and kept as files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pipeline.errors import ConfigError, InputError
from pipeline.model.finding import Finding
from pipeline.model.log import Problem
from pipeline.sources.metrics.http_text import HttpReader, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pipeline.sources.kinds.exporter_urls import ExporterUrls
    from pipeline.sources.metrics.http_access import HttpAccess
    from pipeline.sources.source import SampleQuestion


def scrape(source: ExporterUrls, question: SampleQuestion) -> Iterator[Problem]:
    """Scrapes every URL once into its folder; yields what went wrong."""
    try:
        http = HttpReader(source.access, question.pause)
    except ConfigError as error:
        yield Problem(path=str(source.path), reason=str(error))
        return
    with http:
        for folder, url in source.urls.items():
            try:
                keep_page(http, url, source.path / folder, question.now_ms)
            except (InputError, OSError) as error:
                reason = error.reason if isinstance(error, InputError) else f"cannot be kept: {error}"
                yield Problem(path=shown(url), reason=reason)


def keep_page(http: HttpReader, url: str, folder: Path, now_ms: int) -> None:
    """Reads an exporter's page and keeps it as `<folder>/<epoch ms>.prom`.

    Raises `InputError` where it cannot be read or is no page of metrics, `OSError` where it cannot be kept.
    """
    answer = http.read(url, accept="application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=1")
    if answer.content_type == "text/html" or re.match(r"\s*<(!doctype|html)", answer.text, re.IGNORECASE):
        raise InputError("an HTML page where metrics were expected: is /metrics missing from the URL?", path=shown(url))
    if answer.content_type == "application/openmetrics-text" and not answer.text.rstrip().endswith("# EOF"):
        raise InputError("half a page: OpenMetrics without its # EOF", path=shown(url))
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{now_ms}.partial"
    partial.write_text(answer.text, encoding="utf-8")
    partial.replace(folder / f"{now_ms}.prom")


def probe_page(url: str, access: HttpAccess, pause: Callable[[float], None]) -> Finding:
    """Reads an exporter's page once, for `doctor`."""
    try:
        with HttpReader(access, pause) as http:
            page = http.read(url)
    except (InputError, ConfigError) as error:
        return Finding(name="", is_ok=False, found=str(error), advice="correct the URL or access of the source")
    return Finding(name="", is_ok=True, found=f"{shown(url)}: a page of {len(page.text):,} characters")

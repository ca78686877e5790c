"""`doctor` on sources: each is tried within a short time, and what it will and will not give is told."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from pipeline.config.live_source import LiveCluster
from pipeline.config.metric_sources import METRIC_KINDS, ExporterUrls, Prometheus
from pipeline.errors import ConfigError, InputError, SourceUnreachableError
from pipeline.model.finding import Finding
from pipeline.sources.capabilities import COLUMNS, given_by

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pipeline.config.pipeline_config import Source

_HTTP_TIMEOUT_S = 5.0
_LIVE_TIMEOUT = timedelta(seconds=5)


def examine_source(cluster: str, source: Source) -> Iterator[Finding]:
    """Tries one source.

    Args:
        cluster: Its cluster's name in the configuration.
        source: As configured.
    """
    name = f"{cluster}: {source.kind}"
    findings = list(_examine(name, source))
    yield from findings
    column = _column_of(source)
    if column is not None and all(finding.is_ok for finding in findings):
        gives, lacks = given_by(column)
        yield Finding(name=f"{name}, gives", is_ok=True, found=f"{'; '.join(gives)}. Not: {'; '.join(lacks)}")


def _examine(name: str, source: Source) -> Iterator[Finding]:
    if isinstance(source, LiveCluster):
        yield from _live(name, source)
    elif isinstance(source, Prometheus):
        yield _prometheus(name, source)
    elif isinstance(source, ExporterUrls):
        for url in (*source.producers.values(), *source.brokers.values()):
            yield _exporter(name, source, url)
    else:
        paths: tuple[Path, ...] = getattr(source, "paths", ()) or (source.path,)  # type: ignore[union-attr]
        yield from (_path(name, path) for path in paths)


def _column_of(source: Source) -> str | None:
    """The source's column in the table of what sources give; None for texts that only add to another source."""
    if isinstance(source, LiveCluster) and source.read == "offsets":
        return "live_cluster, read: offsets"
    if source.kind in METRIC_KINDS:
        return "metrics"
    return source.kind if source.kind in COLUMNS else None


def _live(name: str, source: LiveCluster) -> Iterator[Finding]:
    from pipeline.sources.live.checkup import examine_live_cluster  # the client takes 0.2 s

    quick = source.model_copy(update={"connect_timeout": _LIVE_TIMEOUT, "request_timeout": _LIVE_TIMEOUT})
    try:
        for told in examine_live_cluster(quick):
            yield replace(told, name=f"{name}, {told.name}")
    except (SourceUnreachableError, ConfigError) as error:
        advice = "correct the source's addresses or client settings, or see why the brokers are away"
        yield Finding(name=name, is_ok=False, found=str(error), advice=advice)


def _prometheus(name: str, source: Prometheus) -> Finding:
    from pipeline.sources.metrics.prometheus import probe_prometheus

    access = source.access.model_copy(update={"timeout_s": _HTTP_TIMEOUT_S, "attempts": 1})
    try:
        found = probe_prometheus(source.model_copy(update={"access": access}), pause=time.sleep)
    except (InputError, ConfigError) as error:
        return Finding(name=name, is_ok=False, found=str(error), advice="correct url or access of the source")
    return Finding(name=name, is_ok=True, found=found)


def _exporter(name: str, source: ExporterUrls, url: str) -> Finding:
    from pipeline.sources.metrics.http_text import HttpReader, shown

    access = source.access.model_copy(update={"timeout_s": _HTTP_TIMEOUT_S, "attempts": 1})
    try:
        with HttpReader(access, time.sleep) as http:
            page = http.read(url)
    except (InputError, ConfigError) as error:
        return Finding(name=name, is_ok=False, found=str(error), advice="correct the URL or access of the source")
    return Finding(name=name, is_ok=True, found=f"{shown(url)}: a page of {len(page.text):,} characters")


def _path(name: str, path: Path) -> Finding:
    named = sorted(path.parent.glob(path.name))
    if named and not path.exists():
        return Finding(name=name, is_ok=True, found=f"{path}: {len(named):,} files")
    if not path.exists():
        return Finding(name=name, is_ok=False, found=f"{path} is not there", advice="correct the path, or mount it")
    if not os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0)):
        advice = f"let user {os.getuid()} read it"
        return Finding(name=name, is_ok=False, found=f"{path} cannot be read", advice=advice)
    return Finding(name=name, is_ok=True, found=str(path))

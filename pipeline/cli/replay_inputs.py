"""The arguments of `replay` as a configuration: paths, metrics, candidates, and the window that holds the records."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, Field, ValidationError, model_validator

from pipeline.codec.log.segment import scan_headers
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.config.replay import DEFAULT_CANDIDATES, Candidate
from pipeline.config.section import format_problems
from pipeline.config.yaml_file import read_yaml
from pipeline.environment import count_cores
from pipeline.errors import ConfigError, NothingUsableError
from pipeline.model.log_tree import KAFKA_TOPICS, SegmentSummary
from pipeline.model.window import DAY_MS, LATEST_MS, MINUTE_MS, TimeWindow, format_instant
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.kinds import KINDS
from pipeline.sources.metrics.metric_source import MetricSource
from pipeline.sources.records.segment_summary import summarise_partition
from pipeline.storage.engines import is_sail_installed

CLUSTER = "replay"
_MOST_DAYS = 31
_MOST_BEFORE_MS = 5 * MINUTE_MS  # of a longer window the averages of its first minute matter little


class _CandidateFile(BaseModel):
    """A file of candidates: a list, or a mapping that holds one, such as the whole configuration."""

    candidates: tuple[Candidate, ...] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _list(cls, document: object) -> object:
        return {"candidates": document} if isinstance(document, list) else document


@dataclass(frozen=True)
class ReplayInputs:
    paths: tuple[Path, ...]
    sources: tuple[dict[str, Any], ...]  # metric sources, as the configuration has them
    candidates: tuple[Candidate, ...]
    seeds: int
    topics: tuple[str, ...]  # patterns; all topics without any
    span: TimeWindow
    window_ms: int
    as_of_ms: int  # the end of the recording
    # how much before the span is read too, a window or nothing: Kafka's averages hold a part of that
    before_ms: int = 0

    @property
    def read_span(self) -> TimeWindow:
        return TimeWindow(self.span.start_ms - self.before_ms, self.span.end_ms)

    def configure(self, folder: Path) -> PipelineConfig:
        logs = {"kind": "log_directories", "paths": [str(path.resolve()) for path in self.paths]}
        document = {
            "warehouse": folder / "warehouse",
            "outbox": folder / "outbox",
            "window": f"PT{self.window_ms // 1000}S",
            "keys": {"secret": folder / "secret"},
            "candidates": self.candidates,
            "replay": {"seeds": self.seeds},
            "spark": {"engine": "sail"} if is_sail_installed() else {"master": f"local[{count_cores()}]"},
            "clusters": {
                CLUSTER: {
                    "as_of": format_instant(self.as_of_ms),
                    "topics": list(self.topics),
                    "sources": [logs, *self.sources],
                }
            },
        }
        try:
            return PipelineConfig.model_validate(document)
        except ValidationError as error:
            raise ConfigError(format_problems(error, PipelineConfig)) from error


def read_inputs(args: argparse.Namespace) -> ReplayInputs:
    """Reads the options and the logs; `ConfigError` for an option, `NothingUsableError` if no segment has a timestamp."""
    first_ms, last_ms = find_span(args.paths)
    if args.window:
        span = TimeWindow.parse(args.window)
        window_ms = choose_shared_length(span)
    elif last_ms - first_ms > _MOST_DAYS * DAY_MS:
        times = f"{format_instant(first_ms)} to {format_instant(last_ms)}"
        raise ConfigError(f"the records' timestamps go from {times}: say which time to replay with --window")
    else:
        # the shortest window, in whole minutes and starting at a multiple of its length, that holds both instants
        window_ms = max(1, (last_ms - first_ms) // MINUTE_MS) * MINUTE_MS
        while first_ms // window_ms != last_ms // window_ms:
            window_ms += MINUTE_MS
        span = TimeWindow(first_ms, last_ms + 1)
    return ReplayInputs(
        paths=tuple(args.paths),
        sources=tuple(read_metric_source(text) for text in args.metrics),
        candidates=tuple(read_candidates(args.candidates)),
        seeds=args.seeds,
        topics=tuple(args.topics),
        span=span,
        window_ms=window_ms,
        as_of_ms=last_ms + 1,
        before_ms=window_ms if args.window and args.metrics and window_ms <= _MOST_BEFORE_MS else 0,
    )


def find_span(paths: Sequence[Path]) -> tuple[int, int]:
    if gone := [str(path) for path in paths if not path.exists()]:
        raise ConfigError(f"{', '.join(gone)}: there is no such file or folder")
    tree = discover_logs(paths)
    times: list[int] = []
    for directory, partition in tree.iter_partitions():
        if partition.topic in KAFKA_TOPICS:
            continue
        for segment in summarise_partition(directory, partition).segments:
            times += _list_times(segment)
    if not times:
        raise NothingUsableError(f"no record with a timestamp in {', '.join(map(str, paths))}")
    return min(times), max(times)


def _list_times(segment: SegmentSummary) -> list[int]:
    """The smallest and the largest timestamp that a calendar holds; producers may write any."""
    times = [at_ms for at_ms in (segment.min_timestamp_ms, segment.max_timestamp_ms) if at_ms is not None]
    if all(0 <= at_ms <= LATEST_MS for at_ms in times):
        return times
    scan = scan_headers(segment.segment.path, check_crc=False)
    stamps = np.concatenate([scan.min_timestamp_ms, scan.max_timestamp_ms])[np.tile(scan.usable, 2)].astype(np.int64)
    known = stamps[(stamps >= 0) & (stamps <= LATEST_MS)]
    return [int(known.min()), int(known.max())] if len(known) else []


def choose_shared_length(span: TimeWindow) -> int:
    """The longest length of windows that fill a span exactly; `ConfigError` for a span not of whole seconds.

    >>> choose_shared_length(TimeWindow(120_000, 240_000)), choose_shared_length(TimeWindow(60_000, 180_000))
    (120000, 60000)
    """
    if span.start_ms % 1000 or span.end_ms % 1000:
        raise ConfigError(f"--window {span}: expected whole seconds")
    count = 1
    while span.duration_ms % count or span.start_ms % (span.duration_ms // count):
        count += 1
    return span.duration_ms // count


def read_metric_source(text: str) -> dict[str, Any]:
    for name, kind in KINDS.items():
        settings = kind.of_location(text) if issubclass(kind, MetricSource) else None
        if settings is not None:
            return {"kind": name, **settings}
    if not Path(text).exists():
        raise ConfigError(f"--metrics {text}: there is no such file or folder, and it is not a URL")
    raise ConfigError(f"--metrics {text}: it has neither CLIENT/EPOCH_MS.prom nor other metrics")


def read_candidates(path: Path | None) -> Sequence[Candidate]:
    return DEFAULT_CANDIDATES if path is None else read_yaml(path).validate(_CandidateFile).candidates

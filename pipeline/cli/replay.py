"""Replays the traffic of log directories through the current setup and every candidate.

It infers the producers' partitioner and settings; the current setup is a back-test against what was observed. Stores
nothing. PATH is a log directory or a tree that holds several brokers. Figures are medians over the seeds; nine of ten
real runs lie within the ranges. It runs on Sail where the extra `sail` is installed, which starts in a second, else on
Spark on this machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import sys
import tempfile
import textwrap
import uuid
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.cli.terminal import add_json_option, print_answer, show_table, text_width
from pipeline.errors import ConfigError
from pipeline.model.log import fits_topics
from pipeline.model.promise import Trust
from pipeline.model.window import milliseconds_of
from pipeline.tables import Table
from pipeline.tables.replay import BACK_TESTS, REPLAY_BROKERS, REPLAY_RESULTS, SCENARIO_COMPARISON

if TYPE_CHECKING:
    from pipeline.cli.replay_inputs import ReplayInputs
    from pipeline.runs import Row, RunContext

_MOST_SEEDS = 1_000
_TOLD_EVERY_S = 10  # where stderr is no terminal


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="log directory, or tree of several brokers")
    parser.add_argument(
        "--metrics",
        action="append",
        default=[],
        metavar="PATH|URL",
        help="producers' metrics: folder of exporter pages (CLIENT/EPOCH_MS.prom), output of kafka-producer-perf-test, "
        "librdkafka statistics, or the URL of a Prometheus server; may be repeated",
    )
    parser.add_argument("--candidates", type=Path, metavar="FILE", help="YAML with `candidates`; else the default ones")
    parser.add_argument("--seeds", type=int, default=10, metavar="K", help="runs of each candidate (10)")
    parser.add_argument(
        "--window",
        metavar="START/DURATION",
        help="only this time, such as 2026-11-21T09:00:00Z/PT1H; else all there is, as one window. A time that does not "
        "begin at a multiple of its length is replayed in several windows",
    )
    parser.add_argument("--topics", nargs="+", default=[], metavar="PATTERN", help="only these topics")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    if not 1 <= args.seeds <= _MOST_SEEDS:
        raise ConfigError(f"--seeds {args.seeds}; expected 1 to {_MOST_SEEDS}")
    from pipeline.cli.replay_inputs import read_inputs  # Arrow and Numba

    inputs = read_inputs(args)
    with tempfile.TemporaryDirectory(prefix="partition-health-") as folder:
        document = _replay(inputs, Path(folder))
    print_answer(args, document, lambda: format_replay(document))
    return 0


def _replay(inputs: ReplayInputs, folder: Path) -> dict[str, object]:
    from pipeline.jobs import ingest, replay  # Spark
    from pipeline.progress import Progress
    from pipeline.runs import plan_runs
    from pipeline.stages import count_tasks
    from pipeline.storage.engines import running_engine

    config = inputs.configure(folder)
    replay.check(config)
    (read,) = plan_runs(config, inputs.read_span, run_id=f"replay-{uuid.uuid4()}", now_ms=inputs.as_of_ms)
    run = dataclasses.replace(read, windows=tuple(inputs.span.split(inputs.window_ms)))
    progress = Progress(every_s=_TOLD_EVERY_S, report=lambda said: print(said, file=sys.stderr, flush=True))
    with running_engine(config.spark, app_name="replay") as spark:
        with progress.step("reading the records", count_tasks):
            ingested = ingest.run(spark, read)
        with progress.step("replaying them", count_tasks):
            replayed = replay.run(spark, run, run.windows)
    return describe_replay(run, notes=(*ingested.notes, *replayed.notes))


_RANGES = "records_per_batch throughput_records_per_s latency_p50_ms peak_to_mean broker_peak_to_mean lost_record_count"
_COPIED = (
    "topic candidate is_baseline partitioner record_count baseline_records_per_batch keys_moved_ratio bytes_moved_ratio "
    "trust direction_trust batches_trust latency_trust"
)
TRUSTS = {
    "trust": "shares", "direction_trust": "direction", "batches_trust": "records per batch", "latency_trust": "latency",
}  # fmt: skip  # a table: short fields share a line
"""Fields that say whether an answer is trusted, and to what it is the answer."""
_TESTED = (
    "partitioner partitioner_source client confidence runner_up observed_records_per_batch observed_latency_avg_ms "
    "trust batches_trust latency_trust"
)
_ERRORS = {
    "bytes_share_max_pp": "share_error_points", "records_per_batch_ratio": "records_per_batch_ratio",
    "latency_avg_ratio": "latency_avg_ratio", "bytes_share_bar_pp": "share_bar_points",
}  # fmt: skip  # a table: short fields share a line
LOG_BYTES, RECORD_BYTES = "bytes in the log", "bytes of records"
_TOPIC = ("window_start", "topic", "topic_id")


def describe_replay(run: RunContext, *, notes: Sequence[str] = ()) -> Row:
    tests = {_key(row): row for row in run.rows(BACK_TESTS, run.windows)}
    brokers, partitions = _by_candidate(run, REPLAY_BROKERS), _by_candidate(run, REPLAY_RESULTS)
    order = {candidate.name: number for number, candidate in enumerate(run.config.candidates, 1)}
    comparison = sorted(
        (row for row in run.rows(SCENARIO_COMPARISON, run.windows) if fits_topics(row["topic"], run.cluster.topics)),
        key=lambda row: (row["topic"], row["window_start"], row["topic_id"], order.get(row["candidate"], 0)),
    )
    # bytes that shares are of, by topic: bytes in the log if batches were simulated for every candidate, else of records.
    # Compression and batch headers make the two differ: shares of the one are no answer to shares of the other.
    bytes_of: dict[tuple[Any, ...], str] = {}
    for (*key, _), rows in brokers.items():
        if any(row["log_share"] is None and row["share"] is not None for row in rows):
            bytes_of[tuple(key)] = RECORD_BYTES
    results = []
    for row in comparison:
        place, kind = (*_key(row), row["candidate"]), bytes_of.get(_key(row), LOG_BYTES)
        tested = tests.get(_key(row), {})
        document = {
            **{name: row[name] for name in _COPIED.split()},
            "is_as_in_use": bool(row["is_as_in_use"]) or row["is_baseline"],
            "window": str(run.window_at(milliseconds_of(row["window_start"]))),
            "seeds": row["seed_count"] or 0,
            "shares_of": kind,
            "brokers": [{"broker_id": one["broker_id"], **_shares(one, kind)} for one in brokers[place]],
            "partitions": [
                {
                    "partition": one["partition"],
                    **_shares(one, kind),
                    "predicted_record_count": _range(one, "record_count"),
                }
                for one in _with_shares(partitions[place])
            ],
            **{name: _range(row, name) for name in _RANGES.split()},
            "back_test": {name: tested.get(name) for name in _TESTED.split()}
            | {"settings": dict(tested.get("settings") or ())},
            "back_test_error": {name: tested.get(column) for name, column in _ERRORS.items()},
            "assumptions": [text for text in row["assumptions"].split("; ") if text],
        }
        results.append(document)
    return {"window": str(run.span), "results": results, "notes": list(notes)}


def _with_shares(partitions: Sequence[Row]) -> list[Row]:
    def parts(name: str, total_of: str) -> list[float | None]:
        total = sum(row[total_of] or 0 for row in partitions)
        return [(row[name] or 0) / total if total else None for row in partitions]

    columns = {
        "recorded_log_share": parts("recorded_log_size_bytes", "recorded_log_size_bytes"),
        "recorded_share": parts("recorded_size_bytes", "recorded_size_bytes"),
        **{f"share{end}": parts(f"size_bytes{end}", "size_bytes") for end in ("", "_low", "_high")},
    }
    return [row | {name: column[at] for name, column in columns.items()} for at, row in enumerate(partitions)]


def _shares(row: Row, kind: str) -> Row:
    name = "log_share" if kind == LOG_BYTES else "share"
    return {"observed_bytes_share": row[f"recorded_{name}"], "predicted_bytes_share": _range(row, name)}


def _range(row: Row, name: str) -> Row:
    return {"median": row[name], "low": row[f"{name}_low"], "high": row[f"{name}_high"]}


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _TOPIC)


def _by_candidate(run: RunContext, table: Table) -> dict[tuple[Any, ...], list[Row]]:
    grouped: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    last = table.key[-1]
    for row in sorted(run.rows(table, run.windows), key=lambda row: row[last]):
        grouped[(*_key(row), row["candidate"])].append(row)
    return grouped


_NONE, _UNKNOWN = "-", "unknown"
_MOST_BROKERS = 6
_WIDTH = 116


def format_replay(document: Row) -> str:
    parts = [f"window {document['window']}\n"]
    for (topic, window), alike in itertools.groupby(document["results"], key=lambda one: (one["topic"], one["window"])):
        results = list(alike)
        parts.append(_format_topic(results) if results[0]["record_count"] else f"{topic}: no records, {window}\n")
    parts += [f"note: {note}\n" for note in document["notes"]]
    return "\n".join(parts)


def _format_topic(results: Sequence[Row]) -> str:
    first = results[0]
    in_use = next((result for result in results if result["is_baseline"]), first)
    brokers = [one["broker_id"] for one in in_use["brokers"]][:_MOST_BROKERS]
    header = ["", *(f"broker {broker} %" for broker in brokers), "rec/batch", "rec/s", "p50 ms", "moved"]
    observed = {one["broker_id"]: one["observed_bytes_share"] for one in in_use["brokers"]}
    shares = [_percent(observed.get(broker)) for broker in brokers]
    rows = [["observed", *shares, _number(in_use["baseline_records_per_batch"]), _NONE, _NONE, _NONE]]
    rows += [_predicted(result, brokers) for result in results]
    seeds, of = f"{in_use['seeds']} seeds", f"shares of {first['shares_of']}"
    what = f"{first['record_count']:,} records, {first['window']}, {seeds}, {of}"
    table = show_table(header, rows, right=frozenset(range(1, len(header))))
    return f"{first['topic']}: {what}\n{table}{''.join(_describe_trust(in_use, results))}"


def _predicted(result: Row, brokers: Sequence[int]) -> list[str]:
    shares = {one["broker_id"]: one["predicted_bytes_share"] for one in result["brokers"]}
    name = f"back-test: {result['partitioner'] or 'not known'}" if result["is_baseline"] else result["candidate"]
    if result["is_as_in_use"] and not result["is_baseline"]:
        name += " (same as current)"
    return [
        name,
        *(_spread(shares.get(broker)) for broker in brokers),
        _if_trusted(result["records_per_batch"]["median"], result["batches_trust"]),
        _number(result["throughput_records_per_s"]["median"]),
        _if_trusted(result["latency_p50_ms"]["median"], result["latency_trust"]),
        _percent(result["keys_moved_ratio"], unit=" %"),
    ]


def _describe_trust(in_use: Row, results: Sequence[Row]) -> list[str]:
    error = in_use["back_test_error"]
    lines = []
    if error["bytes_share_max_pp"] is not None:
        off, bar = error["bytes_share_max_pp"], error["bytes_share_bar_pp"]
        batches, latency = _number(error["records_per_batch_ratio"]), _number(error["latency_avg_ratio"])
        shares = f"back-test: shares of bytes in the log {off:.1f} points off ({bar:.1f} allowed)"
        lines.append(f"{shares}, records per batch x {batches}, mean latency x {latency}")
    for name, subject in TRUSTS.items():
        lines += [f"{subject}: {in_use[name]}"] if in_use[name] else []
        others = (one for one in results if one[name] not in (None, in_use[name]))
        lines += [f"{one['candidate']}, {subject}: {one[name]}" for one in others]
    lines += [f"assumed: {text}" for text in in_use["assumptions"]]
    width = text_width(_WIDTH)
    return [textwrap.fill(line, width, initial_indent="  ", subsequent_indent="    ") + "\n" for line in lines]


def _if_trusted(value: float | None, trust: str | None) -> str:
    return _number(value) if trust is None or Trust.of(trust) is Trust.TRUSTED else _UNKNOWN


def _spread(share: Row | None) -> str:
    if share is None or share["median"] is None:
        return _NONE
    if share["low"] == share["high"]:
        return _percent(share["median"])
    return f"{_percent(share['median'])} ({_percent(share['low'])}-{_percent(share['high'])})"


def _percent(ratio: float | None, *, unit: str = "") -> str:
    return _NONE if ratio is None else f"{100 * ratio:.1f}{unit}"


def _number(value: float | None) -> str:
    if value is None:
        return _NONE
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"

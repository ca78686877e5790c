"""The replay as text: a table per topic with what was observed, the back-test and the candidates."""

import itertools
import textwrap
from collections.abc import Sequence
from typing import Any

from pipeline.cli.replay_rows import TRUSTS
from pipeline.cli.text_table import show_table, text_width
from pipeline.model.trust import Trust

Row = dict[str, Any]

_NONE, _UNKNOWN = "-", "unknown"
_MOST_BROKERS = 6
_WIDTH = 116


def format_replay(document: Row) -> str:
    """Everything."""
    parts = [f"window {document['window']}\n"]
    for (topic, window), found in itertools.groupby(document["results"], key=lambda one: (one["topic"], one["window"])):
        results = list(found)
        parts.append(_format_topic(results) if results[0]["record_count"] else f"{topic}: no records, {window}\n")
    parts += [f"note: {note}\n" for note in document["notes"]]
    return "\n".join(parts)


def _format_topic(results: Sequence[Row]) -> str:
    first = results[0]
    in_use = next((result for result in results if result["is_baseline"]), first)
    brokers = [one["broker_id"] for one in in_use["brokers"]][:_MOST_BROKERS]
    header = ["", *(f"broker {broker} %" for broker in brokers), "rec/batch", "rec/s", "p50 ms", "moved"]
    rows = [_observed(in_use, brokers)]
    rows += [_predicted(result, brokers) for result in results]
    lines = [
        f"{first['topic']}: {first['record_count']:,} records, {first['window']}, {in_use['seeds']} seeds, shares of {first['shares_of']}\n",
        show_table(header, rows, right=frozenset(range(1, len(header)))),
        *_describe_trust(in_use, results),
    ]
    return "".join(lines)


def _observed(in_use: Row, brokers: Sequence[int]) -> list[str]:
    observed = {one["broker_id"]: one["observed_bytes_share"] for one in in_use["brokers"]}
    shares = [_percent(observed.get(broker)) for broker in brokers]
    return ["observed", *shares, _number(in_use["baseline_records_per_batch"]), _NONE, _NONE, _NONE]


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
    figures = []
    if error["bytes_share_max_pp"] is not None:
        figures.append(
            f"back-test: shares of bytes in the log {error['bytes_share_max_pp']:.1f} points off ({error['bytes_share_bar_pp']:.1f} allowed)"
        )
        figures.append(f"records per batch x {_number(error['records_per_batch_ratio'])}")
        figures.append(f"mean latency x {_number(error['latency_avg_ratio'])}")
    lines = [", ".join(figures)]
    for name, subject in TRUSTS.items():
        lines += [f"{subject}: {in_use[name]}"] if in_use[name] else []
        lines += [
            f"{result['candidate']}, {subject}: {result[name]}" for result in results if result[name] != in_use[name]
        ]
    lines += [f"assumed: {text}" for text in in_use["assumptions"]]
    return [
        textwrap.fill(line, text_width(_WIDTH), initial_indent="  ", subsequent_indent="    ") + "\n"
        for line in lines
        if line
    ]


def _if_trusted(value: float | None, trust: str | None) -> str:
    return _number(value) if trust is None or Trust.of(trust) is Trust.TRUSTED else _UNKNOWN


def _spread(share: Row | None) -> str:
    """75.2 (74.9-75.5)."""
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

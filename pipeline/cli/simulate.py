"""Simulates a producer and its brokers, to predict the effect of another version or setting.

SCENARIO is a built-in one (--list) or a file in YAML (--schema). Every variant is simulated with the same seeds; prints
medians, and the range from 5 % to 95 % of the seeds.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.cli.terminal import add_json_option, print_answer, show_table, text_width
from pipeline.errors import ConfigError
from pipeline.model.number_text import escape_hidden
from pipeline.progress import Progress

if TYPE_CHECKING:  # they load Arrow and Numba
    from pipeline.simulator.scenario.scenario_file import ScenarioFile
    from pipeline.simulator.scenario.scenario_section import Evidence
    from pipeline.simulator.summary import Range, VariantSummary

_SCENARIO_FILE = """\
A scenario file is YAML. Times say their unit; files are looked for in its folder. What is a mapping or a number is a quantity:
a number; quantiles, straight lines between: {0: 0.1, 0.5: 0.2, 0.99: 2, 1: 5}; or its mean where it is exponential:
{exponential: 0.3}. Configs that a version of the client has, but that do not touch partitions, batches or times, are
accepted, with a note.
"""
_MOST_SEEDS = 100_000
_PLOT_FORMATS = ("png", "svg", "pdf")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenario", nargs="?", metavar="SCENARIO", help="a built-in scenario, or a YAML file")
    parser.add_argument("--seeds", type=int, default=20, metavar="K", help="how many seeds (20)")
    parser.add_argument("--first-seed", type=int, default=1, metavar="N", help="the first of them (1)")
    parser.add_argument("--variant", action="append", default=[], metavar="V", help="only this one; may be repeated")
    add_json_option(parser)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="picture of shares and latencies: png, svg or pdf")
    parser.add_argument("--list", action="store_true", help="list the built-in scenarios and stop")
    parser.add_argument("--schema", action="store_true", help="explain the scenario file and stop")


def run(args: argparse.Namespace) -> int:
    from pipeline.simulator.scenario.scenario_file import list_built_ins, load_scenario  # Arrow and Numba

    if args.schema:
        sys.stdout.write(format_schema())
        return 0
    if args.list:
        for one in map(load_scenario, list_built_ins()):
            names = ", ".join(variant.name for variant in one.variants)
            sys.stdout.write(f"{one.name}: {one.summary}\n  variants: {names}\n")
        return 0
    _check_options(args)
    from pipeline.simulator.summary import summarise_variants

    scenario = load_scenario(args.scenario)
    variants = scenario.select(args.variant)
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    done: list[None] = []
    with Progress().step("simulating", lambda: (len(done), len(variants) * len(seeds)), "runs"):
        summaries = summarise_variants(variants, seeds, on_done=lambda: done.append(None))
    if args.plot:
        from pipeline.charts import render_simulation

        try:
            args.plot.write_bytes(render_simulation(scenario, summaries, args.plot.suffix.removeprefix(".").lower()))
        except OSError as error:
            raise ConfigError(f"{args.plot}: {error.strerror}") from error
    # every figure is `{"median", "low", "high"}` over the seeds
    document = {
        "scenario": scenario.name,
        "seeds": list(summaries[0].seeds) if summaries else [],
        "evidence": scenario.evidence.model_dump(mode="json"),
        "variants": [_describe_variant(summary) for summary in summaries],
    }
    print_answer(args, document, lambda: escape_hidden(format_summaries(scenario, summaries), keep="\n"))
    return 0


def format_schema() -> str:
    """Every key of a scenario file, with its type, default and meaning."""
    from pipeline.cli.config import describe_setting, walk_settings
    from pipeline.simulator.scenario.scenario_section import ScenarioSection

    schema = ScenarioSection.model_json_schema()
    return f"{_SCENARIO_FILE}\n{''.join(map(describe_setting, walk_settings(schema, schema)))}"


def _check_options(args: argparse.Namespace) -> None:
    if args.scenario is None:
        raise ConfigError("SCENARIO is missing; --list names the built-in ones")
    if not 1 <= args.seeds <= _MOST_SEEDS:
        raise ConfigError(f"--seeds {args.seeds}; expected 1 to {_MOST_SEEDS}")
    if not 0 <= args.first_seed < 2**62:
        raise ConfigError(f"--first-seed {args.first_seed}; expected 0 or more")
    if args.plot and args.plot.suffix.removeprefix(".").lower() not in _PLOT_FORMATS:
        raise ConfigError(f"--plot {args.plot}; expected a name that ends in .{', .'.join(_PLOT_FORMATS)}")
    if args.plot and not args.plot.absolute().parent.is_dir():
        raise ConfigError(f"{args.plot}: no such folder")


def _describe_variant(summary: VariantSummary) -> dict[str, Any]:
    scenario = summary.variant.scenario
    names = [(topic.name, partition) for topic in scenario.topics for partition in range(len(topic.leaders))]
    led_by = {place: broker.broker_id for place, broker in enumerate(scenario.brokers)}
    return {
        "name": summary.variant.name,
        "clients": list(summary.variant.clients),
        **_describe_figures(summary.run),
        "brokers": [
            {"broker_id": led_by[place], **_describe_figures(figures), "fair_share": round(fair_share, 6)}
            for place, (figures, fair_share) in enumerate(
                zip(summary.brokers, summary.variant.fair_shares, strict=True)
            )
        ],
        "partitions": [
            {"topic": topic, "partition": partition, "broker_id": led_by.get(leader), **_describe_figures(figures)}
            for (topic, partition), leader, figures in zip(names, scenario.leaders, summary.partitions, strict=True)
        ],
        "producers": [
            {"client_id": producer.name, **_describe_figures(figures)}
            for producer, figures in zip(scenario.producers, summary.producers, strict=True)
        ],
        "notes": list(summary.variant.notes),
    }


def _describe_figures(figures: Mapping[str, Range]) -> dict[str, Any]:
    # whole numbers without a point; others to a millionth
    return {
        name: {
            part: (None if value is None else int(value) if float(value).is_integer() else round(value, 6))
            for part, value in figure._asdict().items()
        }
        for name, figure in figures.items()
    }


_MB = 1 << 20
_RUN_HEADER = ("", "records/s", "avg ms", "50th", "95th", "99th", "99.9th", "max")
_BROKER_HEADER = ("broker", "bytes", "share", "records", "batches", "records/batch")
_NONE = "-"
_MOST_PARTITIONS = 16
_WIDTH = 100


def format_summaries(scenario: ScenarioFile, summaries: Sequence[VariantSummary]) -> str:
    from pipeline.simulator.summary import HIGH_PERCENT, LOW_PERCENT

    n = len(summaries[0].seeds)
    title = f"{scenario.name}: {scenario.summary}" if scenario.summary else scenario.name
    seeds = f"{n} seeds: medians, and the range from {LOW_PERCENT} % to {HIGH_PERCENT} %" if n > 1 else "one seed"
    parts = [f"{title}\n{seeds}\n{format_evidence(scenario.evidence)}"]
    parts += [_format_variant(summary) for summary in summaries]
    return "\n".join(parts)


def format_evidence(evidence: Evidence) -> str:
    names = ("reproduced", "not_reproduced", "fitted", "assumed")
    lines = [f"{name.replace('_', ' ')}: {sentence}" for name in names for sentence in getattr(evidence, name)]
    return "".join(textwrap.fill(line, text_width(_WIDTH), subsequent_indent="  ") + "\n" for line in lines)


def _format_variant(summary: VariantSummary) -> str:
    variant = summary.variant
    head = f"== {variant.name}: {variant.summary}" if variant.summary else f"== {variant.name}"
    lines = [head, f"   {'; '.join(variant.clients)}", format_last_line(summary.run)]
    lines += [*(f"note: {note}" for note in variant.notes), *_format_losses(summary)]
    tables = _format_run_table(summary) + _format_broker_table(summary) + _format_partitions(summary)
    return "\n".join(lines) + "\n" + tables


def format_last_line(run: Mapping[str, Range]) -> str:
    """The medians as `kafka-producer-perf-test` prints its last line."""
    from pipeline.simulator.summary import RUN_FIGURES

    records, payload, rate = run["record_count"].median, run["payload_bytes"].median, run[RUN_FIGURES[0]].median
    if not records or rate is None or payload is None:
        return "0 records sent."
    mb_per_s = rate * payload / records / _MB
    average, p50, p95, p99, p999, most = (run[name].median or 0.0 for name in RUN_FIGURES[1:])
    return (
        f"{records:.0f} records sent, {rate:.1f} records/sec ({mb_per_s:.2f} MB/sec), {average:.2f} ms avg latency, "
        f"{most:.2f} ms max latency, {p50:.0f} ms 50th, {p95:.0f} ms 95th, {p99:.0f} ms 99th, {p999:.0f} ms 99.9th."
    )


def _format_run_table(summary: VariantSummary) -> str:
    from pipeline.simulator.summary import RUN_FIGURES

    figures = [summary.run[name] for name in RUN_FIGURES]
    rows = [["simulated", *(_format_run_figure(index, figure.median) for index, figure in enumerate(figures))]]
    if len(summary.seeds) > 1:
        ends = [[_format_run_figure(index, end) for end in (one.low, one.high)] for index, one in enumerate(figures)]
        rows.append(["  range", *map("-".join, ends)])
    return show_table(_RUN_HEADER, rows, right=frozenset(range(1, len(_RUN_HEADER))))


def _format_broker_table(summary: VariantSummary) -> str:
    rows = [
        [
            str(broker.broker_id),
            _format_range(figures["size_bytes"]),
            _format_range(figures["bytes_share"], ".1f", 100, " %"),
            _format_range(figures["record_count"]),
            _format_range(figures["batch_count"]),
            _NONE if (per_batch := figures["records_per_batch"].median) is None else f"{per_batch:.1f}",
        ]
        for broker, figures in zip(summary.variant.scenario.brokers, summary.brokers, strict=True)
    ]
    return show_table(_BROKER_HEADER, rows, right=frozenset(range(1, len(_BROKER_HEADER))))


def _format_partitions(summary: VariantSummary) -> str:
    """Each partition's share of the bytes; nothing where every broker leads one, as the brokers' say the same."""
    scenario = summary.variant.scenario
    shares = [100 * (figures["bytes_share"].median or 0.0) for figures in summary.partitions]
    if len(shares) == len(scenario.brokers):
        return ""
    if len(shares) > _MOST_PARTITIONS:
        empty = sum(figures["record_count"].median == 0 for figures in summary.partitions)
        return f"partitions: {len(shares)}, from {min(shares):.2f} to {max(shares):.2f} % of the bytes, {empty} empty\n"
    names = [(topic.name, partition) for topic in scenario.topics for partition in range(len(topic.leaders))]
    shown = (f"{topic}-{partition} {share:.1f} %" for (topic, partition), share in zip(names, shares, strict=True))
    return f"partitions: {', '.join(shown)}\n"


def _format_losses(summary: VariantSummary) -> list[str]:
    def add(name: str) -> float:
        return sum(figures[name].median or 0.0 for figures in summary.producers)

    failed, refused, blocked_ms = add("failed_record_count"), add("refused_record_count"), add("blocked_ms")
    lines = [f"failed: {failed:,.0f} records expired or were given up"] if failed else []
    lines += [f"refused: {refused:,.0f} records by send()"] if refused else []
    blocked = f"blocked: send() waited {blocked_ms / 1000:,.1f} s in all for buffer.memory"
    return [*lines, blocked] if blocked_ms else lines


def _format_run_figure(index: int, value: float | None) -> str:
    if value is None:
        return _NONE
    if index == 0 or 10 <= value < 100:
        return f"{value:.1f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}"  # milliseconds with as many places as they are worth


def _format_range(figure: Range, spec: str = ",.0f", times: int = 1, unit: str = "") -> str:
    if figure.median is None or figure.low is None or figure.high is None:
        return _NONE
    spread = "" if figure.low == figure.high else f" ({times * figure.low:{spec}}-{times * figure.high:{spec}})"
    return f"{times * figure.median:{spec}}{spread}{unit}"

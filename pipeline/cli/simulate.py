"""`simulate`: what another producer version or setting would do with a traffic, brokers and delays included."""

import argparse
import json
import sys
from pathlib import Path

from pipeline.cli import add_json_option
from pipeline.errors import ConfigError
from pipeline.progress import Progress

_DESCRIPTION = """\
SCENARIO is a built-in one (--list) or a file in YAML (--schema). Every variant is simulated with the same seeds; prints
medians, and the range from 5 % to 95 % of the seeds.
"""
_MOST_SEEDS = 100_000
_PLOT_FORMATS = ("png", "svg", "pdf")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = _DESCRIPTION
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
    from pipeline.simulator.scenario.scenario_section import format_schema

    if args.schema:
        sys.stdout.write(format_schema())
        return 0
    if args.list:
        from pipeline.cli.simulate_document import format_scenarios

        sys.stdout.write(format_scenarios([load_scenario(name) for name in list_built_ins()]))
        return 0
    _check_options(args)
    from pipeline.cli.simulate_document import describe_scenario, format_summaries
    from pipeline.simulator.summary import summarise_variants

    scenario = load_scenario(args.scenario)
    variants = scenario.select(args.variant)
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    done: list[None] = []
    with Progress().step("simulating", lambda: (len(done), len(variants) * len(seeds)), "runs"):
        summaries = summarise_variants(variants, seeds, on_done=lambda: done.append(None))
    if args.plot:
        from pipeline.charts.simulation import render_simulation

        try:
            args.plot.write_bytes(render_simulation(scenario, summaries, args.plot.suffix.removeprefix(".").lower()))
        except OSError as error:
            raise ConfigError(f"{args.plot}: {error.strerror}") from error
    if args.json:
        sys.stdout.write(json.dumps(describe_scenario(scenario, summaries), indent=1, allow_nan=False) + "\n")
    else:
        sys.stdout.write(format_summaries(scenario, summaries))
    return 0


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

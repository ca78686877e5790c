"""Writes the report: what is wrong, since when, what to do, and the data behind all of it.

It reads the tables and changes nothing. Every run of the DAG `health` writes one too.
"""

import argparse
import re
import time
import webbrowser
from pathlib import Path

from pipeline.cli.terminal import add_config_option, print_error
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.config_file import load_config
from pipeline.errors import NothingUsableError
from pipeline.model.window import TimeWindow, milliseconds_of, parse_duration
from pipeline.report.page import gather_report, render_report, write_report
from pipeline.runs import plan_runs


def add_options(parser: argparse.ArgumentParser) -> None:
    add_config_option(parser)
    add = parser.add_mutually_exclusive_group().add_argument
    add("--window", metavar="START/DURATION", help="the period; its newest judged window is shown in full")
    add("--last", metavar="7d", help="how long, up to the newest judged window: 7d, 36h, 90m (default: report.period)")
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster of the configuration")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where it is written; else a file in report.folder")
    parser.add_argument("--open", action="store_true", help="open it in the browser")


def run(args: argparse.Namespace) -> int:
    now_ms = time.time_ns() // 1_000_000  # the command line is where the clock is read
    config = load_config(args.config)
    until_ms, length_ms = _period(config, args.window, args.last, now_ms)
    newest = TimeWindow(until_ms - milliseconds_of(config.window), until_ms)
    reports, missing = [], []
    for run in plan_runs(config, newest, run_id="report", now_ms=now_ms, cluster=args.cluster):
        try:
            reports.append(gather_report(run, until_ms=until_ms, length_ms=length_ms))
        except NothingUsableError as error:
            missing.append(error)
    if not reports:
        raise missing[0]
    for reason in missing:
        print_error(str(reason))
    name = reports[0].cluster if len(reports) == 1 else "all-clusters"
    path = args.output or config.report_path(name, max(report.window_start_ms for report in reports))
    write_report(render_report(reports, now_ms=now_ms, command=config.command("sql")), path)
    print(path)
    if args.open:
        webbrowser.open(path.resolve().as_uri())
    return 0


def _period(config: PipelineConfig, window: str | None, last: str | None, now_ms: int) -> tuple[int, int]:
    default_ms = milliseconds_of(config.report.period)
    if window is not None:
        asked = TimeWindow.parse(window)
        is_one = asked.duration_ms <= milliseconds_of(config.window)
        return asked.end_ms, default_ms if is_one else asked.duration_ms
    if last is None:
        return now_ms, default_ms
    if match := re.fullmatch(r"(\d+)([dhm])", last):  # ISO 8601 writes 7d as P7D
        last = f"P{match[1]}D" if match[2] == "d" else f"PT{match[1]}{match[2].upper()}"
    return now_ms, min(now_ms, milliseconds_of(parse_duration(last)))

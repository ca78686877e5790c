"""Mutes an incident, a broker or a cluster until a date, and lists what is muted."""

import argparse
import difflib
import fnmatch
import time
from contextlib import nullcontext
from pathlib import Path

from pydantic import ValidationError

from pipeline.alerting.mutes import Mute, read_mutes, write_mutes
from pipeline.cli.terminal import add_config_option, add_json_option, print_answer, show_table
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.config.section import format_problems
from pipeline.config_file import load_config
from pipeline.errors import ConfigError
from pipeline.model.number_text import format_name
from pipeline.model.window import milliseconds_of
from pipeline.storage.durability import has_table
from pipeline.storage.locks import holding
from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import table_path
from pipeline.tables.incidents import INCIDENTS

_ANYTHING = "*"


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("incident", nargs="?", metavar="INCIDENT", help="such as K-JKT62CWA; without it the mutes are listed")
    add("--until", metavar="INSTANT", help="a date or an instant, UTC where it has no offset")
    add("--reason", default="", help="reason, shown in the list of mutes")
    add("--cluster", default=_ANYTHING, metavar="PATTERN", help="only clusters like this one")
    add("--subject", default=_ANYTHING, metavar="PATTERN", help="only subjects like this one: 'broker 4'")
    add("--rule", default=_ANYTHING, metavar="PATTERN", help="only rules like this one")
    add("--lift", action="store_true", help="remove the mute of the incident or patterns")
    add_config_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    config = load_config(args.config)
    path = config.mail.mutes
    is_change = args.lift or args.until is not None
    with holding(path.parent, f"{path.name}.lock") if is_change else nullcontext():
        mutes = _change(args, config, path)
    documents = [mute.model_dump() for mute in mutes]
    head = ("until", "incident", "cluster", "rule", "subject", "reason")
    table = show_table(head, [tuple(format_name(one[name]) for name in head) for one in documents])
    print_answer(args, documents, table if mutes else f"nothing is muted in {path}\n")
    return 0


def _change(args: argparse.Namespace, config: PipelineConfig, path: Path) -> tuple[Mute, ...]:
    mutes = read_mutes(path)
    asked = {name: getattr(args, name) or _ANYTHING for name in ("incident", "cluster", "rule", "subject")}
    is_about_something = any(pattern != _ANYTHING for pattern in asked.values())
    if args.lift:
        kept = tuple(mute for mute in mutes if any(getattr(mute, name) != pattern for name, pattern in asked.items()))
        if len(kept) == len(mutes):
            raise ConfigError(f"no such mute in {path}; partition-health mute lists all")
        write_mutes(path, kept)
        mutes = kept
    elif args.until is not None:
        if not is_about_something:
            raise ConfigError("say what to mute: an incident, or --cluster, --subject, --rule")
        if args.incident is not None:
            _check_incident(config, args.incident)
        try:
            mute = Mute(until=args.until, reason=args.reason, **asked)
        except ValidationError as error:
            raise ConfigError(format_problems(error, Mute)) from error
        clocks_ms = [milliseconds_of(cluster.as_of) for cluster in config.clusters.values() if cluster.as_of]
        if milliseconds_of(mute.until) <= min([time.time_ns() // 1_000_000, *clocks_ms]):
            raise ConfigError(f"--until {args.until} is past: no window is muted then")
        mutes = (*mutes, mute)
        write_mutes(path, mutes)
    elif is_about_something:
        raise ConfigError("say until when: --until 2026-12-01 (or --lift)")
    return mutes


def _check_incident(config: PipelineConfig, pattern: str) -> None:
    if not has_table(table_path(config.warehouse, INCIDENTS)):
        return
    known = sorted(set(load_rows(config.warehouse, INCIDENTS, columns=("incident_id",))["incident_id"].to_pylist()))
    if not fnmatch.filter(known, pattern):
        near = ", ".join(difflib.get_close_matches(pattern, known) or known[-3:]) or "none so far"
        raise ConfigError(f"no incident {pattern}; there is {near}")

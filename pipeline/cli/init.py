"""Writes a configuration for a running cluster, and runs the newest window that holds records.

Tries the brokers and Prometheus as `doctor` does, writes nothing if they do not answer, never overwrites a file. On a
terminal it asks for what no option gives, and opens the report.
"""

import argparse
import json
import shlex
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from pipeline.alerting.message import load_templates
from pipeline.cli import PROGRAM, main
from pipeline.cli.doctor import as_text, try_source
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.config.storage import is_remote
from pipeline.config_file import config_path, load_config
from pipeline.errors import ConfigError, HealthGateError
from pipeline.model.window import TimeWindow, format_instant, milliseconds_of, parse_duration
from pipeline.sources.kinds.live_cluster import LiveCluster
from pipeline.sources.source import Source, sources_of

_CLIENT_OPTIONS = {
    "security.protocol": "PLAINTEXT (default), SSL, SASL_PLAINTEXT or SASL_SSL",
    "sasl.mechanism": "such as SCRAM-SHA-512",
    "sasl.username": "login",
    "sasl.password_variable": "environment variable that holds the password",
    "sasl.oauthbearer.token.endpoint.url": "where tokens come from, for OAUTHBEARER",
    "ssl.truststore.location": "PEM file of the authorities to trust; else the system's",
    "ssl.keystore.location": "PEM file of a client certificate, for mutual TLS",
    "ssl.key.location": "PEM file of its key, where that is a file of its own",
}
_SICK_EXIT_CODE = 2
_POINTS = 12  # of a window: fewer do not show that a broker's metrics stayed away
_LOOK_BACK = 24  # windows in which traffic is looked for


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--config", type=Path, metavar="FILE", help="file to write (default: partition-health.yaml)")
    add("--bootstrap-servers", metavar="HOST:PORT,…", help="brokers to ask first")
    add("--prometheus", metavar="URL", help='Prometheus server that scrapes the cluster; "" for none')
    add("--name", default="kafka", help="the cluster's name in tables and mails (default: %(default)s)")
    add("--warehouse", metavar="FOLDER", help="folder of the tables (default: next to FILE)")
    add("--window", metavar="DURATION", default="PT1H", help="length of a window (default: %(default)s)")
    client = parser.add_argument_group("how to connect", "Kafka's settings; certificates and keys are PEM files")
    for name, meaning in _CLIENT_OPTIONS.items():
        option = "--" + name.replace(".", "-").replace("_", "-")
        client.add_argument(option, dest=name, metavar="VALUE", help=meaning)
    add("--no-run", action="store_true", help="only write the file")


def run(args: argparse.Namespace) -> int:
    path = (args.config or config_path()).resolve()
    if path.exists():
        raise ConfigError(f"{path} exists, and is not overwritten: remove it, or name another file by --config FILE")
    ask = input if sys.stdin.isatty() else None
    bootstrap, url = args.bootstrap_servers, args.prometheus
    if not bootstrap and ask:
        bootstrap = ask("Kafka brokers (host:port, several with commas): ").strip()
    if not bootstrap:
        raise ConfigError("which brokers? --bootstrap-servers HOST:PORT")
    if url is None:
        url = ask("Prometheus that scrapes them (URL, empty for none): ").strip() if ask else ""
    client = {name: value for name in _CLIENT_OPTIONS if (value := getattr(args, name)) is not None}
    folder = args.warehouse or f"{PROGRAM}-data"
    if is_remote(folder):
        where = "init starts on this machine; docs/SCALE.md says what to write for a bucket"
        raise ConfigError(f"--warehouse {folder}: {where}")
    text = format_config(args.name, bootstrap, url, client, warehouse=Path(folder), window=args.window)
    if not _publish(text, path):
        print(f"{path} is not written: correct the address or the options, see {PROGRAM} init --help", file=sys.stderr)
        return _SICK_EXIT_CODE
    print(f"wrote {path}\n", flush=True)
    if args.no_run:
        print(f"next: {PROGRAM} run --config {shlex.quote(str(path))}")
        return 0
    window = _choose_window(load_config(path), time.time_ns() // 1_000_000)
    if window is None:
        return 0
    code = main(["run", "--config", str(path), "--window", str(window)])
    if code in (0, HealthGateError.exit_code):
        main(["report", "--config", str(path), *(["--open"] if ask else [])])
    return code


def _choose_window(config: PipelineConfig, now_ms: int) -> TimeWindow | None:
    """The newest window that is over and holds records; None, and a sentence, where the last ones hold none."""
    from pipeline.cli.run import last_window
    from pipeline.sources.live.admin import find_newest_traffic

    last = last_window(config, now_ms)
    looked_at = TimeWindow(last.end_ms - _LOOK_BACK * last.duration_ms, last.end_ms)
    windows = list(looked_at.split(last.duration_ms))[::-1]
    for cluster in config.clusters.values():
        for source in sources_of(cluster, LiveCluster):
            newest = find_newest_traffic(source, windows)
            if newest is not None:
                return newest
    next_ms = now_ms - now_ms % last.duration_ms + last.duration_ms  # the window that holds this moment
    due = format_instant(next_ms + milliseconds_of(config.grace))
    print(
        f"no records in the last {_LOOK_BACK} windows; the next one ends at {format_instant(next_ms)}: from {due} on "
        f"`{config.command('run')}` judges it"
    )
    return None


def format_config(
    name: str, bootstrap: str, prometheus: str, client: Mapping[str, str], *, warehouse: Path, window: str
) -> str:
    seconds = parse_duration(window).total_seconds() if prometheus else 0
    is_short = 0 < seconds < _POINTS * 30  # for the default between points
    environment = load_templates("pipeline.cli", keep_trailing_newline=True)
    # a JSON string is a YAML scalar, whatever it holds
    environment.filters["quote"] = lambda value: json.dumps(str(value), ensure_ascii=False)
    return environment.get_template("partition-health.yaml.j2").render(
        name=name,
        bootstrap=bootstrap,
        prometheus=prometheus,
        client=client,
        warehouse=warehouse,
        window=window,
        step_s=max(5, int(seconds / _POINTS)) if is_short else None,
    )


def _publish(text: str, path: Path) -> bool:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=path.name, encoding="utf-8") as draft:
        draft.write(text)
        draft.flush()
        try:
            config = load_config(Path(draft.name))
        except ConfigError as error:
            raise ConfigError(str(error).replace(draft.name, str(path))) from error
    is_ok = True
    for name, cluster in config.clusters.items():
        for source in sources_of(cluster, Source):
            for finding in try_source(name, source):
                is_ok &= finding.is_ok
                print(as_text(finding), end="", flush=True)
    if is_ok:
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError as error:
            raise ConfigError(f"{path} was written meanwhile, and is not overwritten") from error
    return is_ok

"""Reads new batches in a broker's own log directories, from where it last stopped, for a run elsewhere.

It writes batches, sums by key id, arrivals and leaders to a landing folder; a source of kind `collected` reads them. It
uses the deployment's configuration (window, keys, topics) and secret. It writes nothing to the log directories. Call it
once per window.
"""

import argparse
import math
import os
import time
import uuid
from pathlib import Path

import pyarrow as pa

from pipeline.cli.terminal import add_config_option, add_json_option, fields_of, print_answer
from pipeline.config.storage import is_remote
from pipeline.config_file import load_config
from pipeline.errors import ConfigError
from pipeline.model.window import milliseconds_of, parse_duration, parse_instant
from pipeline.sources.collected.collector import CollectRequest, RateLimit, collect
from pipeline.sources.collected.stored_folder import StoredFolder

_MB = 1_000_000


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("paths", nargs="+", type=Path, metavar="PATH", help="log directory, or a tree of them")
    add("--to", required=True, metavar="FOLDER", help="landing folder, or s3a://bucket/path")
    add_config_option(parser)
    add("--cluster", metavar="NAME", help="of the configuration; needed where it has several")
    add("--host", default="", metavar="NAME", help="name of this host's folder; else its brokers' ids")
    add("--rate", type=float, default=50, metavar="MB", help="read at most this many MB/s (default 50)")
    add("--keep", type=parse_duration, default="P7D", metavar="TIME", help="delete parts after this time (default P7D)")
    add("--as-of", type=parse_instant, metavar="TIME", help="the present time of a recording")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    os.nice(19)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    config = load_config(args.config)
    names = list(config.clusters)
    cluster = args.cluster or (names[0] if len(names) == 1 else None)
    if cluster not in names:
        raise ConfigError(f"--cluster: expected one of {', '.join(names)}")
    if not 0 < args.rate * _MB < math.inf:
        raise ConfigError(f"--rate {args.rate:g}: expected a number above 0")
    request = CollectRequest(
        paths=args.paths,
        config=config,
        cluster=cluster,
        host=args.host,
        keep_ms=milliseconds_of(args.keep),
        as_of_ms=time.time_ns() // 1_000_000 if args.as_of is None else milliseconds_of(args.as_of),
        run_id=uuid.uuid4().hex,
    )
    landing = StoredFolder(args.to if is_remote(args.to) else str(Path(args.to).absolute()), config.storage)
    rate_limit = RateLimit(bytes_per_s=math.ceil(args.rate * _MB), clock=time.monotonic, pause=time.sleep)
    done = collect(request, landing, rate_limit)
    written, by_kind = sum(done.written_bytes.values()), dict(sorted(done.written_bytes.items()))
    ratio = written / done.read_bytes if done.read_bytes else None
    document = fields_of(done, "host partition_count read_bytes")
    document |= {"written_bytes": written, "written_by_kind": by_kind, "written_ratio": ratio}
    document["problem_count"] = done.problem_count
    lines = [f"{done.host}: {done.partition_count} partitions led, {done.read_bytes:,} bytes of log read"]
    lines.append(f"{written:,} bytes written" + ("" if ratio is None else f", {1000 * ratio:.2f} MB per GB"))
    lines += [f"  {size:>12,}  {kind}" for kind, size in by_kind.items()]
    lines += [f"{done.problem_count} problems; the run that reads them lists them"] if done.problem_count else []
    print_answer(args, document, "\n".join(lines) + "\n")
    return 0

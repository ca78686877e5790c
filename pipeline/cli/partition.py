"""`partition`: which partition each client would choose for a key."""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline.cli.options import add_json_option
from pipeline.cli.partition_text import (
    Choice,
    describe_choice,
    format_choices,
    format_comparison,
    format_key,
    format_strategies,
)
from pipeline.errors import ConfigError, InputError, NothingUsableError
from pipeline.partitioners.custom import check_determinism
from pipeline.partitioners.registry import STRATEGIES, find_strategy
from pipeline.partitioners.strategy import Strategy, check_partition_count, choose_partition

ALL = "all"
_DESCRIPTION = """\
KEY is text, or bytes as hex:6b6579; text: before it keeps a text that begins with either. '' is the empty key, --null a
record without a key; -- goes before keys that begin with a dash. "-" in place of a partition: it does not depend on
the key.
"""
_CHECKED_KEYS = 1000
_KERNELS_FROM_KEYS = 200  # below, plain Python is done before Numba is imported


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.description = _DESCRIPTION
    parser.add_argument("keys", nargs="*", metavar="KEY", help="text, or hex:…")
    parser.add_argument("--null", action="store_true", help="also a record without a key")
    parser.add_argument(
        "--keys-file", type=Path, metavar="F", help="a key in hex per line; an empty line is the empty key"
    )
    parser.add_argument(
        "--strategy",
        action="append",
        metavar="S",
        help="name of a strategy, or your own function as module:name; may be repeated; `all` compares",
    )
    parser.add_argument("--partitions", type=int, metavar="N", help="partitions of the topic")
    parser.add_argument("--strategies", action="store_true", help="list the strategies and stop")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the partitions."""
    if args.strategies:
        sys.stdout.write(format_strategies(as_json=args.json))
        return 0
    if not args.strategy or args.partitions is None:
        raise ConfigError("--strategy and --partitions are needed; --strategies lists the names")
    check_partition_count(args.partitions)
    is_comparison = ALL in args.strategy
    strategies = list(STRATEGIES.values()) if is_comparison else [find_strategy(name) for name in args.strategy]
    keys = _list_keys(args)
    _check_functions(strategies, keys, args.partitions)
    choices = list(choose_all(keys, strategies, args.partitions))
    _report_refusals(choices)
    if args.json:
        sys.stdout.write(json.dumps([describe_choice(choice, args.partitions) for choice in choices], indent=1) + "\n")
    else:
        sys.stdout.write(format_comparison(choices) if is_comparison else format_choices(choices))
    return 0


def parse_key(text: str) -> bytes:
    r"""The bytes of a key as given on the command line.

    Raises:
        ConfigError: After `hex:` comes no hex.

    >>> parse_key("hex:00ff"), parse_key("text:hex:00"), parse_key("")
    (b'\x00\xff', b'hex:00', b'')
    """
    if text.startswith("text:"):
        return os.fsencode(text.removeprefix("text:"))
    if not text.startswith("hex:"):
        return os.fsencode(text)
    try:
        return bytes.fromhex(text.removeprefix("hex:"))
    except ValueError as error:
        raise ConfigError(f"{text!r} is not hex; expected pairs of 0-9 and a-f after hex:") from error


def read_keys_file(path: Path) -> Iterator[bytes | InputError]:
    """Reads a key per line, in hex.

    Yields:
        The key, or what is wrong with its line.

    Raises:
        ConfigError: The file cannot be read.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    for number, line in enumerate(lines, start=1):
        try:
            yield bytes.fromhex(line.decode("ascii"))
        except ValueError:
            yield InputError("not hex; expected pairs of 0-9 and a-f", path=path, position=number, first_bytes=line)


def choose_all(keys: Sequence[bytes | None], strategies: Sequence[Strategy], partition_count: int) -> Iterator[Choice]:
    """The choices of each strategy for each key, key after key."""
    if len(keys) < _KERNELS_FROM_KEYS:
        for key in keys:
            for strategy in strategies:
                yield _choose(key, strategy, partition_count)
        return
    import pyarrow as pa  # a second that few keys need not wait for

    from pipeline.partitioners.assignment import REFUSED_KEY, assign_partitions

    column = pa.array(keys, pa.large_binary())
    columns = [assign_partitions(strategy, column, partition_count).tolist() for strategy in strategies]
    for row, key in enumerate(keys):
        for strategy, partitions in zip(strategies, columns, strict=True):
            partition = partitions[row]
            if partition == REFUSED_KEY:
                yield _choose(key, strategy, partition_count)
            else:
                yield Choice(key, strategy, None if partition < 0 else partition)


def _check_functions(strategies: Sequence[Strategy], keys: Sequence[bytes | None], partition_count: int) -> None:
    sample = [key for key in keys if key is not None][:_CHECKED_KEYS]
    for strategy in strategies:
        if strategy.function is not None:
            check_determinism(strategy, sample, partition_count)


def _choose(key: bytes | None, strategy: Strategy, partition_count: int) -> Choice:
    try:
        return Choice(key, strategy, choose_partition(strategy, key, partition_count))
    except InputError as error:
        return Choice(key, strategy, None, error.reason)


def _list_keys(args: argparse.Namespace) -> list[bytes | None]:
    keys: list[bytes | None] = [parse_key(text) for text in args.keys]
    if args.null:
        keys.append(None)
    if args.keys_file is not None:
        for key in read_keys_file(args.keys_file):
            if isinstance(key, InputError):
                print(f"skipped: {key}", file=sys.stderr)
            else:
                keys.append(key)
        if not keys:
            raise NothingUsableError(f"{args.keys_file}: no key in it")
    if not keys:
        raise ConfigError("no key; expected KEY, --null or --keys-file")
    return keys


def _report_refusals(choices: Sequence[Choice]) -> None:
    for choice in choices:
        if choice.reason:
            print(f"{choice.strategy.name}: {format_key(choice.key)}: {choice.reason}", file=sys.stderr)

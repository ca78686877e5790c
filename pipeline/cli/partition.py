"""Says which partition each client would choose for a key.

KEY is text, or bytes as hex:6b6579; text: before it keeps a text that begins with either. '' is the empty key, --null a
record without a key; -- goes before keys that begin with a dash. "-" in place of a partition: it does not depend on the
key.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pipeline.cli.terminal import add_json_option, fields_of, print_answer, show_table
from pipeline.errors import ConfigError, InputError, NothingUsableError
from pipeline.partitioners.registry import STRATEGIES, check_determinism, find_strategy
from pipeline.partitioners.strategy import Strategy, check_partition_count, choose_partition

ALL = "all"
_CHECKED_KEYS = 1000
_KERNELS_FROM_KEYS = 200  # below, plain Python is done before Numba is imported


class Choice(NamedTuple):
    key: bytes | None
    strategy: Strategy
    partition: int | None
    reason: str = ""


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("keys", nargs="*", metavar="KEY", help="text, or hex:…")
    add("--null", action="store_true", help="also a record without a key")
    add("--keys-file", type=Path, metavar="F", help="a key in hex per line; an empty line is the empty key")
    add(
        "--strategy",
        action="append",
        metavar="S",
        help="name of a strategy, or your own function as module:name; may be repeated; `all` compares",
    )
    add("--partitions", type=int, metavar="N", help="partitions of the topic")
    add("--strategies", action="store_true", help="list the strategies and stop")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    if args.strategies:
        print_answer(args, [_describe(strategy) for strategy in STRATEGIES.values()], format_strategies)
        return 0
    if not args.strategy or args.partitions is None:
        raise ConfigError("--strategy and --partitions are needed; --strategies lists the names")
    check_partition_count(args.partitions)
    is_comparison = ALL in args.strategy
    strategies = list(STRATEGIES.values()) if is_comparison else [find_strategy(name) for name in args.strategy]
    keys = _list_keys(args)
    for strategy in strategies:
        if strategy.function is not None:
            check_determinism(strategy, [key for key in keys if key is not None][:_CHECKED_KEYS], args.partitions)
    choices = list(choose_all(keys, strategies, args.partitions))
    for choice in choices:
        if choice.reason:
            print(f"{choice.strategy.name}: {format_key(choice.key)}: {choice.reason}", file=sys.stderr)
    described = [
        {"key_hex": None if c.key is None else c.key.hex(), "strategy": c.strategy.name}
        | {"partitions": args.partitions, "partition": c.partition}
        for c in choices
    ]
    print_answer(args, described, partial(format_comparison if is_comparison else format_choices, choices))
    return 0


def parse_key(text: str) -> bytes:
    r"""The bytes of a key as given on the command line; `ConfigError` if no hex comes after `hex:`.

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


def choose_all(keys: Sequence[bytes | None], strategies: Sequence[Strategy], partition_count: int) -> Iterator[Choice]:
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


def _choose(key: bytes | None, strategy: Strategy, partition_count: int) -> Choice:
    try:
        return Choice(key, strategy, choose_partition(strategy, key, partition_count))
    except InputError as error:
        return Choice(key, strategy, None, error.reason)


def _list_keys(args: argparse.Namespace) -> list[bytes | None]:
    keys: list[bytes | None] = [parse_key(text) for text in args.keys]
    if args.null:
        keys.append(None)
    if (path := args.keys_file) is not None:
        try:
            lines = path.read_bytes().splitlines()
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from error
        for number, line in enumerate(lines, start=1):
            try:
                keys.append(bytes.fromhex(line.decode("ascii")))
            except ValueError:
                reason = "not hex; expected pairs of 0-9 and a-f"
                wrong = InputError(reason, path=path, position=number, first_bytes=line)
                print(f"skipped: {wrong}", file=sys.stderr)
        if not keys:
            raise NothingUsableError(f"{path}: no key in it")
    if not keys:
        raise ConfigError("no key; expected KEY, --null or --keys-file")
    return keys


def format_key(key: bytes | None) -> str:
    r"""A key for people: its text where that can be printed, else hex.

    >>> format_key(b"kafka"), format_key(b"\xff"), format_key(None), format_key(b"")
    ('kafka', 'hex:ff', '(null)', '(empty)')
    """
    if not key:
        return "(null)" if key is None else "(empty)"
    try:
        text = key.decode("utf-8")
    except UnicodeDecodeError:
        return f"hex:{key.hex()}"
    return text if text.isprintable() and text == text.strip() else f"hex:{key.hex()}"


def _format_partition(choice: Choice) -> str:
    if choice.reason:
        return "refused"
    return "-" if choice.partition is None else str(choice.partition)


def _explain(choice: Choice) -> str:
    if choice.reason or choice.partition is not None:
        return choice.reason
    keyless = choice.strategy.keyless
    return choice.strategy.differs if keyless is None else keyless.summary


def format_choices(choices: Sequence[Choice]) -> str:
    rows = [[format_key(c.key), c.strategy.name, _format_partition(c), _explain(c)] for c in choices]
    return show_table(["key", "strategy", "partition", ""], rows, right=frozenset({2}))


def format_comparison(choices: Sequence[Choice]) -> str:
    rows = []
    order = {key: index for index, key in enumerate(dict.fromkeys(choice.key for choice in choices))}
    before = None
    for choice in sorted(
        choices, key=lambda one: (order[one.key], -1 if one.partition is None else one.partition, bool(one.reason))
    ):
        head = (format_key(choice.key), _format_partition(choice))
        rows.append([*(head if head != before else ("", "")), choice.strategy.name, choice.strategy.client])
        before = head
    return show_table(["key", "partition", "strategy", "client"], rows, right=frozenset({1}))


def format_strategies() -> str:
    rows = []
    for strategy in STRATEGIES.values():
        for index, use in enumerate(strategy.uses):
            head = [strategy.name, strategy.client] if index == 0 else ["", ""]
            source = strategy.source if index == 0 else ""
            versions = f"{use.since} on" if use.since else "all"
            if use.before:  # the end of the range is excluded
                versions = f"{use.since} to before {use.before}" if use.since else f"before {use.before}"
            rows.append([*head, versions, "default" if use.is_default else "", use.setting, source])
    return show_table(["strategy", "client", "versions", "", "setting", "source"], rows)


def _describe(strategy: Strategy) -> dict[str, object]:
    keyless = strategy.keyless
    return {
        "strategy": strategy.name,
        "client": strategy.client,
        "uses": [fields_of(use, "setting since before is_default") for use in strategy.uses],
        "source": strategy.source,
        "hash": None if strategy.hash is None else strategy.hash.value,
        "mask": None if strategy.hash is None else strategy.mask.value,
        "hashes": None if strategy.hash is None else strategy.form.value,
        "null_key": strategy.rule_of(None).value,
        "empty_key": strategy.rule_of(b"").value,
        "availability": strategy.availability.value,
        "keyless": None if keyless is None else keyless.summary,
        "simulated": None if keyless is None or not keyless.simulated else keyless.simulated,
        "differs": strategy.differs,
    }

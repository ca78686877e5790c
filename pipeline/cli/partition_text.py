"""Formats the output of `partition`: choices and strategies, as text and as JSON."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from pipeline.cli.text_table import show_table
from pipeline.partitioners.registry import STRATEGIES
from pipeline.partitioners.strategy import Strategy, Use


class Choice(NamedTuple):
    """A strategy's choice for a key; `reason` explains why there is no partition."""

    key: bytes | None
    strategy: Strategy
    partition: int | None
    reason: str = ""


def describe_choice(choice: Choice, partition_count: int) -> dict[str, str | int | None]:
    """A choice for JSON; without a reason, which goes to stderr."""
    return {
        "key_hex": None if choice.key is None else choice.key.hex(),
        "strategy": choice.strategy.name,
        "partitions": partition_count,
        "partition": choice.partition,
    }


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
    """A line per choice, with how it is done where the key does not decide."""
    rows = [[format_key(c.key), c.strategy.name, _format_partition(c), _explain(c)] for c in choices]
    return show_table(["key", "strategy", "partition", ""], rows, right=frozenset({2}))


def format_comparison(choices: Sequence[Choice]) -> str:
    """A line per key and strategy, those that agree together."""
    rows = []
    order = {key: place for place, key in enumerate(dict.fromkeys(choice.key for choice in choices))}

    def place(choice: Choice) -> tuple[int, int, bool]:
        return order[choice.key], -1 if choice.partition is None else choice.partition, bool(choice.reason)

    before = None
    for choice in sorted(choices, key=place):
        head = (format_key(choice.key), _format_partition(choice))
        rows.append([*(head if head != before else ("", "")), choice.strategy.name, choice.strategy.client])
        before = head
    return show_table(["key", "partition", "strategy", "client"], rows, right=frozenset({1}))


def format_strategies(*, as_json: bool) -> str:
    """Every strategy, its settings and versions, its source."""
    if as_json:
        return json.dumps([_describe(strategy) for strategy in STRATEGIES.values()], indent=1) + "\n"
    rows = []
    for strategy in STRATEGIES.values():
        for index, use in enumerate(strategy.uses):
            head = [strategy.name, strategy.client] if index == 0 else ["", ""]
            source = strategy.source if index == 0 else ""
            rows.append([*head, _format_versions(use), "default" if use.is_default else "", use.setting, source])
    return show_table(["strategy", "client", "versions", "", "setting", "source"], rows)


def _format_versions(use: Use) -> str:
    """A version range, the end of it excluded."""
    if use.before:
        return f"{use.since} to before {use.before}" if use.since else f"before {use.before}"
    return f"{use.since} on" if use.since else "all"


def _describe(strategy: Strategy) -> dict[str, object]:
    keyless = strategy.keyless
    return {
        "strategy": strategy.name,
        "client": strategy.client,
        "uses": [
            {"setting": use.setting, "since": use.since, "before": use.before, "is_default": use.is_default}
            for use in strategy.uses
        ],
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

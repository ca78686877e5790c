"""Numbers of a scenario file: times with their unit, distributions, values by time."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import ConfigError
from pipeline.simulator.clients.client import MS, SECOND
from pipeline.simulator.scenario.distribution import Distribution, Steps

if TYPE_CHECKING:
    from pipeline.simulator.scenario.yaml_entries import Entry

_MOST_S = 10 * 365 * 86_400


def parse_seconds(entry: Entry, least: float = 0) -> int:
    """Seconds as whole nanoseconds.

    Raises:
        ConfigError: It is no number, or too small or large.
    """
    return round(entry.number(least=least, most=_MOST_S) * SECOND)


def parse_distribution(entry: Entry, unit: int = 1, least: float = 0) -> Distribution:
    """A number, quantiles (`{0: 0.1, 0.5: 0.2, 1: 3}`), or `{exponential: mean}`.

    Args:
        entry: As written.
        unit: Whole numbers in one.
        least: Smallest value that makes sense.

    Returns:
        The distribution of whole numbers.

    Raises:
        ConfigError: It is none of these, or quantiles do not rise from 0 to 1.
    """
    if not entry.is_mapping:
        return Distribution.constant(round(entry.number(least=least, most=_MOST_S) * unit))
    keys = entry.mapping()
    if "exponential" in keys:
        only = entry.mapping(("exponential",))["exponential"]
        return Distribution.exponential(max(1, round(only.number(least=least, most=_MOST_S) * unit)))
    points = []
    for name, value in keys.items():
        try:
            probability = float(name)
        except ValueError:
            raise value.error(f"found {name}; expected a probability from 0 to 1, or exponential") from None
        points.append((probability, round(value.number(least=least, most=_MOST_S) * unit)))
    is_rising = all(p < q and a <= b for (p, a), (q, b) in pairwise(points))
    if not points or points[0][0] != 0 or points[-1][0] != 1 or not is_rising:
        raise entry.error("quantiles must rise from probability 0 to 1, and their values with them")
    return Distribution(tuple(points))


def parse_steps_ms(entry: Entry) -> Steps:
    """Milliseconds over time.

    A constant; a schedule, `[{at_s: 0, ms: 0}, {at_s: 30, ms: 20}]`; an even series, `{every_s: 1, ms: [0, 3, 20]}`; or a
    recorded one, `{file: delays.csv}` with columns at_s and ms, beside the scenario.

    Raises:
        ConfigError: It is none of these, or its times do not rise from 0.
    """
    if entry.is_list:
        rows = [item.mapping(needed=("at_s", "ms")) for item in entry.items()]
        return _make_steps(entry, [(parse_seconds(row["at_s"]), parse_ms(row["ms"])) for row in rows])
    if not entry.is_mapping:
        return Steps.constant(parse_ms(entry))
    keys = entry.mapping(("every_s", "ms", "file"))
    if "file" in keys:
        return _make_steps(entry, _read_series(keys["file"]))
    keys = entry.mapping(needed=("every_s", "ms"))
    every_ns = parse_seconds(keys["every_s"], least=1e-6)
    return _make_steps(entry, [(place * every_ns, parse_ms(item)) for place, item in enumerate(keys["ms"].items())])


def parse_ms(entry: Entry) -> int:
    """Milliseconds as whole nanoseconds.

    Raises:
        ConfigError: It is no number, or too small or large.
    """
    return round(entry.number(most=86_400_000) * MS)


def find_file(entry: Entry) -> Path:
    """A file that is named beside the scenario file.

    Raises:
        ConfigError: There is none.
    """
    path = Path(entry.file).parent / entry.text()
    if not path.is_file():
        raise entry.error(f"no file {path}")
    return path


def _make_steps(entry: Entry, rows: list[tuple[int, int]]) -> Steps:
    try:
        return Steps(tuple(start for start, _ in rows), tuple(value for _, value in rows))
    except ConfigError as error:
        raise entry.error(str(error)) from error


def _read_series(entry: Entry) -> list[tuple[int, int]]:
    path = find_file(entry)
    rows = []
    with path.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        for row in reader:
            try:
                at_s, delay_ms = float(row["at_s"]), float(row["ms"])
            except (KeyError, TypeError, ValueError) as error:
                raise ConfigError(f"{path}:{reader.line_num}: expected numbers in columns at_s and ms") from error
            if not (0 <= at_s <= _MOST_S and 0 <= delay_ms <= _MOST_S):
                raise ConfigError(f"{path}:{reader.line_num}: {at_s:g} s, {delay_ms:g} ms; expected 0 or more")
            rows.append((round(at_s * SECOND), round(delay_ms * MS)))
    return rows

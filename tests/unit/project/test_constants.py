"""The paper of constants: each exists and has the value printed, and none is missing."""

import ast
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from pkgutil import resolve_name

import pytest

ROOT = Path(__file__).parents[3]
PAPER = ROOT / "docs/evidence/constants.md"
ROWS = re.findall(r"^\| `([\w.]+)\.(\w+)` \| ([\d./]+|several) \| ([^|]+) \|", PAPER.read_text(), re.MULTILINE)
KINDS = ("Kafka", "measured", "fitted", "by hand", "derived")
ROOMS = ("pipeline/calibration", "pipeline/replay")
STRUCTURE = {
    *("BLOCK_RECORDS", "_ITEM_BYTES", "_BLOCK", "_SALT_FACTOR", "_AT_BITS", "_HASH_BITS", "_PARTITION_BITS", "_SEED_BITS", "_ONE"),
    *("_BINS", "_OUTPUT", "COUNTS", "TIED", "NO_KEY", "_BY_BATCH", "CELLS", "STAYS", "_STAYS", "_UNKNOWN", "NO_HASHES", "_NO_CELLS"),
    *("_SEVERAL", "_NOWHERE", "_PLAIN", "_EMPTY", "_HASHLESS", "RECORDS", "BYTES", "KEYS", "_NO_BUCKET", "_WITHIN_MS_SEED"),
    *("JOINS", "CHANGES", "CHANGES_JOINING", "STAYS_BELOW_BYTES", "CHANGES_BELOW_BYTES", "STAYS_BEYOND_BYTES"),
    *("CHANGES_BEYOND_BYTES", "GOES_ON_BELOW_MS", "CHANGES_BELOW_MS", "GOES_ON_BEYOND_MS", "CHANGES_BEYOND_MS"),
    *("HEADER_BYTES", "_BATCH_HEADER_BYTES", "LENGTH_BYTES"),
    *("TOP_KEY_COUNT", "TOP_KEYS_LISTED", "SHORT_ID", "KEY_ID_DIGITS", "_LISTED", "_MOST_SETTINGS"),
    *("SLOTS", "MOST_PARTITIONS", "MOST_QUEUES", "MOST_SESSIONS", "_SESSION_RECORDS", "_TRIAL_RECORDS", "_RUN_RECORDS", "_TASKS_PER_CORE"),
    "RUNNING_COSTS",
}  # fmt: skip
"""Numbers that say how work is laid out or a format's own: codes, sizes of blocks, bits, what a task costs, digits shown."""


def list_numbers(source):
    """Names at the top of a module whose values hold a number.

    >>> sorted(list_numbers("A, B = 1, 2.5\\nC: float = 3 * A\\nD = 'text'\\ndef f(): E = 1"))
    ['A', 'B', 'C']
    """
    found = set()
    for node in ast.parse(source).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        held = (each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant))
        if any(isinstance(each, int | float) and not isinstance(each, bool) for each in held):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            found |= {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}
    return found


@pytest.mark.parametrize(("module", "name", "value", "source"), ROWS, ids=[name for _, name, *_ in ROWS])
def test_a_constant_is_what_the_paper_says(module, name, value, source):
    found = resolve_name(f"{module}.{name}")
    assert found if value == "several" else found == float(Fraction(value))
    assert source.startswith(KINDS)


def test_every_row_is_read():
    assert len(ROWS) == PAPER.read_text().count("| `pipeline.") >= 30


def test_what_was_chosen_is_counted_apart_from_what_is_published():
    """Kafka's own defaults and limits are facts: nobody could have chosen them so that a recording fits."""
    kinds = Counter(next(kind for kind in KINDS if source.startswith(kind)) for *_, source in ROWS)
    told = re.search(
        r"Of (\d+), (\d+) are Kafka's, (\d+) are measured, (\d+) fitted, (\d+) by hand and (\d+) derived",
        PAPER.read_text(),
    )
    assert told is not None
    assert [int(number) for number in told.groups()] == [len(ROWS), *(kinds[kind] for kind in KINDS)]


def test_no_number_is_missing():
    """One that is neither in the paper nor a part of how work is laid out would rest on nothing."""
    told = {f"{module}.{name}" for module, name, *_ in ROWS} | {module for module, *_ in ROWS}
    missing = [
        f"{module}.{name}"
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        for module in [".".join(path.relative_to(ROOT).with_suffix("").parts)]
        for name in sorted(list_numbers(path.read_text()) - STRUCTURE)
        if f"{module}.{name}" not in told
    ]
    assert missing == []

"""The suites' files: JSON as Great Expectations has it; light to read, without it."""

import json
import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

SUITES = Path(__file__).parent / "suites"
OF_STRATEGIES = ("key_answers_gate", "key_matrices_gate")
"""Suites that run only where `keys.strategies` of the configuration names any."""


def list_suites() -> list[str]:
    """Names of all suites."""
    return sorted(path.stem for path in SUITES.glob("*.json"))


@cache
def read_suite(name: str) -> dict[str, Any]:
    """A suite file as it stands."""
    document: dict[str, Any] = json.loads((SUITES / f"{name}.json").read_text(encoding="utf-8"))
    return document


def named_columns(suite: Mapping[str, Any], columns: Collection[str]) -> list[str]:
    """Those columns that a suite names."""
    words = set(re.findall(r"\w+", json.dumps([suite["expectations"], suite["meta"].get("shown")])))
    return [name for name in columns if name in words]

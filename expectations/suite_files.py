"""The suites' files: JSON as Great Expectations has it, and the SQL for their rows; from both SQL by which tasks find at most `MOST_SUSPECTS` breaking rows."""

import json
import re
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.errors import GateBrokenError
from pipeline.storage.predicates import format_datafusion_text

SUITES = Path(__file__).parent / "suites"
OF_STRATEGIES = ("key_answers_gate", "key_matrices_gate")  # run only if `keys.strategies` names any
MOST_SUSPECTS = 1_000
_COPIES, _RANK = "_copies", "_rank"
_UNIQUE = "expect_compound_columns_to_be_unique"


def list_suites() -> list[str]:
    return sorted(path.stem for path in SUITES.glob("*.json"))


@cache
def read_suite(name: str) -> dict[str, Any]:
    path = SUITES / f"{name}.json"
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise GateBrokenError(f"{path} cannot be read: {error}") from error
    if not ("expectations" in document and "question" in document.get("meta", ())):
        raise GateBrokenError(f"{path} is no suite: `expectations` and `question` in `meta` are needed")
    return document


def named_columns(suite: Mapping[str, Any], columns: Collection[str]) -> list[str]:
    words = set(re.findall(r"\w+", json.dumps([suite["expectations"], suite["meta"].get("shown")])))
    return [name for name in columns if name in words]


def ask_for_suspects(sql: str, suite: Mapping[str, Any]) -> str:
    """SQL for rows that may break a check, a critical one first; `GateBrokenError` for a check that is not of single rows."""
    keys = [one["kwargs"]["column_list"] for one in suite["expectations"] if one["type"] == _UNIQUE]
    breaks = []  # for each check that is not about the key, whether it is critical, and SQL that is true of a row that breaks it
    for entry in suite["expectations"]:
        if make := _BREAKING.get(entry["type"]):
            breaks.append((entry["severity"] == "critical", f"coalesce({make(entry['kwargs'])}, false)"))
        elif entry["type"] != _UNIQUE:
            told = f"{suite['name']}: {entry['type']} cannot be asked of a table that grows"
            raise GateBrokenError(f"{told}; use one of {', '.join(sorted(_BREAKING))}")
    copies = f"count(1) OVER (PARTITION BY {', '.join(keys[0])})" if keys else "1"
    source = f"SELECT *, {copies} AS {_COPIES} FROM ({sql}) AS given"
    is_double = f"{_COPIES} > 1"
    wanted = " OR ".join([*(one for _, one in breaks), is_double])
    worst = " OR ".join([*(one for is_critical, one in breaks if is_critical), is_double])
    order = ", ".join([_RANK, f"{_COPIES} DESC", *(keys[0] if keys else ())])  # copies of a row together
    ranked = f"SELECT *, CASE WHEN {worst} THEN 0 ELSE 1 END AS {_RANK} FROM ({source}) AS found WHERE {wanted}"
    return f"SELECT * FROM ({ranked}) AS ranked ORDER BY {order} LIMIT {MOST_SUSPECTS}"


def _leaves_range(given: Mapping[str, Any]) -> str:
    limits = [("<", given.get("min_value")), (">", given.get("max_value"))]
    breaks = [f"{given['column']} {sign} {limit}" for sign, limit in limits if limit is not None]
    return " OR ".join([*breaks, f"isnan(cast({given['column']} AS double))"])


def _leaves_set(given: Mapping[str, Any]) -> str:
    values = (format_datafusion_text(v) if isinstance(v, str) else str(v).lower() for v in given["value_set"])
    return f"{given['column']} NOT IN ({', '.join(values)})"


_BREAKING: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "expect_column_values_to_be_between": _leaves_range,
    "expect_column_values_to_be_in_set": _leaves_set,
    "expect_column_values_to_not_be_null": lambda given: f"{given['column']} IS NULL",
    "expect_column_pair_values_to_be_equal": lambda given: f"{given['column_A']} IS DISTINCT FROM {given['column_B']}",
    "expect_column_pair_values_a_to_be_greater_than_b": lambda given: (
        f"{given['column_A']} {'<' if given.get('or_equal') else '<='} {given['column_B']}"
    ),
    "expect_rows_to_hold": lambda given: (
        f"({given.get('where') or 'true'}) AND NOT coalesce(({given['condition']}), false)"
    ),
}

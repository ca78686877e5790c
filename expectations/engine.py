"""Great Expectations itself: one ephemeral context a process, suites read from our own files.

Importing this takes Great Expectations' six seconds; `expectations.gate` does so only when a suite runs. An ephemeral
context and our own reading of the files keep ids and timestamps from being written back into the working tree.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import great_expectations as gx
from great_expectations.exceptions import SuiteParameterError

# Defining these classes registers them: suites name them by type.
import expectations.broker_share
import expectations.rows
import expectations.rules  # noqa: F401
from pipeline.errors import GateBrokenError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

SUITES = Path(__file__).parent / "suites"


@cache
def _context() -> Any:  # noqa: ANN401  # GX is untyped here
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    return context


@cache
def read_suite(name: str) -> dict[str, Any]:
    """A suite file as it stands.

    Raises:
        FileNotFoundError: if there is no such suite.
    """
    document: dict[str, Any] = json.loads((SUITES / f"{name}.json").read_text(encoding="utf-8"))
    return document


def validate(name: str, frame: DataFrame, parameters: Mapping[str, Any]) -> list[Any]:
    """Runs a suite over a frame.

    Returns:
        GX's results, one per expectation, in no certain order.

    Raises:
        GateBrokenError: if a `$PARAMETER` of the suite has no value.
    """
    document = read_suite(name)
    suite = gx.ExpectationSuite(name=name, expectations=document["expectations"], meta=document["meta"])
    # A fresh source per run: it holds on to the Spark session it first saw. One read needs no cache.
    source = _context().data_sources.add_or_update_spark("frames", persist=False)
    batch = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe("all").get_batch({"dataframe": frame})
    try:
        return list(batch.validate(suite, result_format="BASIC", expectation_parameters=dict(parameters)).results)
    except SuiteParameterError as error:
        raise GateBrokenError(f"{name}: {error}") from error

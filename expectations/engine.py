"""Great Expectations itself: one ephemeral context and one suite of each name per process, read from our own files.

Importing this takes Great Expectations' three seconds; `expectations.gate` does so only when a suite runs. An ephemeral
context and our own reading of the files keep ids and timestamps from being written back into the working tree.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import great_expectations as gx
import pandas as pd
import pyarrow as pa
from great_expectations.exceptions import SuiteParameterError

import expectations.rows  # noqa: F401 - registers our classes: suites name them by type
from pipeline.errors import GateBrokenError

SUITES = Path(__file__).parent / "suites"


@cache
def read_suite(name: str) -> dict[str, Any]:
    """A suite file as it stands."""
    document: dict[str, Any] = json.loads((SUITES / f"{name}.json").read_text(encoding="utf-8"))
    return document


@cache
def _context() -> Any:  # noqa: ANN401 - Great Expectations is untyped here
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    return context


@cache
def _pandas_batches() -> Any:  # noqa: ANN401
    asset = _context().data_sources.add_pandas("rows").add_dataframe_asset("rows")
    return asset.add_batch_definition_whole_dataframe("all")


def _spark_batches() -> Any:  # noqa: ANN401
    # A fresh source per validation: it holds on to the Spark session it first saw. One read needs no cache.
    asset = _context().data_sources.add_or_update_spark("frames", persist=False).add_dataframe_asset("frames")
    return asset.add_batch_definition_whole_dataframe("all")


@cache
def make_suite(name: str) -> Any:  # noqa: ANN401
    """A suite as Great Expectations runs it."""
    document = read_suite(name)
    return gx.ExpectationSuite(name=name, expectations=document["expectations"], meta=document["meta"])


def validate(name: str, rows: Any, parameters: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Result of a suite over rows at hand (Arrow) or a Spark frame; in its `results` one per expectation, in no certain order.

    Rows at hand reach Great Expectations as pandas columns that stay Arrow's: NULL integers do not become floats.

    Raises:
        GateBrokenError: if a `$PARAMETER` of the suite has no value.
    """
    is_at_hand = isinstance(rows, pa.Table)
    frame = rows.to_pandas(types_mapper=pd.ArrowDtype) if is_at_hand else rows
    batch = (_pandas_batches() if is_at_hand else _spark_batches()).get_batch({"dataframe": frame})
    try:
        return batch.validate(make_suite(name), result_format="BASIC", expectation_parameters=dict(parameters))
    except SuiteParameterError as error:
        raise GateBrokenError(f"{name}: {error}") from error

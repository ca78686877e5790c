"""Great Expectations itself: an ephemeral Data Context, the suites, and a Checkpoint for each gate; imported when a gate runs."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, ClassVar, TypeAlias

import great_expectations as gx
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from great_expectations.checkpoint import CheckpointResult, ValidationAction
from great_expectations.core.batch_definition import BatchDefinition
from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.core.suite_parameters import SuiteParameterDict
from great_expectations.datasource.fluent.pandas_datasource import DataFrameAsset, PandasDatasource
from great_expectations.exceptions import SuiteParameterError
from great_expectations.exceptions.exceptions import ValidationActionRegistryRetrievalError
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.render import LegacyDiagnosticRendererType, LegacyRendererType, RenderedStringTemplateContent
from great_expectations.render.renderer.renderer import renderer

from expectations.configured_actions import Settings, configure
from expectations.suite_files import list_suites, read_suite
from pipeline.errors import ConfigError, GateBrokenError
from pipeline.model.window import format_instant, milliseconds_of

MAX_ROWS = 20  # rows of evidence kept per check
Untyped: TypeAlias = Any  # what Great Expectations hands over
ROW = "_row"  # column with the number of a row


def query(frame: pd.DataFrame, sql: str) -> list[dict[str, Any]]:
    rows = pl.DataFrame(pa.Table.from_pandas(frame, preserve_index=False))
    return pl.SQLContext(rows=rows).execute(sql, eager=True).to_dicts()


class SqlExpectation(BatchExpectation, ABC):
    success_keys: ClassVar[tuple[str, ...]]
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)
    counted: ClassVar[str]  # what `find` counts

    @classmethod
    @abstractmethod
    def describe(cls, given: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        """The check in words, with `$NAME` where SQL stands, and that SQL by name; `given` as the suite has it."""

    @classmethod
    @renderer(renderer_type=LegacyRendererType.PRESCRIPTIVE)
    def _prescriptive_renderer(
        cls, configuration: Untyped = None, result: Untyped = None, **_: object
    ) -> list[RenderedStringTemplateContent]:
        template, sql = cls.describe((configuration or result.expectation_config).kwargs)
        styles = {"params": {name: {"tag": "code"} for name in sql}}
        text = {"template": template, "params": sql, "styling": styles}
        return [RenderedStringTemplateContent(content_block_type="string_template", string_template=text)]

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.OBSERVED_VALUE)
    def _diagnostic_observed_value_renderer(cls, result: Untyped = None, **_: object) -> str:
        return f"{result.result['observed_value']:,} {cls.counted}"

    @classmethod
    @renderer(renderer_type=LegacyDiagnosticRendererType.UNEXPECTED_STATEMENT)
    def _diagnostic_unexpected_statement_renderer(
        cls, result: Untyped = None, **_: object
    ) -> list[RenderedStringTemplateContent]:
        """Adds the SQL to a failed check, whose description in the suite stands before it."""
        return [] if result.success else cls._prescriptive_renderer(result=result)

    @abstractmethod
    def find(self, frame: pd.DataFrame, given: Mapping[str, Any]) -> tuple[int, list[dict[str, Any]]]:
        """How much is wrong, and rows that show the first of it; `given` has the values of `success_keys`."""

    def _validate(self, metrics: object, execution_engine: Untyped = None, **_: object) -> dict[str, Any]:
        frame, _, _ = execution_engine.get_compute_domain(self._get_domain_kwargs(), MetricDomainTypes.TABLE)
        count, rows = self.find(frame, self._get_success_kwargs())
        details = {"unexpected_rows": rows}
        return {"success": count == 0, "result": {"observed_value": count, "details": details}}


class ExpectRowsToHold(SqlExpectation):
    """Expects that every row, or every row that a filter selects, fulfils a condition; NULL does not.

    Attributes:
        condition: SQL over the table's columns; `:limit` in it stands for `limit`.
        where: SQL filter of the rows it is about; None for all.
        limit: Number for `:limit`, mostly a `$PARAMETER`.
        shown: Columns of the breaking rows to show.
    """

    condition: str
    where: str | None = None
    limit: int | SuiteParameterDict | None = None
    shown: list[str]

    success_keys: ClassVar[tuple[str, ...]] = ("condition", "where", "limit", "shown")
    counted: ClassVar[str] = "rows"

    @classmethod
    def describe(cls, given: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        sql = {"condition": str(given["condition"])}
        if given.get("limit") is not None:
            sql["condition"] = sql["condition"].replace(":limit", str(given["limit"]))
        if not given.get("where"):
            return "Expected of every row: $condition.", sql
        return "Expected of rows with $where: $condition.", sql | {"where": str(given["where"])}

    def find(self, frame: pd.DataFrame, given: Mapping[str, Any]) -> tuple[int, list[dict[str, Any]]]:
        condition = given["condition"]
        if given["limit"] is not None:
            condition = condition.replace(":limit", str(given["limit"]))
        breaking = f"FROM rows WHERE ({given['where'] or 'true'}) AND NOT coalesce(({condition}), false)"
        count = query(frame, f"SELECT count(1) AS n {breaking}")[0]["n"]
        shown = f"SELECT {ROW} {breaking} LIMIT {MAX_ROWS}"
        return count, query(frame, shown) if count else []


class ExpectWindowsToBePresent(SqlExpectation):
    """Expects that every window has a row.

    Attributes:
        windows_ms: Starts of the windows, UTC milliseconds; mostly a `$PARAMETER`.
        where: SQL filter of the rows that count; None for all.
    """

    windows_ms: list[int] | SuiteParameterDict
    where: str | None = None

    success_keys: ClassVar[tuple[str, ...]] = ("windows_ms", "where")
    counted: ClassVar[str] = "windows"

    @classmethod
    def describe(cls, given: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        if not given.get("where"):
            return "Expected: a row of every window.", {}
        return "Expected: a row with $where of every window.", {"where": str(given["where"])}

    def find(self, frame: pd.DataFrame, given: Mapping[str, Any]) -> tuple[int, list[dict[str, Any]]]:
        sql = f"SELECT DISTINCT window_start FROM rows WHERE {given['where'] or 'true'}"
        present = {milliseconds_of(row["window_start"]) for row in query(frame, sql)}
        missing = sorted(set(given["windows_ms"]) - present)
        return len(missing), [{"window_start": format_instant(start_ms)} for start_ms in missing[:MAX_ROWS]]


_ROWS = "rows of the windows checked"
_TYPES = "slack, email, microsoft, opsgenie, pagerduty, sns, and those of expectations/actions.py"
_BROKEN_TYPE = "api"  # its requests have a list of dictionaries as their body, which no HTTP library takes


class RowsValidationDefinition(gx.ValidationDefinition):
    """A ValidationDefinition that takes its rows by its name: a Checkpoint gives the same batch parameters to all it has."""

    def run(self, *, batch_parameters: Mapping[str, pd.DataFrame], **others: Any) -> Any:  # noqa: ANN401
        return super().run(batch_parameters={"dataframe": batch_parameters[self.name]}, **others)


@cache
def get_context() -> Any:  # noqa: ANN401 - Great Expectations is untyped here
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    return context


@cache
def make_suite(name: str) -> Any:  # noqa: ANN401
    return get_context().suites.add(gx.ExpectationSuite(**read_suite(name)))


@cache
def _data_source() -> Any:  # noqa: ANN401
    """The Data Source, with an Asset and a Batch Definition for each suite: each added by itself would write the whole context anew."""
    assets = [
        DataFrameAsset(name=name, type="dataframe", batch_definitions=[BatchDefinition(name=_ROWS)])
        for name in list_suites()
    ]
    return get_context().data_sources.add_or_update_pandas(PandasDatasource(name="partition_health", assets=assets))


@cache
def _validation_definition(suite_name: str) -> RowsValidationDefinition:
    batches = _data_source().get_asset(suite_name).get_batch_definition(_ROWS)
    made = RowsValidationDefinition(name=suite_name, data=batches, suite=make_suite(suite_name))
    get_context().validation_definitions.add(made)
    return made


def run_checkpoint(
    gate: str,
    rows: Mapping[str, pa.Table],
    parameters: Mapping[str, Any],
    actions: Sequence[ValidationAction] = (),
    configured: Sequence[Settings] = (),
) -> CheckpointResult:
    """Runs a gate's Checkpoint and actions; `GateBrokenError` for a `$PARAMETER` without value, `ConfigError` for an action."""
    if any(settings.get("type") == _BROKEN_TYPE for settings in configured):
        raise ConfigError(
            f"`checkpoint_actions`: Great Expectations {gx.__version__} cannot send by `api`; known: {_TYPES}"
        )
    try:
        checkpoint = gx.Checkpoint(
            name=gate,
            validation_definitions=[_validation_definition(name) for name in rows],
            actions=[*actions, *configured],
            result_format={
                "result_format": "SUMMARY",
                "partial_unexpected_count": MAX_ROWS,
                "unexpected_index_column_names": [ROW],
            },
        )
    except (ValidationActionRegistryRetrievalError, ValueError) as error:
        raise ConfigError(f"`checkpoint_actions` of gate {gate}: {error} Known types: {_TYPES}") from error
    checkpoint.actions = [*actions, *configure(checkpoint.actions[len(actions) :], configured, get_context())]
    stored = get_context().checkpoints
    if any(one.name == gate for one in stored.all()):  # of an earlier run in this process
        stored.delete(gate)
    try:
        batches = {name: make_frame(table) for name, table in rows.items()}
        return checkpoint.run(batch_parameters=batches, expectation_parameters=dict(parameters))
    except SuiteParameterError as error:
        raise GateBrokenError(f"{gate}: {error}") from error


def make_frame(rows: pa.Table) -> pd.DataFrame:
    """Rows as pandas has them, numbered; NULL is NaN among numbers, which Great Expectations can compare, and NaN is below all."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_floating(field.type):
            rows = rows.set_column(place, field, pc.if_else(pc.is_nan(rows[place]), -math.inf, rows[place]))
    numbered = rows.append_column(ROW, pa.array(range(len(rows)), pa.int64()))
    plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_timestamp)  # in pandas' own types
    return numbered.to_pandas(types_mapper=lambda kind: None if any(of(kind) for of in plain) else pd.ArrowDtype(kind))


def list_unexpected(result: Any, rows: pa.Table, shown: Sequence[str]) -> list[dict[str, Any]]:  # noqa: ANN401
    """The first rows that break an expectation, in some columns; of windows that are missing, these."""
    own = result.result.get("details", {}).get("unexpected_rows")
    found = (own if own is not None else result.result.get("partial_unexpected_index_list")) or []
    if found and ROW not in found[0]:
        return list(found)
    places = pa.array([entry[ROW] for entry in found[:MAX_ROWS]], pa.int64())
    return [
        {at: format_instant(milliseconds_of(of)) if isinstance(of, datetime) else of for at, of in row.items()}
        for row in rows.select(list(shown)).take(places).to_pylist()
    ]

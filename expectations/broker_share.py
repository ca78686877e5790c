"""The health gate's own expectation: no broker carries more than its share."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

import pyspark.sql.functions as F
from great_expectations.core.suite_parameters import SuiteParameterDict  # noqa: TC002  # pydantic reads it
from great_expectations.execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

from expectations.rows import table_of
from pipeline.measures.verdicts import ShareLimits, judge_broker_share
from pipeline.model.load import BrokerLoad
from pipeline.model.window import format_instant

if TYPE_CHECKING:
    from pipeline.model.verdict import Verdict


_LIMITS = ("limit_ratio", "floor_bytes", "chance_level", "k", "n", "luck_fails", "topic_limits")


class BrokerLoads(TableMetricProvider):
    """The loads in `gold.broker_share` by cluster, collected: a row per broker and window, so there are few."""

    metric_name = "table.broker_loads"
    value_keys = ()

    @metric_value(engine=SparkDFExecutionEngine)
    def _spark(
        cls,  # noqa: N805  # GX binds it to the class
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> dict[str, list[BrokerLoad]]:
        frame = table_of(execution_engine, metric_domain_kwargs)
        rows = frame.select(
            "cluster",
            F.unix_millis("window_start").alias("window_start_ms"),
            "broker_id",
            "size_bytes",
            "record_count",
            "share",
            "expected_share",
            "share_ratio",
            "effective_unit_count",
            "ratio_without_luck",
            "excess_topic",
        ).collect()
        loads: dict[str, list[BrokerLoad]] = {}
        for row in rows:
            values = row.asDict()
            loads.setdefault(values.pop("cluster"), []).append(BrokerLoad(**values))
        return loads


class ExpectNoBrokerAboveItsShare(BatchExpectation):
    """No judged window has a broker above its share in k of n windows.

    The result's details hold every verdict (`verdicts`), so that what the gate found is what gets stored and mailed.

    Attributes:
        limit_ratio: Share ratio from which a broker carries too much.
        floor_bytes: Bytes per window a broker must exceed.
        chance_level: False alarms allowed per window.
        k: Windows above that make a failure ...
        n: ... among this many.
        luck_fails: What hashing so many keys gives by chance counts too.
        topic_limits: Limits by pattern of topics, for brokers whose excess comes most from one; the first that fits.
        judged_from_ms: Windows that start earlier are history for k of n; None judges all.

    References:
        `pipeline.measures.verdicts` holds the rule itself.
    """

    limit_ratio: float | SuiteParameterDict
    floor_bytes: float | SuiteParameterDict
    chance_level: float | SuiteParameterDict
    k: int | SuiteParameterDict
    n: int | SuiteParameterDict
    luck_fails: bool | SuiteParameterDict = False
    topic_limits: dict[str, float] | SuiteParameterDict
    judged_from_ms: int | SuiteParameterDict | None = None

    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.broker_loads",)
    success_keys: ClassVar[tuple[str, ...]] = (
        "limit_ratio",
        "floor_bytes",
        "chance_level",
        "k",
        "n",
        "luck_fails",
        "topic_limits",
        "judged_from_ms",
    )
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: SparkDFExecutionEngine | None = None,
    ) -> dict[str, Any]:
        loads = metrics["table.broker_loads"]
        if len(loads) > 1:
            raise ValueError(f"shares of one cluster can be judged at a time, found {sorted(loads)}")
        kwargs = self._get_success_kwargs()
        limits = ShareLimits(**{key: kwargs[key] for key in _LIMITS})
        verdicts = judge_broker_share(next(iter(loads.values()), ()), limits, judged_from_ms=kwargs["judged_from_ms"])
        failed = [verdict for verdict in verdicts if verdict.verdict == "fail"]
        return {
            "success": not failed,
            "result": {
                "observed_value": max((verdict.value for verdict in failed if verdict.value is not None), default=None),
                "details": {
                    "unexpected_rows": [_row(verdict) for verdict in failed],
                    "verdicts": [asdict(verdict) for verdict in verdicts],
                },
            },
        }


def _row(verdict: Verdict) -> dict[str, Any]:
    return {
        "window_start": format_instant(verdict.window_start_ms),
        "subject": verdict.subject,
        "share_ratio": verdict.value,
        "reason": verdict.reason,
    }

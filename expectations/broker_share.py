"""The health gate's own expectation: no broker carries more than its share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from great_expectations.core.suite_parameters import SuiteParameterDict  # noqa: TC002  # pydantic reads it
from great_expectations.expectations.expectation import BatchExpectation

from expectations.metrics import declare_rows, rows_for
from expectations.rows import judged
from pipeline.measures.verdicts import ShareLimits, judge_broker_share
from pipeline.model.load import BrokerLoad

if TYPE_CHECKING:
    from great_expectations.execution_engine import SparkDFExecutionEngine
    from pyspark.sql import DataFrame


_LIMITS = ("limit_ratio", "floor_bytes", "chance_level", "k", "n", "luck_fails", "topic_limits")


def _read_loads(frame: DataFrame) -> dict[str, list[BrokerLoad]]:
    """The loads in `gold.broker_share` by cluster: a row per broker and window, so there are few."""
    loads: dict[str, list[BrokerLoad]] = {}
    for row in rows_for(frame, BrokerLoad, "cluster"):
        loads.setdefault(row.pop("cluster"), []).append(BrokerLoad(**row))
    return loads


declare_rows("table.broker_loads", _read_loads)


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
        worst = max((verdict.value for verdict in failed if verdict.value is not None), default=None)
        return judged(verdicts, failed, observed=worst)

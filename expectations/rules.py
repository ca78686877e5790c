"""Own expectation of the further rules: no topic, broker, group or disk is beyond its limit."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

import pyspark.sql.functions as F
from great_expectations.core.suite_parameters import SuiteParameterDict  # noqa: TC002  # pydantic reads it
from great_expectations.execution_engine import SparkDFExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

from expectations.rows import MAX_ROWS, table_of
from pipeline.measures.rules import RuleLimit, judge_rules
from pipeline.measures.source_arrivals import Hold
from pipeline.model.rule import RuleMeasure
from pipeline.model.window import format_instant
from pipeline.rule_settings import Rule

if TYPE_CHECKING:
    from pipeline.model.verdict import Verdict


class RuleMeasures(TableMetricProvider):
    """The rows of `gold.rule_measures`, collected: some per topic and window."""

    metric_name = "table.rule_measures"
    value_keys = ()

    @metric_value(engine=SparkDFExecutionEngine)
    def _spark(
        cls,  # noqa: N805  # GX binds it to the class
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> list[RuleMeasure]:
        frame = table_of(execution_engine, metric_domain_kwargs)
        columns = ("rule", "subject", "topic", "value", "p_value", "is_enough", "detail")
        rows = frame.select(F.unix_millis("window_start").alias("window_start_ms"), *columns).toArrow().to_pylist()
        return [RuleMeasure(**row) for row in rows]


class ExpectRulesToHold(BatchExpectation):
    """No subject is beyond the limit of a rule in k of n windows; of rules of one severity.

    Attributes:
        rules: Rules by name, as the configuration has them.
        of_severity: `critical` or `warning`: which of them are judged here.
        chance_level: False alarms allowed per rule and window.
        judged_from_ms: Windows that start earlier are history for k of n; None judges all.
        holds: Windows not judged by all rules, by start: kind and reason of a `Hold`.

    References:
        `pipeline.measures.rules` holds the judgement itself.
    """

    rules: dict[str, Any] | SuiteParameterDict
    of_severity: str
    chance_level: float | SuiteParameterDict
    judged_from_ms: int | SuiteParameterDict | None = None
    holds: dict[str, Any] | SuiteParameterDict

    metric_dependencies: ClassVar[tuple[str, ...]] = ("table.rule_measures",)
    success_keys: ClassVar[tuple[str, ...]] = ("rules", "of_severity", "chance_level", "judged_from_ms", "holds")
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id",)

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: SparkDFExecutionEngine | None = None,
    ) -> dict[str, Any]:
        kwargs = self._get_success_kwargs()
        rules = {name: Rule(**rule) for name, rule in kwargs["rules"].items()}

        def limit_of(rule: str, topic: str) -> RuleLimit | None:
            found = rules[rule].of_topic(topic)
            if found.severity != kwargs["of_severity"]:
                return None
            return RuleLimit(limit=found.limit, severity=found.severity, k=found.k, n=found.n)

        verdicts = judge_rules(
            metrics["table.rule_measures"],
            limit_of,
            chance_level=kwargs["chance_level"],
            judged_from_ms=kwargs["judged_from_ms"],
            holds={int(start_ms): Hold(**hold) for start_ms, hold in kwargs["holds"].items()},
        )
        beyond = [v for v in verdicts if v.verdict in {"warn", "fail"} and v.above_count >= _k_of(rules, v)]
        return {
            "success": not beyond,
            "result": {
                "observed_value": len(beyond) or None,
                "details": {
                    "unexpected_rows": [_row(verdict) for verdict in beyond[:MAX_ROWS]],
                    "verdicts": [asdict(verdict) for verdict in verdicts],
                },
            },
        }


def _k_of(rules: dict[str, Rule], verdict: Verdict) -> int:
    return rules[verdict.rule].k


def _row(verdict: Verdict) -> dict[str, Any]:
    return {
        "window_start": format_instant(verdict.window_start_ms),
        "rule": verdict.rule,
        "subject": verdict.subject,
        "value": verdict.value,
        "reason": verdict.reason,
    }

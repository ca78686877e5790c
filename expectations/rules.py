"""Own expectation of the further rules: no topic, broker, group or disk is beyond its limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from great_expectations.core.suite_parameters import SuiteParameterDict  # noqa: TC002  # pydantic reads it
from great_expectations.expectations.expectation import BatchExpectation

from expectations.metrics import declare_rows, rows_for
from expectations.rows import judged
from pipeline.config.rules import Rule
from pipeline.measures.rules import RuleLimit, judge_rules
from pipeline.measures.source_arrivals import Hold
from pipeline.model.rule import RuleMeasure

if TYPE_CHECKING:
    from great_expectations.execution_engine import SparkDFExecutionEngine
    from pyspark.sql import DataFrame


def _read_measures(frame: DataFrame) -> list[RuleMeasure]:
    """The rows of `gold.rule_measures`: some per topic and window."""
    return [RuleMeasure(**row) for row in rows_for(frame, RuleMeasure)]


declare_rows("table.rule_measures", _read_measures)


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
        beyond = [v for v in verdicts if v.verdict in {"warn", "fail"} and v.above_count >= rules[v.rule].k]
        return judged(verdicts, beyond, observed=len(beyond) or None)

"""A simulation's figures as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipeline.simulator.summary import RUN_FIGURES, Range, VariantSummary

if TYPE_CHECKING:
    from pipeline.simulator.scenario.scenario_file import ScenarioFile


def describe_scenario(scenario: ScenarioFile, summaries: Sequence[VariantSummary]) -> dict[str, Any]:
    """The JSON document of `simulate --json`; every figure is `{"median", "low", "high"}` over the seeds."""
    return {
        "scenario": scenario.name,
        "seeds": list(summaries[0].seeds) if summaries else [],
        "evidence": scenario.evidence.model_dump(mode="json"),
        "variants": [_describe_variant(summary) for summary in summaries],
    }


def _describe_variant(summary: VariantSummary) -> dict[str, Any]:
    scenario = summary.variant.scenario
    return {
        "name": summary.variant.name,
        "clients": list(summary.variant.clients),
        **_describe_figures(summary.run),
        "brokers": [
            {"broker_id": broker.broker_id, **_describe_figures(figures), "fair_share": round(fair_share, 6)}
            for broker, figures, fair_share in zip(
                scenario.brokers, summary.brokers, summary.variant.fair_shares, strict=True
            )
        ],
        "partitions": _describe_partitions(summary),
        "producers": [
            {"client_id": producer.name, **_describe_figures(figures)}
            for producer, figures in zip(scenario.producers, summary.producers, strict=True)
        ],
        "notes": list(summary.variant.notes),
    }


def _describe_partitions(summary: VariantSummary) -> list[dict[str, Any]]:
    scenario = summary.variant.scenario
    names = [(topic.name, partition) for topic in scenario.topics for partition in range(len(topic.leaders))]
    return [
        {
            "topic": topic,
            "partition": partition,
            "broker_id": scenario.brokers[leader].broker_id if leader >= 0 else None,
            **_describe_figures(figures),
        }
        for (topic, partition), leader, figures in zip(names, scenario.leaders, summary.partitions, strict=True)
    ]


def _describe_figures(figures: Mapping[str, Range]) -> dict[str, Any]:
    return {
        name: {part: _to_number(value) for part, value in zip(Range._fields, figure, strict=True)}
        for name, figure in figures.items()
    }


def _to_number(value: float | None) -> float | None:
    """Whole numbers without a point; others to a millionth."""
    if value is None:
        return None
    return int(value) if float(value).is_integer() else round(value, 6)

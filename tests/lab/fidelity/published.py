"""Figures of the built-in scenarios from elsewhere: published, or measured on real clients and brokers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

LOADS = ("record_count", "batch_count", "size_bytes")  # by broker id


class Comparison(NamedTuple):
    """A run that was not simulated; not all figures are known."""

    label: str  # `published` or `real here`
    source: str
    figures: Mapping[str, float]  # of the whole run, by names of `summary.RUN_FIGURES`
    brokers: Mapping[str, Mapping[int, float]]  # by names of `LOADS` and `bytes_share`, then by broker id


def read_published(scenario: str, variant: str) -> dict[str, Comparison]:
    """What is known of a variant of a built-in scenario, by label."""
    document = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
    return {run["label"]: _make(run) for run in document.get(scenario, {}).get(variant, ())}


def _make(run: dict[str, Any]) -> Comparison:
    brokers = {name: run.pop(name) for name in LOADS if name in run}
    if "size_bytes" in brokers:
        total = sum(brokers["size_bytes"].values())
        brokers["bytes_share"] = {broker_id: size / total for broker_id, size in brokers["size_bytes"].items()}
    return Comparison(run.pop("label"), run.pop("source"), run, brokers)

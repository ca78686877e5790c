"""Figures from elsewhere that a simulation is shown beside: published, or measured on real clients and brokers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.simulator.figures import LOAD_FIGURES, RUN_FIGURES
from pipeline.simulator.scenario.yaml_entries import gather_each

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pipeline.simulator.scenario.cluster_section import BrokerSection
    from pipeline.simulator.scenario.yaml_entries import Entry

LABELS = ("published", "real here")
_BROKER_FIGURES = LOAD_FIGURES[1:]


@dataclass(frozen=True)
class Comparison:
    """A run that was not simulated.

    Attributes:
        label: One of `LABELS`.
        source: Where from.
        figures: By names of `RUN_FIGURES`; not all may be known.
        brokers: By name of `LOAD_FIGURES` and broker id; not all may be known. Shares follow from the bytes.
    """

    label: str
    source: str
    figures: Mapping[str, float]
    brokers: Mapping[str, Mapping[int, float]]


def parse_comparisons(entry: Entry, brokers: Sequence[BrokerSection]) -> tuple[Comparison, ...]:
    """The runs beside a variant.

    Raises:
        ConfigError: A key or a value that cannot be.
    """
    ids = [broker.broker_id for broker in brokers]
    return tuple(gather_each(entry.items(), lambda item: _parse_comparison(item, ids)))


def _parse_comparison(entry: Entry, broker_ids: Sequence[int]) -> Comparison:
    keys = entry.mapping(known=(*RUN_FIGURES, *_BROKER_FIGURES), needed=("label", "source"))
    figures = {name: keys[name].number() for name in RUN_FIGURES if name in keys}
    loads: dict[str, Mapping[int, float]] = {}
    for name in _BROKER_FIGURES:
        if name in keys:
            values = keys[name].mapping(known=[str(broker_id) for broker_id in broker_ids])
            loads[name] = {int(broker_id): value.number() for broker_id, value in values.items()}
    total = sum(loads.get("size_bytes", {}).values())
    if total:
        loads["bytes_share"] = {broker_id: size / total for broker_id, size in loads["size_bytes"].items()}
    return Comparison(keys["label"].choice(LABELS), keys["source"].text(), figures, loads)

"""The configuration's section `what_ifs` of a cluster: changes that `partition-health what-if --configured` works out."""

from typing import Annotated

from pydantic import Field

from pipeline.config.section import ConfigPath, Section

_Factor = Annotated[float, Field(gt=0)]


class WhatIf(Section):
    """A change of brokers, traffic and placement.

    Attributes:
        add_brokers: More brokers: rack by id, "" for none.
        lose_brokers: Brokers that are gone.
        lose_racks: Racks whose brokers are gone.
        resize_brokers: Capacity of a broker by id, as a multiple of what it has.
        grow: Traffic of a topic, as a multiple of what it has.
        reassignment: File as kafka-reassign-partitions reads it, carried out first.
    """

    add_brokers: dict[int, str] = Field(default_factory=dict)
    lose_brokers: tuple[int, ...] = ()
    lose_racks: tuple[str, ...] = ()
    resize_brokers: dict[int, _Factor] = Field(default_factory=dict)
    grow: dict[str, _Factor] = Field(default_factory=dict)
    reassignment: ConfigPath | None = None

"""The rule about zones. Oracle: shares by hand."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from pipeline.rules import RULES
from pipeline.rules.rule import RuleInput
from pipeline.storage.frames import arrow_schema

START = datetime(2026, 11, 24, tzinfo=UTC)


def measure(racks, shares, *, zones=()):
    """Values by subject; `shares` of brokers of equal capacity, `zones` of the configuration."""
    brokers = [{"window_start": START, "broker_id": number, "rack": rack} for number, rack in racks.items()]
    of_all = {"window_start": START, "expected_share": 1 / len(shares), "effective_unit_count": 10_000}
    rows = [of_all | {"broker_id": number, "share": share} for number, share in shares.items()]
    tables = {"bronze.brokers": brokers, "gold.broker_share": rows}

    def load(table, _):
        return pa.Table.from_pylist(tables[table.name], arrow_schema(table))

    given = RuleInput(load=load, starts_ms=[], window_ms=3_600_000, disk_bytes={}, broker_zones=dict(zones))
    return {one.subject: round(one.value, 3) for one in RULES["zone_share"].measure("zone_share", given)}


SHARES = {0: 0.4, 1: 0.3, 2: 0.2, 3: 0.1}


@pytest.mark.parametrize(
    ("racks", "zones", "found"),
    [
        ("aabb", {}, {"zone a": 1.4, "zone b": 0.6}),
        ("aab-", {}, {"zone a": 1.4, "zone b": 0.8}),  # broker 3 is in no zone
        ("aaaa", {}, {}),
        ("----", {}, {}),
        ("----", {0: "x", 1: "y"}, {"zone x": 1.6, "zone y": 1.2}),  # no rack, the configuration says where they are
        ("aabb", {1: "b"}, {"zone a": 1.6, "zone b": 0.8}),  # the configuration knows better
        ("abcd", {}, {"zone a": 1.6, "zone b": 1.2, "zone c": 0.8, "zone d": 0.4}),
    ],
)
def test_a_zone_s_share_by_its_capacity(racks, zones, found):
    known = {number: None if rack == "-" else rack for number, rack in enumerate(racks)}
    assert measure(known, SHARES, zones=zones) == found


def test_two_hundred_racks_are_two_hundred_subjects():
    shares = dict.fromkeys(range(200), 1 / 200)
    assert measure({number: f"rack-{number}" for number in shares}, shares) == {f"zone rack-{n}": 1.0 for n in shares}

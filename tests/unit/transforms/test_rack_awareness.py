"""What rack-aware producers add to brokers. Oracle: the sums by hand."""

import polars as pl
import pytest

from pipeline.transforms.zone_traffic import sum_rack_aware_bytes

RACKS = {1: "a", 2: "b", 3: "c", 4: ""}
LED = [("t", "", 1), ("t", "", 2), ("t", "", 2), ("t", "", 3)]
SENT = dict.fromkeys(("topic", "topic_id"), pl.String)
SENT |= dict.fromkeys(("producer_id", "producer_epoch", "size_bytes"), pl.Int64)


def session(producer_id, rack, *, epoch=0, keyless=10):
    of = {"topic": "t", "topic_id": "", "producer_id": producer_id, "producer_epoch": epoch}
    return of | {"record_count": 10, "keyless_record_count": keyless, "settings": [("client.rack", rack)]}


def add(sessions, sent):
    rows = pl.DataFrame([("t", "", *row) for row in sent], SENT, orient="row")
    return sum_rack_aware_bytes(rows, sessions, LED, RACKS)


@pytest.mark.parametrize(
    ("found", "added"),
    [
        (session(7, "b"), {1: -100, 2: 200, 3: -100}),  # 400 bytes on two of four partitions, not on all four
        (session(7, "a"), {1: 300, 2: -200, 3: -100}),
        (session(7, "b", keyless=5), {1: -50, 2: 100, 3: -50}),  # half of its records have keys
        (session(7, "d"), {}),  # no broker is there: it sends everywhere
        (session(7, "b", epoch=-1), {1: -150, 2: 300, 3: -150}),  # transactional: all epochs are one session
        (session(9, "b"), {1: 0, 2: 0, 3: 0}),
    ],
)
def test_a_zone_gets_what_all_leaders_would(found, added):
    result = add([found], [(7, 0, 400), (7, 1, 200)])
    assert result == pytest.approx(added)
    assert sum(result.values()) == pytest.approx(0)


def test_several_producers_add_up():
    assert add([session(7, "b"), session(8, "a")], [(7, 0, 400), (8, 0, 400)]) == pytest.approx({1: 200, 2: 0, 3: -200})

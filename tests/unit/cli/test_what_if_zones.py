"""What `what-if --zones` prints, from a state that is worked out by hand."""

from pipeline.advice.what_ifs import ZoneChange, ZoneState, ZoneWhatIf
from pipeline.cli.what_if_zones import format_zone_what_if
from pipeline.measures.zone_plans import ZoneBytes
from pipeline.model.placement import PartitionMove

MOVES = (PartitionMove(topic="t", partition=0, replicas=(1, 2), new_replicas=(2, 1), moved_bytes=0),)


def state(produce, ratios, ranges=None):
    between = ZoneBytes(produce=produce, replication=500e6)
    return ZoneState(partitions=(), between=between, ratios=ratios, ranges=ranges or {})


def described(one, cost):
    brokers = [
        {
            "broker_id": broker_id,
            "share_ratio": one.ranges.get(broker_id, (0, ratio, 0))[1],
            "share_ratio_low": one.ranges[broker_id][0] if one.ranges else None,
            "share_ratio_high": one.ranges[broker_id][2] if one.ranges else None,
        }
        for broker_id, ratio in one.ratios.items()
    ]
    return {
        "produced_between_zones_bytes": round(one.between.produce),
        "replicated_between_zones_bytes": round(one.between.replication),
        "cost_per_month": cost,
        "brokers": brokers,
    }


def tell(change, now, then, planned, *, costs=(None,) * 3, moves=MOVES, reasons=(), notes=()):
    worked = ZoneWhatIf(change=change, now=now, then=then, planned=planned, moves=moves)
    document = {
        "window": "W",
        "now": described(now, costs[0]),
        "then": described(then, costs[1]),
        "planned": described(planned, costs[2]),
        "moved_bytes": sum(move.moved_bytes for move in moves),
        "notes": list(notes),
        "not_replayed": list(reasons),
    }
    return format_zone_what_if(document, worked, 1.5, None)


def test_what_rack_aware_producers_save_and_load_is_said_with_the_plan():
    now = state(1000e6, {1: 1.0, 4: 1.0})
    then = state(390e6, {1: 0.4, 4: 1.6}, {1: (0.35, 0.4, 0.45), 4: (1.5, 1.6, 1.7)})
    planned = state(420e6, {1: 0.9, 4: 1.1}, {1: (0.8, 0.9, 1.0), 4: (1.0, 1.1, 1.2)})
    text = tell(ZoneChange.RACK_AWARE, now, then, planned, costs=(1000.0, 590.0, 610.0))
    assert (
        "Rack-aware producers save 61% of the bytes produced between zones (about 410 less a month); the highest "
        "broker is 4, which rises to 1.60x, above its limit of 1.50x. The plan (--plan FILE writes it) changes 1 partition "
        "and copies nothing; with it the highest broker is 4 at 1.10x." in text
    )
    assert "1.60x (1.50 to 1.70)" in text
    assert "money a month" in text


def test_leaders_near_producers_show_two_columns_and_no_money_without_a_price():
    now, planned = state(1000e6, {1: 1.2, 2: 0.8}), state(250e6, {1: 1.0, 2: 1.0})
    text = tell(ZoneChange.LEADERS, now, now, planned, reasons=["orders cannot be simulated"], notes=["A note."])
    assert "Leaders near their producers save 75% of the bytes produced between zones; the highest broker is 1" in text
    assert "money" not in text
    assert "rack-aware" not in text
    assert text.endswith("A note.\nShares are spread evenly, not replayed: orders cannot be simulated.\n")


def test_replicas_in_other_racks_cost():
    now = state(0.0, {1: 1.0})
    planned = ZoneState(partitions=(), between=ZoneBytes(produce=0.0, replication=1000e6), ratios={1: 1.0})
    text = tell(ZoneChange.REPLICAS, now, now, planned)
    assert (
        "Replicas in other racks add 100% to the bytes replicated between zones; the highest broker is 1, which stays at 1.00x"
        in text
    )


def test_nothing_helps():
    now = state(0.0, {1: 1.0})
    assert "No plan of leaders or replicas helps." in tell(ZoneChange.LEADERS, now, now, now, moves=())

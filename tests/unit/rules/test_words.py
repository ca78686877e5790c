"""How rules write and compare their measures."""

from pipeline.rules import format_measure, times_worse, worst_of


def test_a_rule_writes_its_measures():
    shown = [format_measure(rule, 12.0) for rule in ("broker_share", "leaderless", "disk_hours_to_full")]
    assert shown == ["12.0x", "12", "12 h"]


def test_the_worst_value_is_the_smallest_where_small_ones_are_bad():
    assert worst_of("topic_peak", [1.2, None, 3.0]) == 3.0
    assert worst_of("disk_hours_to_full", [48.0, 12.0]) == 12.0
    assert times_worse("topic_peak", 3.0, 2.0) == 1.5
    assert times_worse("disk_hours_to_full", 12.0, 48.0) == 4.0

"""When a disk is full. Oracle: hours written out by hand."""

import pytest

from pipeline.measures.disks import NO_END_HOURS, hours_to_full, is_past_retention
from pipeline.model.window import HOUR_MS, MINUTE_MS

FLAT = [600] * 20


@pytest.mark.parametrize(
    ("used", "hours"),
    [
        ([*FLAT, 680], NO_END_HOURS),  # one step: a replica was restored
        ([*FLAT, 680, 760], 3.0),
        ([500] * 20 + [580, 660, 740], NO_END_HOURS),  # a replica is moved to a disk with room
        ([*FLAT, 680, 760, 840], 2.0),
        ([*FLAT, 800, 800, 800], NO_END_HOURS),
        ([*FLAT, 680, 600, 680], NO_END_HOURS),
        ([*FLAT, 605, 610, 615], NO_END_HOURS),  # too slow to say so of three hours
        ([600, 700, 800, 500] * 5 + [600, 700, 800], NO_END_HOURS),  # up to where retention begins, each time
        ([*range(100, 900, 40), 900, 920], 2.0),  # as on the whole day
    ],
)
def test_a_disk_that_fills_of_late_is_told(used, hours):
    at_ms = [hour * HOUR_MS for hour in range(len(used))]
    assert hours_to_full(at_ms, used, 1000) == pytest.approx(hours, abs=0.5)


@pytest.mark.parametrize(
    ("at_ms", "used", "disk", "hours"),
    [
        ([0], [200], 200, 0.0),
        ([0, HOUR_MS, 2 * HOUR_MS, 3 * HOUR_MS], [100, 108, 116, 136], 236, 10.0),  # the median of all pairs
        ([0, HOUR_MS, 2 * HOUR_MS, 3 * HOUR_MS], [100, 110, 20, 30], 200, NO_END_HOURS),  # retention
        ([0, HOUR_MS], [100, 110], 200, None),
        ([0, MINUTE_MS, 2 * MINUTE_MS], [100, 110, 120], 200, None),
        ([0, HOUR_MS, 2 * HOUR_MS], [100, 110, 120], 610, NO_END_HOURS),  # in 49 hours
        ([hour * HOUR_MS for hour in range(24)], [120] * 21 + [120, 136, 152], 200, 3.0),  # of late
    ],
)
def test_hours_until_a_disk_is_full(at_ms, used, disk, hours):
    assert hours_to_full(at_ms, used, disk) == hours


def test_retention_and_the_brokers_own_delays():
    assert is_past_retention(1_000_000, 1_000_000 + 360_001)
    assert not is_past_retention(1_000_000, 1_300_000)

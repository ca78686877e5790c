"""Where traffic is looked for. Oracle: records written out by hand, counted."""

import pytest

from pipeline.model.log import TopicPartition
from pipeline.model.window import TimeWindow
from pipeline.sources.live.admin import choose_newest

WINDOWS = [TimeWindow(start, start + 10) for start in range(0, 50, 10)]


@pytest.mark.parametrize(
    ("times", "start"),
    [
        ([[5, 25, 44]], 40),
        ([[5, 25]], 20),
        ([[5], [12, 13]], 10),
        ([[40]], 40),
        ([[50]], None),  # after the last of them
        ([[39, 50, 60]], 30),
        ([[]], None),
        ([], None),
    ],
)
def test_the_newest_window_that_holds_a_record(times, start):
    asked = []

    def offsets_at(at_ms):
        asked.append(at_ms)
        return {
            TopicPartition("t", number): next((offset for offset, at in enumerate(records) if at >= at_ms), -1)
            for number, records in enumerate(times)
        }

    found = choose_newest(WINDOWS, offsets_at)
    assert (found and found.start_ms) == start
    assert asked == sorted(set(asked), reverse=True)  # every instant once
    assert choose_newest([], offsets_at) is None

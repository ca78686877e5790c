"""Brokers' loads in the slots of a window, from `silver.record_batches`. Oracle: the same sums in plain Python."""

import random
from collections import defaultdict

from pipeline.jobs.score_health import sum_slots
from pipeline.model.window import HOUR_MS, MINUTE_MS, TimeWindow, instant_of
from pipeline.runs import plan_runs
from pipeline.tables.silver import RECORD_BATCHES
from tests.table_rows import zero_row
from tests.unit.jobs.one_cluster import write_config

START_MS = 1_795_251_600_000
WINDOWS = tuple(TimeWindow(START_MS + n * HOUR_MS, START_MS + (n + 1) * HOUR_MS) for n in range(2))


def test_sums_and_squares_are_exact(tmp_path):
    (run,) = plan_runs(write_config(tmp_path), TimeWindow(START_MS, WINDOWS[1].end_ms), run_id="r", now_ms=START_MS)
    rng, rows, expected = random.Random(3), [], defaultdict(lambda: [0, 0])
    for number in range(500):
        into_ms = rng.choice(
            (rng.randrange(HOUR_MS), rng.randrange(60) * MINUTE_MS, rng.randrange(1, 61) * MINUTE_MS - 1)
        )
        broker, size = rng.randrange(-1, 3), rng.randrange(1, 1 << 31)
        is_outlier, is_later, is_stamped = (rng.random() < part for part in (0.1, 0.2, 0.9))
        window = WINDOWS[is_later]
        at = {"base_offset": number, "leader_id": broker, "size_bytes": size, "is_time_outlier": is_outlier}
        at |= {"max_timestamp": instant_of(window.start_ms + into_ms) if is_stamped else None}
        rows.append(zero_row(RECORD_BATCHES, window.start_ms, **at))
        if broker >= 0 and is_stamped and not is_outlier and not is_later:
            sums = expected[into_ms // MINUTE_MS, broker]
            sums[0], sums[1] = sums[0] + size, sums[1] + size * size
    run.replace(RECORD_BATCHES, rows, WINDOWS)
    found = sum_slots(run, WINDOWS[0]).select("slot", "broker_id", "size_bytes", "squared").rows()
    assert sorted(found) == sorted((*place, size, float(squared)) for place, (size, squared) in expected.items())

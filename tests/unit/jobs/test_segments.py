"""Which of all segments that ever were are asked about. Oracle: worked out by hand on a few rows."""

import pytest

from pipeline.jobs import measure_rules
from pipeline.model.window import HOUR_MS, TimeWindow, instant_of
from pipeline.runs import plan_runs
from pipeline.storage.frames import rows_of
from pipeline.storage.rows import load_rows, merge_rows, replace_rows
from pipeline.tables.bronze import CLUSTER_STATE, LOG_SEGMENTS
from pipeline.tables.health import RULE_MEASURES, TOPIC_HEALTH
from tests.unit.jobs.one_cluster import write_config

START_MS = 1_795_251_600_000
_ZERO = {"bigint": 0, "string": "", "boolean": False, "double": None}


def row_of(table, **own):
    row = {column.name: _ZERO.get(column.type) for column in table.columns if not column.nullable}
    return {**row, "cluster": "lab", "topic": "a", "topic_id": "", **own}


@pytest.mark.parametrize(
    ("kept_ms", "counts"),
    [
        (None, [3.0, 2.0]),
        ("1", [3.0, 2.0]),
        ("-1", [0.0, 0.0]),
        ("9223372036854775807", [0.0, 0.0]),
        ("9" * 5_000, [0.0, 0.0]),
    ],
)
def test_segments_past_retention_are_those_still_in_their_logs(tmp_path, kept_ms, counts):
    """Whatever one host says of a topic's retention; Python reads no number of so many digits."""
    config = write_config(tmp_path)
    windows = [TimeWindow(START_MS + hour * HOUR_MS, START_MS + (hour + 1) * HOUR_MS) for hour in range(2)]
    starts = [instant_of(window.start_ms) for window in windows]
    state = [
        row_of(
            CLUSTER_STATE,
            window_start=start,
            replica_id=1,
            leader_id=1,
            log_start_offset=offset,
            configs=kept_ms and {"retention.ms": kept_ms},
        )
        for start, offset in zip(starts, (100, 200), strict=True)
    ]
    health = [row_of(TOPIC_HEALTH, window_start=start, placement="keys") for start in starts]
    for table, rows in ((CLUSTER_STATE, state), (TOPIC_HEALTH, health)):
        replace_rows(rows_of(table, rows, run_id="r"), config.warehouse, table, cluster="lab", windows=windows)
    over, later = instant_of(START_MS - HOUR_MS), instant_of(START_MS + 5 * HOUR_MS)
    segments = [
        row_of(LOG_SEGMENTS, broker_id=broker, base_offset=first, last_offset=last, deletable_at=at, size_bytes=5)
        for broker, first, last, at in (
            (1, 0, 99, over),  # deleted before the first window
            (1, 100, 199, over),  # deleted in the second
            (1, 200, 299, over),
            (1, 300, None, over),  # its batches were not read: judged by its name
            (1, 400, 499, later),
            (2, 200, 299, over),  # of a broker that holds no replica
        )
    ]
    merge_rows(rows_of(LOG_SEGMENTS, segments, run_id="r"), config.warehouse, LOG_SEGMENTS)
    (run,) = plan_runs(config, TimeWindow(START_MS, windows[-1].end_ms), run_id="r", now_ms=windows[-1].end_ms)

    measure_rules.run(run, windows)

    found = load_rows(config.warehouse, RULE_MEASURES, where="rule = 'segments_past_retention'").sort_by("window_start")
    assert found["value"].to_pylist() == counts

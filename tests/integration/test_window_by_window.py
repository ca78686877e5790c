"""Three runs of a window each leave what one run over all of them leaves. Oracle: the ranged run.

The smaller capture still has what could tell them apart: leaders' and followers' replicas, control batches, segments
that span windows, counters that need the scrape before, an incident that opens, goes on and ends.
"""

import pytest

from tests.spark.capture_runs import ALL_SOURCES, MINUTE_MS, SCRAPES, differences, plan, run_all, stored

TOPICS = ("orders", "audit", "ledger", "codec-zstd")
ONE_OF_ONE = {"k": 1, "n": 1}
"""So that an incident opens, goes on and ends within three windows."""


@pytest.fixture(scope="module")
def part(capture, tmp_path_factory):
    return capture.part(tmp_path_factory.mktemp("part") / "capture", topics=TOPICS, scrapes=SCRAPES)


@pytest.fixture(scope="module")
def span(capture, manifest):
    """The last two minutes in which broker 1 is slow and the one after."""
    well_again = capture.minute_of(manifest["slow"]["to_ms"])
    return capture.span(well_again - 2, well_again + 1)


@pytest.fixture(scope="module")
def ranged(spark, part, span, tmp_path_factory):
    config = part.write_config(tmp_path_factory.mktemp("ranged"), topics=TOPICS, sources=ALL_SOURCES, gate=ONE_OF_ONE)
    return run_all(spark, plan(config, span, now_ms=part.recorded_until_ms), check_data=False)


@pytest.fixture(scope="module")
def one_by_one(spark, part, span, tmp_path_factory):
    config = part.write_config(
        tmp_path_factory.mktemp("one-by-one"), topics=TOPICS, sources=ALL_SOURCES, gate=ONE_OF_ONE
    )
    return [
        run_all(spark, plan(config, window, run_id=str(window), now_ms=part.recorded_until_ms), check_data=False)
        for window in span.split(MINUTE_MS)
    ]


def test_every_table_is_equal_in_its_stable_columns(ranged, one_by_one):
    assert differences(one_by_one[-1].warehouse, ranged.warehouse) == {}


def test_the_same_mails_leave_each_when_its_window_is_run(ranged, one_by_one):
    ids = [[message.message_id for message, _ in ran.deliveries] for ran in one_by_one]
    assert [message_id for told in ids for message_id in told] == [
        message.message_id for message, _ in ranged.deliveries
    ]
    assert max(len(told) for told in ids) == 1
    opened = stored(ranged.warehouse, "gold.incidents", "window_start")
    minutes = [minute for minute, told in enumerate(ids) if told]
    assert [row["window_start"].timestamp() * 1000 for row in opened] == [
        ranged.context.span.start_ms + minute * MINUTE_MS for minute in minutes
    ]

"""A minute of the capture in which broker 1 is slow, replayed with other leaders. Oracle: the real broker and client.

`orders` has a partition on each broker, and its sticky client gives broker 1 more than 60 %.
"""

import dataclasses

import pytest

from pipeline.jobs.replay import WindowReplay
from tests.engines import sail

SLOW_MINUTE, SEEDS = 4, 3
AS_IT_WAS = {("orders", number): number for number in range(3)}


@pytest.fixture(scope="module")
def window_replay(ingested):
    config = ingested.context.config
    settings = config.replay.model_copy(update={"seeds": SEEDS})
    window = ingested.context.windows[SLOW_MINUTE]
    context = dataclasses.replace(
        ingested.context, config=config.model_copy(update={"replay": settings}), windows=(window,)
    )
    return WindowReplay(sail(), context, window)


def test_with_the_leaders_as_they_were_the_slow_broker_has_what_was_recorded(window_replay):
    found = window_replay.replay(AS_IT_WAS, {})
    low, share, high = found.shares["orders"][1]
    assert low <= share <= high
    assert share > 0.6
    assert found.reason == ""


def test_the_slow_brokers_load_does_not_go_with_its_partition_to_a_new_broker(window_replay):
    """If it stayed with the partition, broker 3 would have more than 60 %."""
    shares = window_replay.replay({("orders", 1): 3}, {}, {3: ""}).shares["orders"]
    assert shares[3][1] == pytest.approx(1 / 3, abs=0.05)
    assert shares.get(1, (0.0, 0.0, 0.0))[2] == 0


def test_a_doubted_replay_has_a_wider_range(window_replay):
    moved = {("orders", 0): 1}
    plain, wide = (window_replay.replay(moved, errors).shares["orders"][1] for errors in ({}, {"orders": 0.05}))
    assert wide == pytest.approx((plain[0] - 0.05, plain[1], min(1.0, plain[2] + 0.05)))
    assert plain[1] > 0.75  # two of three partitions, on the slow one


def test_topics_that_nobody_simulates_are_named(window_replay):
    found = window_replay.replay({("no-such-topic", 0): 1}, {})
    assert found.shares == {}

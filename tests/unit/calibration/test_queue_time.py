"""Linger where batches leave it open, by what the producer says of their wait."""

import dataclasses

import pytest

from pipeline.calibration.caveats import Origin
from pipeline.calibration.partitioner.baseline import Baseline
from pipeline.calibration.partitioner.linger_waits import Waiting, settle_linger
from pipeline.calibration.partitioner.settings import Setting

OPEN = Setting("0", Origin.DEFAULT, 0.0, 7.0)


def baseline(strategy="java-builtin", linger=OPEN, **changes):
    found = Baseline(
        strategy, "kafka-clients", "3.9.1", "3.3 to 3.9", {"linger.ms": linger}, 0.9, "", Origin.INFERRED, "why"
    )
    return dataclasses.replace(found, **changes)


def test_batches_that_waited_make_it_the_client_that_waits():
    """Bursts seven milliseconds apart: a batch is a burst with linger 5 and without. They waited 6.9 ms on average."""
    found = settle_linger(baseline(), Waiting(queue_time_ms=6.9, under_way=2.2))

    assert (found.version, found.config) == ("4.1.1", {})
    assert found.settings["linger.ms"] == Setting("5", Origin.DEFAULT, 0.0, 7.0)
    assert "6.9 ms" in found.reason


def test_an_old_client_that_waited_was_told_to():
    """Its default is not to."""
    found = settle_linger(baseline("java-sticky-2.4", version="3.2.3"), Waiting(queue_time_ms=5.1, under_way=0.4))

    assert (found.version, found.config) == ("3.2.3", {"linger.ms": "5"})


@pytest.mark.parametrize(
    ("changes", "queue_time_ms", "under_way"),
    [
        ({}, 1.1, 3.0),
        ({}, 4.6, 0.5),
        ({}, 7.5, 3.0),  # batches wait for their turn
        ({}, None, 0.5),
        ({}, 6.0, None),
        ({"linger": Setting("0", Origin.DEFAULT, 0.0, 4.0)}, 6.0, 0.5),  # batches tell it is less
        ({"linger": Setting("5", Origin.DEFAULT, 3.0, 7.0)}, 6.0, 0.5),
        ({"linger": Setting("0", Origin.INFERRED, 0.0, 7.0)}, 6.0, 0.5),
        ({"source": Origin.CONFIGURED}, 6.0, 0.5),
        ({"client": "librdkafka"}, 6.0, 0.5),
    ],
)
def test_elsewhere_the_wait_says_nothing(changes, queue_time_ms, under_way):
    """The baseline stays as batches told it."""
    found = baseline(**changes)

    assert settle_linger(found, Waiting(queue_time_ms=queue_time_ms, under_way=under_way)) is found


WIDE = Setting("0", Origin.DEFAULT, 0.0)


@pytest.mark.parametrize(
    ("linger", "queue_time_ms", "least_latency_ms", "found"),
    [
        (WIDE, 3001.3, 4.4, Setting("3000", Origin.INFERRED, 0.0)),  # three seconds, set
        (OPEN, 5.7, 2.7, Setting("5", Origin.DEFAULT, 0.0, 7.0)),  # 4.1.1, warm
        (OPEN, 8.4, 24.8, Setting("0", Origin.UNKNOWN, 0.0, 7.0)),  # 3.9.1 without linger, while brokers start
        (WIDE, 41.6, 52.7, Setting("0", Origin.UNKNOWN, 0.0)),  # 4.1.1 with 5 ms, while brokers start
        (WIDE, 8.0, 2.7, Setting("0", Origin.UNKNOWN, 0.0)),  # neither 5 nor 10
    ],
)
def test_the_wait_is_linger_only_where_a_broker_answers_sooner(linger, queue_time_ms, least_latency_ms, found):
    """Waits and latencies of the committed capture's clients, whose settings are known."""
    waiting = Waiting(queue_time_ms=queue_time_ms, under_way=0.9, least_latency_ms=least_latency_ms)
    assert settle_linger(baseline(linger=linger), waiting).settings["linger.ms"] == found


def test_long_spans_are_not_linger_where_every_broker_takes_longer():
    """As in the capture's first minute: 66 ms were inferred where 5 are set."""
    linger = Setting("66", Origin.UNKNOWN, 60.8, 71.0)
    waiting = Waiting(least_under_way=2.3, least_latency_ms=417.6)
    settled = settle_linger(baseline(linger=linger), waiting)
    assert settled.settings["linger.ms"] == Setting("0", Origin.UNKNOWN, 0.0, 71.0)


LONG = Setting("500", Origin.UNKNOWN, 341.0)


@pytest.mark.parametrize(
    ("linger", "least_under_way", "found"),
    [
        (LONG, 4.6, Setting("0", Origin.UNKNOWN, 0.0)),  # as on a real cluster whose brokers took 10 s a request
        (Setting("20", Origin.INFERRED, 18.0, 22.0), 3.0, Setting("0", Origin.UNKNOWN, 0.0, 22.0)),
        (LONG, 0.4, Setting("500", Origin.INFERRED, 341.0)),
        (Setting("20", Origin.INFERRED, 18.0, 22.0), 2.4, Setting("20", Origin.INFERRED, 18.0, 22.0)),
        (LONG, None, LONG),
    ],
)
def test_batches_that_waited_for_every_broker_say_nothing_of_linger(linger, least_under_way, found):
    """They do where some broker takes its requests at once."""
    waiting = Waiting(least_under_way=least_under_way)
    settled = settle_linger(baseline("java-sticky-2.4", version="3.2.3", linger=linger), waiting)

    assert settled.settings["linger.ms"] == found

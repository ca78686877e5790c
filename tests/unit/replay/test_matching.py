"""Which client of the metrics is which producer of the log, over ranges of windows; and what others lend it."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.calibration.caveats import Caveat, Origin
from pipeline.calibration.service.model import Parameter, assume_service
from pipeline.model.window import TimeWindow
from pipeline.replay.metrics import SessionMetrics, fit_sessions, share_models
from pipeline.replay.recorded import MOST_SESSIONS, SLOTS, ClientNode, Recording

MINUTE_MS = 60_000
APP, OTHER = ("host:1", "app"), ("host:1", "other")


def session(window, producer_id, loads, *, epoch=0, slots=None):
    key = (window * MINUTE_MS, producer_id, epoch, "", "")
    even = np.full(SLOTS, sum(loads.values()) // SLOTS)
    by_slot = even if slots is None else slots
    return SimpleNamespace(key=key, start_ms=key[0], bytes_by_broker=loads, bytes_by_slot=by_slot)


def node(window, broker_id, sent_bytes, **others):
    told = {"window_start_ms": window * MINUTE_MS, "client_id": "app", "covered_ms": MINUTE_MS, "request_count": 0}
    return ClientNode(broker_id=broker_id, outgoing_bytes=sent_bytes, **{**told, **others})


def fit_one(one, *nodes, client=APP):
    """The metrics of one session in the minute from 60 s on."""
    recording = Recording(windows=(), window_ms=MINUTE_MS, nodes={MINUTE_MS: {client: list(nodes)}})
    (found,) = fit_sessions(recording, [one]).values()
    return found


def scraped(inner_bytes, *at_s):
    """What was sent between the first and the last scrape."""
    from_ms, until_ms = (round(1000 * one) for one in at_s)
    return {"inner_bytes": inner_bytes, "inner_from_ms": from_ms, "inner_until_ms": until_ms}


RAMP = np.linspace(0, 2_000, SLOTS).astype(np.int64)  # 239,883 bytes, three quarters in the second half
LATE = np.where(np.arange(SLOTS) < 20, 0, 1_000)  # begins 5 s after the window


@pytest.mark.parametrize(
    ("slots", "sent", "inner", "expected"),
    [
        (LATE, 200_000, scraped(198_000, 66, 115.5), 0.0),
        (LATE, 200_000, scraped(178_200, 66, 115.5), 0.1),
        (RAMP, 250_000, scraped(98_000, 66, 96), 0.042),
        (RAMP, 240_000, scraped(230_000, 75, 118), 0.1),
        (LATE, 200_000, {}, 0.091),
    ],
    ids=[
        *("a run that begins within the window, scraped every 5 s", "the same by another client"),
        *("less than half of the bytes lie between: all count", "most of them, and they are too many"),
        "one scrape in the window: all count",
    ],
)
def test_metrics_of_a_part_of_a_window_are_compared_over_that_part(slots, sent, inner, expected):
    found = fit_one(session(1, 7, {0: int(slots.sum())}, slots=slots), node(1, 0, sent, **inner))
    assert found.client_id == "app"
    assert found.total_difference_ratio == pytest.approx(expected, abs=0.01)


def test_a_broker_whose_counter_is_scraped_for_a_shorter_time():
    """Broker 1 was first scraped 15 s after broker 0; over all of the minute the client sent 60,000 bytes."""
    nodes = (node(1, 0, 29_500, **scraped(29_000, 61, 119)), node(1, 1, 25_000, **scraped(21_500, 76, 119)))
    found = fit_one(session(1, 7, {0: 30_000, 1: 30_000}), *nodes)
    assert found.total_difference_ratio == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize(
    ("changed", "client_id", "count"),
    [
        pytest.param({}, "b", 3, id="the sum of all is the producer's"),
        pytest.param({"c": 90_000}, None, 0, id="the sum is more"),
        pytest.param({"followed": ("a",)}, None, 3, id="the sum is right, requests are not followed"),
    ],
)
def test_a_producer_that_stands_for_several_has_all_their_metrics(changed, client_id, count):
    sizes = {"a": 40_000, "b": 60_000, "c": changed.get("c", 20_000)}
    stored = {MINUTE_MS: {(name, name): [node(1, 0, size)] for name, size in sizes.items()}}
    requests = {(name, name): [] for name in changed.get("followed", sizes)}
    recording = Recording(windows=(), window_ms=MINUTE_MS, nodes=stored, requests=requests)
    (found,) = fit_sessions(recording, [session(1, -1, {0: 120_000})]).values()
    assert found.client_id == client_id
    assert len(found.clients) == len(found.client_bytes) == count
    assert found.weights == ((60_000, 40_000, 20_000) if count else ())
    assert bool(found.spare_client_count) == (count == 0)
    assert found.total_difference_ratio == (pytest.approx(0, abs=0.01) if count else None)


def test_what_is_no_batch_in_a_request_grows_with_the_client_id():
    """4,000 requests with a batch of 150 bytes each: with 65 bytes for each name the sums would differ by 16 %."""
    name = "payments-service-eu-west-1-7f9c-producer"
    sent = node(1, 0, 4_000 * (150 + 34 + 16 + len(name)), client_id=name, request_count=4_000)
    found = fit_one(session(1, 7, {0: 600_000}), sent, client=("host:1", name))
    assert found.client_id == name
    assert found.total_difference_ratio == pytest.approx(0, abs=0.01)


def fit(sessions, nodes):
    """Client and number of spare ones by window, producer id and epoch; `nodes` are bytes by window, client and broker."""
    stored = {}
    for window, clients in nodes.items():
        of_client = {c: [node(window, broker, sent) for broker, sent in loads.items()] for c, loads in clients.items()}
        stored[window * MINUTE_MS] = of_client
    windows = tuple(TimeWindow(start_ms, start_ms + MINUTE_MS) for start_ms in {one.start_ms for one in sessions})
    found = fit_sessions(Recording(windows=windows, window_ms=MINUTE_MS, nodes=stored), sessions)
    return {(at // MINUTE_MS, *of): (own.client_id, own.spare_client_count) for (at, *of, _, _), own in found.items()}


LOAD = {0: 100_000, 1: 50_000}


@pytest.mark.parametrize(("latency", "queue", "found"), [(3.0, 2.0, 5.0), (3.0, None, None), (None, 2.0, None)])
def test_records_take_the_time_in_the_queue_and_that_of_the_request(latency, queue, found):
    told = {"request_rate_per_s": 10.0, "request_latency_avg_ms": latency, "queue_time_avg_ms": queue}
    assert fit_one(session(1, 7, {0: 60_000}), node(1, 0, 60_000, **told)).latency_avg_ms == found


@pytest.mark.parametrize(
    ("rates", "latencies", "found"),
    [
        ((10, 10), (3.0, 3.0), 5.0),
        ((10, 10), (90.0, 3.0), None),
        ((10, None), (3.0, 3.0), None),
        ((0, 0), (3.0, 3.0), None),
    ],
    ids=["alike", "other just before", "without a rate", "without a request"],
)
def test_what_a_latency_holds_of_the_window_before(rates, latencies, found):
    nodes = {
        number * MINUTE_MS: {
            APP: [
                node(number, 1, 60_000, request_rate_per_s=rate, request_latency_avg_ms=latency, queue_time_avg_ms=2.0)
            ]
        }
        for number, (rate, latency) in enumerate(zip(rates, latencies, strict=True))
    }
    recording = Recording(windows=(), window_ms=MINUTE_MS, nodes=nodes)
    (metrics,) = fit_sessions(recording, [session(1, 7, {1: 60_000})]).values()
    assert metrics.latency_avg_ms == found


def test_a_client_that_is_watched_for_the_last_windows_only():
    """As where Prometheus was started later, or was away."""
    found = fit([session(window, 7, LOAD) for window in range(6)], {5: {APP: LOAD}})
    assert found == {**{(window, 7, 0): (None, 0) for window in range(5)}, (5, 7, 0): ("app", 0)}


def test_epochs_of_one_producer_are_one_client():
    """A producer's epoch rises when a batch of it expired: as a broker was killed."""
    sessions = [session(0, 7, LOAD), session(1, 7, {0: 60_000}), session(1, 7, {0: 40_000, 1: 50_000}, epoch=1)]
    found = fit([*sessions, session(2, 7, LOAD, epoch=1)], {window: {APP: LOAD} for window in range(3)})
    assert set(found.values()) == {("app", 0)}
    assert len(found) == 4


def test_a_client_that_was_restarted_is_two_producers():
    sessions = [*(session(window, 7, LOAD) for window in (0, 1)), *(session(window, 8, LOAD) for window in (2, 3))]
    assert set(fit(sessions, {window: {APP: LOAD} for window in range(4)}).values()) == {("app", 0)}


def test_two_producers_at_once_are_not_one_client():
    found = fit([session(0, 7, LOAD), session(0, 8, LOAD)], {0: {APP: LOAD}})
    assert sorted(found.values(), key=str) == [("app", 0), (None, 0)]


def test_batches_whose_leader_is_not_known_may_lie_on_any_broker():
    """After a broker was killed the leaders of earlier epochs are not known any more."""
    found = fit([session(0, 7, {0: 100_000, -1: 50_000})], {0: {APP: {0: 110_000, 1: 20_000, 2: 25_000}}})
    assert found == {(0, 7, 0): ("app", 0)}


def test_what_is_sent_a_window_late_is_found_in_the_sum():
    """Brokers took ten seconds a request: half of what was created in a window was sent in the next one."""
    sessions = [session(window, 7, LOAD) for window in range(4)]
    late = {broker: size // 2 for broker, size in LOAD.items()}
    more = {broker: 3 * size // 2 for broker, size in LOAD.items()}
    found = fit(sessions, {0: {APP: late}, 1: {APP: more}, 2: {APP: late}, 3: {APP: more}})
    assert set(found.values()) == {("app", 0)}


def test_who_was_there_all_the_time_is_the_client_that_was():
    """Producers that join and send alike are not scraped: they fit the client's last window better than its own."""
    sessions = [session(window, 7, {0: 95_000, 1: 50_000}) for window in range(4)]
    found = fit([*sessions, session(3, 8, LOAD)], {window: {APP: LOAD} for window in range(4)})
    assert found == {**{(window, 7, 0): ("app", 0) for window in range(4)}, (3, 8, 0): (None, 0)}


@pytest.mark.parametrize(("sent", "spare"), [({0: 9_000, 1: 0}, 0), ({0: 200_000, 1: 400_000}, 1)])
def test_a_client_speaks_against_the_log_only_if_it_may_have_sent_as_much(sent, spare):
    """One that sends next to nothing is no reason to doubt who sent the rest."""
    assert fit([session(0, 7, LOAD)], {0: {OTHER: sent}}) == {(0, 7, 0): (None, spare)}


def test_clients_that_an_exporter_made_up_crowd_out_no_others_and_are_not_compared_without_end():
    made_up = {("host:2", f"c{number}"): {0: 10_000_000 + number} for number in range(MOST_SESSIONS)}
    small = {("host:2", "small"): {0: 1_000, 1: 0}}
    found = fit([session(0, 7, LOAD), session(0, 8, {0: 1_000})], {0: {APP: LOAD} | made_up | small})
    assert found == {(0, 7, 0): ("app", MOST_SESSIONS), (0, 8, 0): (None, MOST_SESSIONS + 1)}


def test_a_producer_without_metrics_gets_the_delays_that_brokers_have_for_others():
    delay = Parameter(100.0, 90.0, 110.0, Origin.MEASURED)
    slow = dataclasses.replace(assume_service(1), delay_ms=delay, is_identifiable=True, assumptions=())
    models = {0: assume_service(0), 1: slow}
    watched, unwatched, later = (0, 7, 0, "", ""), (0, 8, 0, "", ""), (MINUTE_MS, 8, 0, "", "")
    assumed = {broker: assume_service(broker) for broker in models}
    unknown = dict.fromkeys((unwatched, later), SessionMetrics(assumed, is_watched=True))
    known = {watched: SessionMetrics(models, client_id="app", is_watched=True)}
    found = share_models(known | unknown, {watched: 100, unwatched: 500, later: 500})
    assert found[watched].models == models
    lent = found[unwatched].models[1]
    assert (lent.delay_ms.value, lent.delay_ms.source) == (100.0, Origin.INFERRED)
    assert [said.kind for said in lent.assumptions] == [Caveat.DELAY_OF_OTHERS]
    assert found[unwatched].models[0] == assume_service(0)
    assert found[later].models == assumed

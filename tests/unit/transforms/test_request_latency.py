"""Kafka's trailing averages taken apart; oracle: `SampledStat` and `Avg` written plainly."""

import numpy as np
import polars as pl
import pytest

from pipeline.codec.metrics.metric_names import APP_INFO_PREFIX, CLIENT_PREFIX, NODE_PREFIX
from pipeline.transforms.latency import measure_requests, take_apart
from pipeline.transforms.producer_nodes import LABELS
from tests.memory import tracing_memory

LABELS_ARE_TEXTS = dict.fromkeys(LABELS, pl.String)
SCRAPE_MS = 5_000
LEVELS_MS = (400.0, 3.0, 3.0, 80.0, 3.0, 20.0, 3.0, 3.0, 150.0, 3.0) * 5  # for 5 s each


class SampledAverage:
    """`Avg` over `metrics.num.samples` of 30 s; of newer clients a sample lives for 60 s after its last event."""

    def __init__(self, *, by_last_event: bool) -> None:
        self._samples: list[list[float]] = []  # begin, last event, sum, count, longest
        self._by_last_event = by_last_event

    def record(self, at_ms: float, value: float) -> None:
        if not self._samples or at_ms - self._samples[-1][0] >= 30_000:
            self._samples = [*self._samples[-2:], [at_ms, at_ms, 0.0, 0, 0.0]]
        begin, _, total, count, longest = self._samples[-1]
        self._samples[-1] = [begin, at_ms, total + value, count + 1, max(longest, value)]

    def measure(self, now_ms: float) -> tuple[float, float]:
        kept = [each for each in self._samples if now_ms - each[1 if self._by_last_event else 0] < 60_000]
        count = sum(each[3] for each in kept)
        if not count:
            return np.nan, np.nan
        return sum(each[2] for each in kept) / count, max(each[4] for each in kept)


def scrape(*, by_last_event: bool, since_ms: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows of instant, count, average and longest, and the true mean of each interval; scraped from `since_ms` on."""
    chance = np.random.default_rng(3)
    average, rows, true, count = SampledAverage(by_last_event=by_last_event), [], [], 0
    events = np.sort(chance.uniform(1_000, len(LEVELS_MS) * SCRAPE_MS, 40 * 5 * len(LEVELS_MS)))
    for now_ms in np.arange(0, (len(LEVELS_MS) + 1) * SCRAPE_MS, SCRAPE_MS):
        took = []
        for at_ms in events[(events >= now_ms - SCRAPE_MS) & (events < now_ms)]:
            took.append(LEVELS_MS[int(at_ms // SCRAPE_MS)] * chance.exponential())
            average.record(float(at_ms), took[-1])
        count += len(took)
        if now_ms >= since_ms:
            rows.append((float(now_ms), float(count), *average.measure(float(now_ms))))
            true.append(np.mean(took) if took else np.nan)
    return np.array(rows), np.array(true[1:])


@pytest.mark.parametrize("by_last_event", [False, True])
def test_each_interval_has_its_own_mean(by_last_event):
    rows, true = scrape(by_last_event=by_last_event, since_ms=0)
    off = np.abs(take_apart(*rows.T) - true) / np.maximum(true, 3.0)
    trailing = np.abs(rows[1:, 2] - true) / np.maximum(true, 3.0)
    assert np.median(off) < 0.2
    assert np.median(trailing) > 10


def test_a_connection_older_than_the_first_scrape_is_left_alone():
    rows, _ = scrape(by_last_event=True, since_ms=90_000)
    assert np.isnan(take_apart(*rows.T)).all()


def test_a_day_without_a_scrape_takes_no_more_memory_than_minutes_without_one():
    """Samples that still count then began minutes before, whatever a server says of the time before."""
    rows, _ = scrape(by_last_event=True, since_ms=0)
    peaks = []
    for pause_ms in (300_000, 86_400_000):
        paused = rows.copy()
        paused[0, 0] -= pause_ms
        with tracing_memory() as peak_bytes:
            assert np.isfinite(take_apart(*paused.T)).all()
            peaks.append(peak_bytes())
    assert peaks[1] < 6 * peaks[0]  # what else this worker runs counts, too


def test_nothing_counted_has_no_mean():
    nothing = np.full(3, np.nan)
    assert np.isnan(take_apart(np.array([0.0, 5e3, 1e4]), np.zeros(3), nothing, nothing)).all()


def samples(name: str, values: list[float]) -> list[dict[str, object]]:
    return [
        {"source": "s", "instance": "i", "observed_at_ms": 5_000 * number, "name": name, "value": value}
        | {**dict.fromkeys(LABELS), "client_id": "c", "node_id": "node-7"}
        for number, value in enumerate(values)
    ]


def test_few_requests_share_a_span_and_waits_have_no_broker():
    table = pl.DataFrame(
        samples(f"{NODE_PREFIX}request_total", [0, 100, 104, 200])
        + samples(f"{NODE_PREFIX}outgoing_byte_total", [0, 1e4, 1e4, 2e4])
        + samples(f"{NODE_PREFIX}request_latency_avg", [np.nan, 3.0, 3.0, 3.0])
        + samples(f"{NODE_PREFIX}request_latency_max", [np.nan, 9.0, 9.0, 9.0])
        + samples(f"{CLIENT_PREFIX}record_queue_time_avg", [np.nan, 5.0, 5.0, 5.0])
        + samples(f"{CLIENT_PREFIX}record_queue_time_max", [np.nan, 7.0, 7.0, 7.0]),
        schema_overrides=LABELS_ARE_TEXTS,
    )
    found = measure_requests(table.with_columns(pl.col("value").fill_nan(None)))
    assert found.select("broker_id", "start_ms", "end_ms", "request_count", "latency_ms").rows() == [
        (None, 0, 5_000, 100, pytest.approx(5.0)),
        (None, 5_000, 15_000, 100, pytest.approx(5.0)),
        (7, 0, 5_000, 100, pytest.approx(3.0)),
        (7, 5_000, 15_000, 100, pytest.approx(3.0)),
    ]


@pytest.mark.parametrize(("started_ms", "is_followed"), [(-20_000, True), (-50_000, False), (None, False)])
def test_a_client_that_has_just_started_is_followed_from_its_start(started_ms, is_followed):
    values = {"request_total": [100, 200], "outgoing_byte_total": [1e4, 2e4]}
    values |= {"request_latency_avg": [3.0, 3.0], "request_latency_max": [9.0, 9.0]}
    rows = [row for name, told in values.items() for row in samples(f"{NODE_PREFIX}{name}", told)]
    if started_ms is not None:
        rows += samples(f"{APP_INFO_PREFIX}start_time_ms", [started_ms, started_ms])
    table = pl.DataFrame(rows, schema_overrides=LABELS_ARE_TEXTS, strict=False)
    found = measure_requests(table).filter(pl.col("broker_id") == 7).select("start_ms", "end_ms", "latency_ms").rows()
    assert found == ([(started_ms, 0, pytest.approx(3.0)), (0, 5_000, pytest.approx(3.0))] if is_followed else [])

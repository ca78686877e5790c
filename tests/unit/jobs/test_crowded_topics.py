"""Topics to which very many producers wrote, each of which would cost time and memory. Oracle: written out by hand."""

from types import SimpleNamespace

import pyarrow as pa

from pipeline.jobs.replay import load
from pipeline.model.window import TimeWindow, instant_of

NOON_MS, HOUR_MS = 43_200_000, 3_600_000


def test_topics_with_the_most_producers_are_left_out_until_few_are_left(monkeypatch):
    """One client can take a new producer id for each batch; what others write is replayed."""
    written = [("crowded", NOON_MS, 20 + n) for n in range(5)] + [("honest", NOON_MS, n) for n in (1, 2, 20)]
    written += [("crowded", NOON_MS + HOUR_MS, 1)] + [("__consumer_offsets", NOON_MS, 50 + n) for n in range(9)]
    rows = [(instant_of(at), topic, "id", producer, 0, instant_of(at), 7) for topic, at, producer in written]
    batch = pa.RecordBatch.from_pylist([dict(zip(load._LISTED_COLUMNS, row, strict=True)) for row in rows])
    monkeypatch.setattr(load, "list_data_files", lambda *_: ["file"])
    monkeypatch.setattr(load, "iter_file_rows", lambda *_: [batch])
    monkeypatch.setattr(load, "MOST_SESSIONS", 3)
    run = SimpleNamespace(warehouse="", cluster_name="demo", window_ms=HOUR_MS)
    windows = [TimeWindow(at, at + HOUR_MS) for at in (NOON_MS, NOON_MS + HOUR_MS)]
    sessions, minutes, crowded = load._list_arrivals(run, windows, {(NOON_MS, "honest", "id"): 49})
    assert sessions == {(NOON_MS, n, 0): 7 for n in (1, 2, 20)} | {(NOON_MS + HOUR_MS, 1, 0): 7}
    assert minutes.keys() == {(NOON_MS, "honest", "id"), (NOON_MS + HOUR_MS, "crowded", "id")}
    assert crowded == {(NOON_MS, "crowded", "id"): 5}
    wide = {(at, "crowded", "id"): 150 for at in (NOON_MS, NOON_MS + HOUR_MS)}  # a producer counts four times
    assert load._list_arrivals(run, windows, wide)[2] == {
        (NOON_MS, "crowded", "id"): 5,
        (NOON_MS + HOUR_MS, "crowded", "id"): 1,
    }

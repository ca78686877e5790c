"""Plays a series of records as `PlayTraffic.java` does, by librdkafka and its default partitioner.

``rdkafka_traffic.py SETTINGS_FILE TOPIC WARM_UP_TOPIC SERIES_FILE START_FILE LATENCIES_FILE STATISTICS_FOLDER``; its
statistics, every five seconds, are kept as the library hands them over. There is nothing to compile, so the warm-up
topic gets nothing. It waits in whole milliseconds.
"""

import sys
import time
from pathlib import Path

import numpy as np
from confluent_kafka import Producer, libversion

ARRIVAL = np.dtype([("due_ns", ">i8"), ("value_bytes", ">i4"), ("key", ">i4")])
FILLER = b"x" * (1 << 20)


class Player:
    """One producer and the times of its records."""

    def __init__(self, settings: dict[str, str], statistics: Path, count: int) -> None:
        self.times = np.full((count, 2), -1, np.int64)
        self.failed = 0
        self._statistics = statistics
        statistics.mkdir(parents=True, exist_ok=True)
        self.producer = Producer({**settings, "statistics.interval.ms": 5000, "stats_cb": self._keep})

    def play(self, topic: str, series: np.ndarray, start_ms: int) -> None:
        """Send every record at its instant, and wait for all answers."""
        start_ns = start_ms * 1_000_000
        for number, (due_ns, value_bytes, key) in enumerate(series.tolist()):
            while (left_ns := start_ns + due_ns - time.time_ns()) > 0:
                self.producer.poll(max(left_ns / 1e9, 1e-3))  # below 1 ms it does not wait at all
            name = None if key < 0 else b"key-%05d" % key
            self.times[number, 0] = time.time_ns() - start_ns
            self.producer.produce(topic, key=name, value=FILLER[:value_bytes], on_delivery=self._note(number, start_ns))
        self.producer.flush(30)

    def _note(self, number: int, start_ns: int):
        def note(error: object, _message: object) -> None:
            if error is None:
                self.times[number, 1] = time.time_ns() - start_ns - self.times[number, 0]
            else:
                self.failed += 1

        return note

    def _keep(self, text: str) -> None:
        (self._statistics / f"{time.time_ns() // 1_000_000}.json").write_text(text)


def main(words: list[str]) -> None:
    """Play what the arguments say."""
    settings_file, topic, _warm_up, series_file, start_file, latencies_file, statistics = words
    settings = dict(line.split("=", 1) for line in Path(settings_file).read_text().splitlines())
    series = np.fromfile(series_file, ARRIVAL)
    print("warm", flush=True)
    while not Path(start_file).exists():
        time.sleep(0.02)
    start_ms = int(Path(start_file).read_text())
    player = Player(settings, Path(statistics), len(series))
    player.producer.list_topics(topic, timeout=20)
    print(f"ready librdkafka={libversion()[0]}", flush=True)
    player.play(topic, series, start_ms)
    player.times.astype(">i8").tofile(latencies_file)
    print(f"sent acked={len(series) - player.failed} failed={player.failed}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

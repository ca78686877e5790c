"""A librdkafka producer with its default partitioner: ``librdkafka_load.py BOOTSTRAP FROM_MS TO_MS RATE STATISTICS``.

With "-" for both instants they are read from standard input after "ready" is printed. Its statistics, every five seconds, go to the folder named last, one file each, as the library hands them over.
"""

import random
import sys
import time
from pathlib import Path

from confluent_kafka import Producer, libversion

TOPIC = "devices"
KEY_COUNT = 500
VALUE = b'{"topic":"devices","note":"every value is the same"}'.ljust(200, b".")


def main(bootstrap: str, instants: list[str], rate_per_s: float, statistics: Path) -> None:
    """Produce keyed records at a steady rate between two instants."""
    statistics.mkdir(parents=True, exist_ok=True)
    outcome = {"acked": 0, "failed": 0}

    def count(error: object, _message: object) -> None:
        outcome["failed" if error else "acked"] += 1

    def keep(text: str) -> None:
        (statistics / f"{time.time_ns() // 1_000_000}.json").write_text(text)

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "devices-rdkafka",
            "statistics.interval.ms": 5000,
            "stats_cb": keep,
            "on_delivery": count,
        }
    )
    producer.list_topics(TOPIC, timeout=20)
    rng = random.Random(TOPIC)
    print(f"ready librdkafka={libversion()[0]}", flush=True)
    from_ms, to_ms = map(int, sys.stdin.readline().split() if instants == ["-", "-"] else instants)
    for number in range(round((to_ms - from_ms) / 1000 * rate_per_s)):
        due_ms = from_ms + (number + rng.random()) / rate_per_s * 1000
        while (left_ms := due_ms - time.time_ns() / 1e6) > 0:
            producer.poll(max(left_ms, 1) / 1000)  # below 1 ms it does not wait at all
        producer.produce(TOPIC, key=f"device-{rng.randrange(KEY_COUNT):05d}", value=VALUE)
    producer.flush(30)
    print(f"sent topic={TOPIC} acked={outcome['acked']} failed={outcome['failed']}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:4], float(sys.argv[4]), Path(sys.argv[5]))

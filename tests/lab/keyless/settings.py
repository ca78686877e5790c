"""One setting for each client, drawn by a seeded law before anything was run."""

import math
import random
from typing import Any, NamedTuple

SEED = 20261122
SECONDS = 15
LEADERS = (0, 0, 0, 1, 1, 1, 1, 2, 2, 2)
SLOW = 1
CLIENTS = (
    "librdkafka",
    "librdkafka, random",
    "node-rdkafka",
    "franz-go, uniform bytes",
    "franz-go, sticky key",
    "franz-go, least backup",
    "Sarama, random",
    "Sarama, round robin",
    "kafka-go, round robin",
    "kafka-go, least bytes",
    "KafkaJS",
    "kafka-python",
    "aiokafka",
)


class KeylessSetting(NamedTuple):
    """What a client is given."""

    client: str
    rate: int  # records a second, in bursts of `burst`
    burst: int
    bytes: int  # of the smallest value
    step: int  # value number n is `n * 7 % 11` steps larger
    linger_ms: int  # -1: the client's default
    delay_ms: int  # of each answer of broker `SLOW`

    @property
    def count(self) -> int:
        """Records of a run."""
        return self.rate * SECONDS

    def describe(self) -> str:
        """Formats it for a table."""
        linger = "default linger" if self.linger_ms < 0 else f"linger {self.linger_ms} ms"
        if self.client == "KafkaJS":
            linger = "a call for each burst"
        sizes = f"{self.bytes} to {self.bytes + 10 * self.step} B"
        return f"{self.rate}/s in bursts of {self.burst}, {sizes}, {linger}, +{self.delay_ms} ms"

    def encode(self, bootstrap: str, topic: str) -> dict[str, Any]:
        """What its program is given."""
        return {**self._asdict(), "count": self.count, "bootstrap": bootstrap, "topic": topic}


def draw_setting(client: str) -> KeylessSetting:
    """Draws a client's setting; others do not move when clients are added.

    Two of them never wait for a broker: what is slower than their requests come would fall behind without end. They send
    half as many as broker `SLOW` can answer, one at a time.
    """
    rng = random.Random(f"{SEED} {client}")
    drawn = KeylessSetting(
        client,
        rate=rng.randint(300, 1500),
        burst=rng.choice((1, 2, 5, 10)),
        bytes=rng.randint(50, 400),
        step=rng.randint(0, 40),
        linger_ms=rng.choice((-1, 0, 5, 20, 50)),
        delay_ms=rng.randint(10, 40),
    )
    if client == "KafkaJS":  # a request for each call
        return drawn._replace(burst=math.ceil(2 * drawn.rate * drawn.delay_ms / 1000))
    if client == "librdkafka, random":  # a request for each partition and linger
        return drawn._replace(linger_ms=2 * LEADERS.count(SLOW) * drawn.delay_ms)
    return drawn

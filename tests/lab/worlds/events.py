"""What happens to a small Kafka: what is sent to it, and what its brokers, disks and operators do."""

import random
from collections.abc import Callable
from functools import partial

from pipeline.model.window import MINUTE_MS
from tests.lab.worlds.kafka import Kafka
from tests.lab.worlds.logs import Log
from tests.unit.sources.collected.disks import FIRST_MS, HOUR_MS

WINDOWS = 4
END_MS = FIRST_MS + WINDOWS * HOUR_MS
Acts = list[tuple[int, Callable[[], object]]]


def draw_configs(chance: random.Random) -> dict[str, str]:
    """Draws a topic's settings."""
    kinds = [{}, {}, {"retention.ms": str(chance.choice((30, 90, 150)) * MINUTE_MS)}, {"cleanup.policy": "compact"}]
    kinds.append({"retention.bytes": str(chance.choice((10_000, 40_000)))})
    return chance.choice(kinds) | chance.choice(({}, {"unclean.leader.election.enable": "true"}))


def send(kafka: Kafka, weights: dict[Log, int], off: float) -> None:
    """Producers send to all partitions, to each as much as it gets."""
    chance = kafka.chance
    for log in kafka.logs:
        weight = weights.setdefault(log, chance.choice((100, 300, 1000, 3000)))
        is_off = chance.random() < off
        kafka.send(log, weight + chance.randrange(weight), chance.randint(-3, 3) * HOUR_MS // 2 if is_off else 0)


def _death(kafka: Kafka, at_ms: int) -> Acts:
    broker = kafka.chance.choice([*kafka.disks])
    back_ms = at_ms + kafka.chance.choice((2, 20, 70, 500)) * MINUTE_MS
    acts = [(at_ms, partial(kafka.die, broker))]
    if kafka.chance.random() < 0.3:
        acts.append(((at_ms + back_ms) // 2, partial(kafka.unregister, broker)))
    return [*acts, (back_ms, partial(kafka.come_back, broker))] if back_ms < END_MS else acts


def _on_a_log(name: str) -> Callable[[Kafka, int], Acts]:
    def act(kafka: Kafka, at_ms: int) -> Acts:
        return [(at_ms, lambda: getattr(kafka, name)(kafka.chance.choice(kafka.logs)))]

    act.__name__ = f"_{name}"
    return act


def _recreation(kafka: Kafka, at_ms: int) -> Acts:
    topic = kafka.chance.choice([*kafka.topics])
    count = kafka.chance.randint(1, 3)

    def act() -> None:
        if topic in kafka.topics:
            kafka.delete(topic)
        kafka.create(topic, count, kafka.chance.randint(1, 3), {})

    return [(at_ms, act)]


def _deletion(kafka: Kafka, at_ms: int) -> Acts:
    topic = kafka.chance.choice([*kafka.topics])
    return [(at_ms, lambda: kafka.delete(topic) if topic in kafka.topics and len(kafka.topics) > 1 else None)]


def _restarts(kafka: Kafka, at_ms: int) -> Acts:
    """Each broker is restarted, one after another; then who is preferred leads again."""
    acts: Acts = [(at_ms + 30 * MINUTE_MS, lambda: [kafka.prefer(log) for log in kafka.logs])]
    for number, broker in enumerate([*kafka.disks][:-1]):
        begin_ms = at_ms + 5 * number * MINUTE_MS
        acts += [(begin_ms, partial(kafka.die, broker)), (begin_ms + MINUTE_MS, partial(kafka.come_back, broker))]
    return acts


def _growth(kafka: Kafka, at_ms: int) -> Acts:
    topic = kafka.chance.choice([*kafka.topics])
    count, copies = kafka.chance.randint(1, 2), kafka.chance.randint(1, 2)
    return [(at_ms, lambda: kafka.add_partitions(topic, count, copies) if topic in kafka.topics else None)]


def _compaction(kafka: Kafka, at_ms: int) -> Acts:
    return [(at_ms, lambda: [kafka.compact(log) for log in kafka.logs])]


def _failure(kafka: Kafka, at_ms: int) -> Acts:
    return [(at_ms, partial(kafka.fail_disk, kafka.chance.choice([*kafka.disks])))]


def _joining(kafka: Kafka, at_ms: int) -> Acts:
    return [(at_ms, partial(kafka.come_back, max(kafka.disks)))]


def _snapshot(kafka: Kafka, at_ms: int) -> Acts:
    return [(at_ms, kafka.take_snapshot)]


EVENTS = (
    *(_death, _death, _death, *map(_on_a_log, ("move", "move", "move", "reassign", "reassign", "purge"))),
    *(
        _restarts,
        _deletion,
        _on_a_log("tier"),
        _recreation,
        _growth,
        _compaction,
        _snapshot,
        _failure,
        _joining,
        _on_a_log("move_disk"),
    ),
)

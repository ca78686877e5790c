"""Where real clients place fresh random keys, asked live; oracle of the strategies, which share no code with them.

The Java, Go and Node programs in `clients/` speak one protocol: partition counts as arguments, a key in hex a line in,
`strategy, partitions, key, partition` a line out. librdkafka and kafka-python are asked in this process.
"""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from kafka.partitioner.default import DefaultPartitioner

from pipeline.partitioners.assignment import NO_PARTITION, assign_partitions
from pipeline.partitioners.registry import find_strategy
from tests.lab.artifacts import class_path, client_artifacts, java_program, run_download
from tests.lab.process import PATIENCE_S

CLIENTS = Path(__file__).parent / "clients"
COUNTS = (1, 2, 3, 7, 12, 16, 1000)
SEED = 20261128 if "CI" in os.environ else int.from_bytes(os.urandom(4))
"""At a desk anew for every run; a failure prints it."""


def make_keys(seed, number):
    """Texts and bytes of 1 to 40 bytes, and the empty key."""
    rng = random.Random(seed)
    texts = [f"{rng.choice(('user', 'заказ', '键'))}-{rng.randrange(10**9)}".encode() for _ in range(number // 2)]
    return [b"", *texts, *(rng.randbytes(rng.randint(1, 40)) for _ in range(number // 2))]


KEYS = make_keys(SEED, 1000)


def ask(command, cwd=None):
    """What a program answers: partitions by (strategy, partition count), in the order of the keys."""
    lines = "".join(f"{key.hex()}\n" for key in KEYS)
    done = subprocess.run(
        [*command, *map(str, COUNTS)], input=lines, capture_output=True, text=True, check=False, cwd=cwd
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = {}
    for line in done.stdout.splitlines():
        strategy, count, _, partition = line.split("\t")
        answers.setdefault((strategy, int(count)), []).append(int(partition))
    return answers


def compare(answers, keys=KEYS):
    """Strategies whose answer to some key is another one, with the key; where the key does not decide, any answer fits."""
    wrong = []
    column = pa.array(keys, pa.binary())
    for (name, count), partitions in answers.items():
        assert len(partitions) == len(keys)
        ours = assign_partitions(find_strategy(name), column, count).tolist()
        wrong += [
            (name, count, key.hex(), theirs, mine)
            for key, theirs, mine in zip(keys, partitions, ours, strict=True)
            if theirs != mine != NO_PARTITION
        ][:1]
    return wrong


@pytest.mark.parametrize(
    ("program", "version"), [("BuiltIn", "3.9.1"), ("BuiltIn", "4.1.1"), ("Sticky", "3.2.3"), ("Sticky", "3.9.1")]
)
def test_java(program, version):
    jars = class_path(client_artifacts(version))
    answers = ask([java_program(), "-Xmx256m", "-cp", jars, CLIENTS / f"java/{program}.java"])
    assert len(answers) == len(COUNTS)
    assert compare(answers) == [], f"seed {SEED}"


def test_franz_go_sarama_and_kafka_go(tmp_path):
    program = tmp_path / "answer"
    built = run_download(["go", "build", "-o", program, "."], cwd=CLIENTS / "go")
    assert built.returncode == 0, built.stderr[-2000:]
    answers = ask([program])
    assert {name.split("-")[0] for name, _ in answers} == {"franz", "sarama", "kafka"}
    assert compare(answers) == [], f"seed {SEED}"


def test_kafkajs(tmp_path):
    shutil.copytree(CLIENTS / "node", tmp_path / "node")
    installed = run_download(["npm", "ci", "--no-audit", "--no-fund"], cwd=tmp_path / "node")
    assert installed.returncode == 0, installed.stderr[-2000:]
    answers = ask(["node", "answer.mjs"], cwd=tmp_path / "node")
    assert {name for name, _ in answers} == {"kafkajs", "kafkajs-legacy", "kafkajs-uint8array"}
    assert compare(answers) == [], f"seed {SEED}"


@pytest.mark.parametrize("partitioner", ["consistent", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random"])
def test_librdkafka(partitioner):
    """Produced through its own mock cluster, whose topics have 4 partitions unless told otherwise."""
    producer = Producer(
        {"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "partitioner": partitioner, "linger.ms": 5}
    )
    placed = {}
    for number, key in enumerate(KEYS):
        producer.produce(
            "t", b"", key=key, on_delivery=lambda error, message, at=number: placed.update({at: message.partition()})
        )
    assert producer.flush(PATIENCE_S) == 0
    count = len(producer.list_topics("t", timeout=PATIENCE_S).topics["t"].partitions)
    assert count > 1
    answers = {(f"librdkafka-{partitioner}", count): [placed[number] for number in range(len(KEYS))]}
    assert compare(answers) == [], f"seed {SEED}"


class OneTopic:
    """A view of the cluster as kafka-python's partitioner asks for it."""

    def __init__(self, count):
        self.partitions = set(range(count))

    def topics(self):
        return {"t"}

    def partitions_for_topic(self, topic):
        return self.partitions

    available_partitions_for_topic = partitions_for_topic


def test_kafka_python():
    chooser = DefaultPartitioner()
    answers = {
        ("kafka-python", count): [chooser.partition("t", key, key, None, None, OneTopic(count)) for key in KEYS]
        for count in COUNTS
    }
    assert compare(answers) == [], f"seed {SEED}"

"""Consumer assignors. Oracle: the classes of kafka-clients and of the group coordinator 4.1.1, over random groups.

Members come in ascending order: which of two in one bucket of a hash map comes first hangs on nothing that we can know.
"""

import random
import subprocess
from pathlib import Path

from pipeline.measures.assignors import ASSIGNORS, assign_consumers
from tests.lab.artifacts import BROKER, class_path, java_program

PROGRAM = Path(__file__).parent.parent / "lab" / "Assignors.java"


def random_group(rng):
    counts = {f"topic-{n}": rng.randint(1, 12) for n in range(rng.randint(1, 4))}
    members = [
        f"{rng.choice(['reader', 'c', 'consumer-b'])}-{rng.getrandbits(64):016x}" for _ in range(rng.randint(1, 20))
    ]
    everything = [(topic, number) for topic, count in counts.items() for number in range(count)]
    rng.shuffle(everything)
    owned = {member: [] for member in members}
    for partition in everything[: rng.randint(0, len(everything))]:
        owned[rng.choice(members)].append(partition)
    return rng.choice((*ASSIGNORS, "broker-range")), counts, owned


def format_group(assignor, counts, owned):
    topics = " ".join(f"{topic}={count}" for topic, count in counts.items())
    members = " ".join(f"{m}={','.join(f'{topic}:{n}' for topic, n in parts)}" for m, parts in sorted(owned.items()))
    return f"{assignor}|{topics}|{members}"


def parse_assignment(line):
    members = (member.split("=") for member in line.split(" "))
    return {
        member: sorted((part.rpartition(":")[0], int(part.rpartition(":")[2])) for part in parts.split(",") if part)
        for member, parts in members
    }


def test_every_member_reads_what_kafkas_own_assignors_give_it():
    rng = random.Random(7)
    groups = [random_group(rng) for _ in range(1_200)]
    command = [java_program(), "-Xmx256m", "-cp", class_path(BROKER), PROGRAM]
    text = "".join(f"{format_group(*group)}\n" for group in groups)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    answers = done.stdout.splitlines()
    for (assignor, counts, owned), answer in zip(groups, answers, strict=True):
        numbers = {topic: range(count) for topic, count in counts.items()}
        found = assign_consumers(assignor.removeprefix("broker-"), numbers, owned, owned)
        assert {m: sorted(parts) for m, parts in found.items()} == parse_assignment(answer), (assignor, counts, owned)

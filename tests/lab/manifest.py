"""The manifest: what ran, in which versions, with which settings, when, and how many records were acknowledged."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

from tests.lab import traffic
from tests.lab.artifacts import BROKER_VERSION, java_program
from tests.lab.clients import LIBRDKAFKA_PROCESS
from tests.lab.recording import METADATA, WINDOW_MS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.recording import Recording


def describe(recording: Recording, acked: Mapping[str, int]) -> dict[str, object]:
    """The manifest's content.

    Args:
        recording: a capture whose traffic is over.
        acked: topic → records acknowledged.
    """
    return {
        "format": 1,
        "cluster_id": recording.cluster.cluster_id,
        "clock": {
            "window_ms": WINDOW_MS,
            "start_ms": recording.start_ms,
            "end_ms": recording.end_ms,
            "recorded_until_ms": recording.recorded_until_ms,
        },
        "slow": {
            "broker_id": traffic.SLOW_BROKER,
            "from_ms": recording.at_minute(recording.slow_minutes[0]),
            "to_ms": recording.at_minute(recording.slow_minutes[1]),
            "produce_delay_ms": traffic.SLOW_MS,
        },
        "versions": {
            "kafka": BROKER_VERSION,
            "java": _read_java_version(),
            "jmx_prometheus_javaagent": "1.0.1",
            "librdkafka": _search(r"librdkafka=(\S+)", recording.output(LIBRDKAFKA_PROCESS).read_text()),
        },
        "topics": {topic.name: [list(replicas) for replicas in topic.placement] for topic in traffic.TOPICS},
        "broker_settings": recording.cluster.settings,
        "producers": [
            producer | {"acked_count": acked[str(producer["topic"])]} for producer in recording.producers
        ],
        "consumer_groups": {traffic.GROUP: {"topic": traffic.GROUP_TOPIC, "members": list(traffic.GROUP_MEMBERS)}},
        "transactions": _read_transactions(recording),
        "tools": recording.tools,
        "missed_scrapes": {
            str(target.folder.relative_to(recording.folder)): target.failures
            for target in recording.targets
            if target.failures
        },
        "notes": [
            "Brokers were stopped cleanly before their directories were taken,",
            f"except {METADATA}, copied at recorded_until_ms while all brokers were up.",
        ],
    }  # fmt: skip


def _read_transactions(recording: Recording) -> dict[str, dict[str, int]]:
    text = "".join(recording.output(name).read_text() for name in traffic.KEYED_PROCESSES)
    found = re.findall(r"^sent topic=(\S+) .* committed=(\d+) aborted=(\d+)", text, re.MULTILINE)
    return {
        topic: {"committed_count": int(committed), "aborted_count": int(aborted)}
        for topic, committed, aborted in found
        if int(committed) + int(aborted) > 0
    }


def _read_java_version() -> str:
    done = subprocess.run([str(java_program()), "-version"], capture_output=True, text=True, check=True)
    return done.stderr.splitlines()[0]


def _search(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found is not None, pattern
    return found[1]

"""The capture's slow minutes: what an old client's run tells of itself, and of two newer clients that really ran beside it.

Oracle: the real clients and brokers. `orders` (3.2.3), `refunds` (3.9.1) and `payments` (4.1.1) get the same traffic at the
same time; in four minutes broker 1 answers 20 ms late. Of the other two nothing is read but the bytes of their batches.
"""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.calibration.partitioner.baseline import identify_baseline
from pipeline.calibration.service.fit import NodeMetrics, fit_services
from pipeline.calibration.service.latency_fit import sharpen_services
from pipeline.calibration.service.trial import SessionTopic, cut_topic
from pipeline.config.replay import Candidate
from pipeline.replay.loads import expect_range
from pipeline.replay.sessions import describe_session
from pipeline.replay.simulated.arrivals import prepare_arrivals
from pipeline.replay.simulated.plan import GroupTopic, SessionGroup
from pipeline.replay.simulated.runs import CELL_LOG_BYTES, run_group
from tests.recorded_sessions import read_sessions
from tests.unit.replay.session_groups import lay_out

BROKERS, SLOW = (0, 1, 2), 1
MINUTE_MS = 60_000
SEEDS = range(1, 21)
IN_USE = "orders"
MOST_POINTS_OFF = 1.5
NEWER = {
    "refunds": Candidate(name="3.9.1", client="3.9.1", config={"linger.ms": 0}),
    "payments": Candidate(name="4.1.1", client="4.1.1", config={"linger.ms": 5}),
}
NODE = re.compile(
    r"^kafka_producer_producer_node_metrics_(request|request_latency_avg|outgoing_byte)(?:_total)?"
    r'\{.*?node_id="node-(\d)".*?\} (\S+)$',
    re.MULTILINE,
)


@dataclass(frozen=True)
class Recorded:
    """The capture: the old client's session and metrics, all clients' batches, the slow time."""

    topic: SessionTopic
    nodes: list[NodeMetrics]
    batches: dict
    slow_ms: tuple[int, int]

    def observe(self, name: str, start_ms: int, end_ms: int) -> np.ndarray:
        """Share of the log's bytes by broker."""
        own = self.batches[name]
        own = own.select((own.max_ms >= start_ms) & (own.max_ms < end_ms))
        sizes = np.bincount(own.leader, own.size_bytes, len(BROKERS))
        return sizes / sizes.sum()


@pytest.fixture(scope="module")
def recorded(capture_folder) -> Recorded:
    slow = json.loads((capture_folder / "manifest.json").read_text())["slow"]
    found = {}
    for name in (IN_USE, *NEWER):
        directories = [(name, each, each, capture_folder / f"brokers/{each}/{name}-{each}") for each in BROKERS]
        [found[name]] = read_sessions(directories).values()
    traffic, batches = found[IN_USE]
    topic = SessionTopic(traffic, batches, BROKERS, identify_baseline(traffic, batches, len(BROKERS)))
    span = range(slow["from_ms"] - MINUTE_MS, slow["to_ms"], MINUTE_MS)
    nodes = [node for start_ms in span for node in read_minute(capture_folder / "scrapes/producers" / IN_USE, start_ms)]
    return Recorded(topic, nodes, {name: own for name, (_, own) in found.items()}, (slow["from_ms"], slow["to_ms"]))


def read_minute(folder: Path, start_ms: int) -> list[NodeMetrics]:
    """A minute of scrapes: counters from the last one before it to its own last one, averages of all its own."""
    times = sorted(int(page.stem) for page in folder.glob("*.prom"))
    first = max(at_ms for at_ms in times if at_ms < start_ms)
    pages = {
        at_ms: {(name, int(node)): float(value) for name, node, value in NODE.findall((folder / f"{at_ms}.prom").read_text())}
        for at_ms in times
        if first <= at_ms < start_ms + MINUTE_MS
    }  # fmt: skip  # a page a line
    last = max(pages)
    found = []
    for node in BROKERS:
        requests, size = (pages[last][name, node] - pages[first][name, node] for name in ("request", "outgoing_byte"))
        latency = np.mean([page["request_latency_avg", node] for at_ms, page in pages.items() if at_ms >= start_ms])
        rate = requests / (last - first) * 1000
        found.append(NodeMetrics(node, start_ms, start_ms + MINUTE_MS, rate, float(latency), size / requests))
    return found


def predict(recorded: Recorded, start_ms: int, end_ms: int, candidate: Candidate | None) -> tuple[np.ndarray, ...]:
    """Low end, median and high end of each broker's share, from the old client's window alone."""
    topic = cut_topic(recorded.topic, start_ms, end_ms)
    nodes = [node for node in recorded.nodes if start_ms - MINUTE_MS <= node.start_ms < end_ms]
    models = sharpen_services([topic], fit_services(nodes, BROKERS, start_ms, end_ms), nodes, start_ms, end_ms)
    traffic = replace(topic.traffic, start_ms=start_ms, elapsed_ms=(topic.traffic.at_ms - start_ms).astype(np.int32))
    session = describe_session(start_ms, end_ms - start_ms, traffic, topic.batches, topic.baseline)
    group = SessionGroup(0, start_ms, (session,), (GroupTopic(IN_USE, "", BROKERS),), models)
    arrivals = prepare_arrivals(group, [traffic])
    planned = lay_out(group, arrivals, candidate)
    runs = np.array([run_group(planned, arrivals, seed)[0].cells[:, CELL_LOG_BYTES] for seed in SEEDS], float)
    return expect_range(runs / runs.sum(axis=1, keepdims=True), most=1.0)


def list_windows(recorded: Recorded) -> list[tuple[int, int]]:
    """The slow minutes, one by one and together."""
    first_ms, last_ms = recorded.slow_ms
    return [(at_ms, at_ms + MINUTE_MS) for at_ms in range(first_ms, last_ms, MINUTE_MS)] + [recorded.slow_ms]


def test_the_old_clients_shares_are_told_in_every_slow_minute(recorded):
    """A clock lets a record go every two milliseconds; those that go together have to share a batch."""
    for window in list_windows(recorded):
        _, median, _ = predict(recorded, *window, None)
        error_points = 100 * np.abs(median - recorded.observe(IN_USE, *window))
        assert error_points.max() <= MOST_POINTS_OFF, window


def test_the_newer_clients_real_shares_lie_in_the_ranges_told(recorded):
    """Nine of ten should, minute by minute; over the four minutes, with their many draws, all do.

    The one outside is `refunds` in the last minute: about 225 of 590 draws fell on one of three partitions, 2.5 standard
    deviations more than a third.
    """
    outside = []
    for name, candidate in NEWER.items():
        for window in list_windows(recorded):
            low, _, high = predict(recorded, *window, candidate)
            real = recorded.observe(name, *window)
            if not (low[SLOW] <= real[SLOW] <= high[SLOW]):
                outside.append((name, window))
            if window == recorded.slow_ms:
                assert ((low <= real) & (real <= high)).all(), name
    assert len(outside) <= 1

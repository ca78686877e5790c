"""Real runs and the committed capture: who was in use, and the proxy's delay, found from logs and metrics alone."""

import json
import re
from pathlib import Path

import pytest

from pipeline.calibration.limits import HALF
from pipeline.calibration.partitioner.baseline import Baseline, identify_baseline
from pipeline.calibration.service.batch_fit import choose_variant
from pipeline.calibration.service.fit import NodeMetrics, fit_services
from pipeline.calibration.service.latency_fit import sharpen_services
from pipeline.calibration.service.model import assume_service
from pipeline.calibration.service.trial import SessionTopic, cut_topic
from pipeline.calibration.session_traffic import SessionBatches, SessionTraffic
from tests.golden.runs import RUNS
from tests.recorded_sessions import read_sessions

BROKERS = (0, 1, 2)
NODE = re.compile(
    r"^producer-node-metrics:(request-rate|request-latency-avg):\{.*node-id=node-(\d)\}\s*: ([\d.]+)", re.M
)
STRATEGIES = {"3.2.3": "java-sticky-2.4", "3.9.1": "java-builtin", "4.1.1": "java-builtin"}
ADAPTIVE_KEY = "partitioner.adaptive.partitioning.enable"


def read_run(folder: Path) -> tuple[dict, SessionTraffic, SessionBatches, list[NodeMetrics]]:
    """A recorded run: what was run, its session, what its client's metrics said at the end."""
    told = json.loads((folder / "run.json").read_text())
    logs = [(int(log.name.rpartition("-")[2]), log) for log in sorted(folder.glob("log-*/*"))]
    directories = [(told["topic"], partition, partition, log) for partition, log in logs]
    [(traffic, batches)] = read_sessions(directories).values()
    values: dict[int, dict[str, float]] = {}
    for name, node, value in NODE.findall((folder / "producer0.out").read_text()):
        values.setdefault(int(node), {})[name] = float(value)
    nodes = [
        NodeMetrics(each, told["start_ms"], told["end_ms"], found["request-rate"], found["request-latency-avg"])
        for each, found in values.items()
    ]
    return told, traffic, batches, nodes


def rule_confidence(baseline: Baseline) -> float:
    """How sure the switching rule is: of the built-in partitioner's variants either is as likely as not."""
    return baseline.confidence / (HALF if baseline.strategy == "java-builtin" else 1)


@pytest.mark.parametrize("name", RUNS)
def test_a_real_run_is_read_back(run_folder, name):
    told, traffic, batches, nodes = read_run(run_folder)
    [producer] = told["producers"]
    config, window = producer["props"], (told["start_ms"], told["end_ms"])
    baseline = identify_baseline(traffic, batches, 3)
    assert baseline.strategy == STRATEGIES[producer["client_version"]]
    assert baseline.version == producer["client_version"]
    assert rule_confidence(baseline) > 0.94
    linger_ms = float(config.get("linger.ms", 5 if producer["client_version"] == "4.1.1" else 0))
    assert float(baseline.settings["linger.ms"].value) == linger_ms
    assert baseline.settings["batch.size"].value == config.get("batch.size", "16384")

    topic = SessionTopic(traffic, batches, BROKERS, baseline)
    models = sharpen_services([topic], fit_services(nodes, BROKERS, *window), nodes, *window)
    assert models[0].delay_ms.value == pytest.approx(20, abs=1)
    assert [models[each].delay_ms.value for each in (1, 2)] == [0, 0]
    chosen = choose_variant([topic], models, *window)
    is_uniform = config.get(ADAPTIVE_KEY) == "false"
    assert chosen.strategy == ("java-builtin-uniform" if is_uniform else baseline.strategy)


@pytest.mark.parametrize("name", ["A_2048_a_r3", "B_2048_k39_l20_b32k"])
def test_without_metrics_a_flat_fit_is_refused(run_folder, name):
    """Full batches whatever the delay; or a linger as long as the delay, which then shows nowhere."""
    told, traffic, batches, _ = read_run(run_folder)
    topic = SessionTopic(traffic, batches, BROKERS, identify_baseline(traffic, batches, 3))
    assumed = {each: assume_service(each) for each in BROKERS}
    models = sharpen_services([topic], assumed, [], told["start_ms"], told["end_ms"])
    assert not any(model.is_identifiable for model in models.values())
    assert all(len(model.assumptions) > 1 for model in models.values())


STICKY_RANGE = "3.0.1 to 3.2, or 3.3 to 3.9 with partitioner.class set, or enable.idempotence set"


@pytest.mark.parametrize(
    ("name", "strategy", "version_range", "linger"),
    [
        ("orders", "java-sticky-2.4", STICKY_RANGE, "0"),
        ("refunds", "java-builtin", "3.3 to 3.9, or linger.ms set", "0"),
        ("payments", "java-builtin", "4.0 or later, or linger.ms set", "5"),
    ],
)
def test_every_minute_of_the_capture_tells_its_client(capture_folder, name, strategy, version_range, linger):
    clock = json.loads((capture_folder / "manifest.json").read_text())["clock"]
    directories = [(name, each, each, capture_folder / f"brokers/{each}/{name}-{each}") for each in BROKERS]
    [(traffic, batches)] = read_sessions(directories).values()
    whole = SessionTopic(traffic, batches, BROKERS, identify_baseline(traffic, batches, 3))
    for start_ms in range(clock["start_ms"], clock["end_ms"], clock["window_ms"]):
        minute = cut_topic(whole, start_ms, start_ms + clock["window_ms"])
        found = identify_baseline(minute.traffic, minute.batches, 3)
        assert (found.strategy, found.version_range) == (strategy, version_range), start_ms
        assert found.settings["linger.ms"].value == linger
        assert rule_confidence(found) > 0.94

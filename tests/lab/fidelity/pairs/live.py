"""One trace through two clients for real, and each run replayed from the brokers while they run: ``make fidelity ARGS=--live``.

Unlike the committed pairs nothing is read from disks: the replay asks the running cluster, and takes the producers' exporter
pages as they were scraped. The pair is the one that people ask about: one broker answers 20 ms late, 3.2.3 or 3.9.1.
"""

from __future__ import annotations

import json
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.cli.replay_inputs import CLUSTER
from pipeline.sources.kinds.live_cluster import LiveCluster
from pipeline.storage.session import running_session
from tests.lab.fidelity.arrivals import Series
from tests.lab.fidelity.bed import Bed, start_bed
from tests.lab.fidelity.pairs.compare import format_rows, format_verdict
from tests.lab.fidelity.pairs.pair import SIDES, Client, Pair
from tests.lab.fidelity.pairs.predict import run_replay
from tests.lab.fidelity.pairs.record import SETTINGS, record_side
from tests.lab.fidelity.pairs.report import SEEDS, SPARK
from tests.lab.fidelity.pairs.tables import Recording, compare_pairs
from tests.lab.fidelity.record import describe_bed, warm_up
from tests.lab.fidelity.settings import MIDDLE, OLD, Delay
from tests.lab.recording import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.config.pipeline_config import PipelineConfig

PAIR = Pair(
    "live", (Series("bursts", 1500, 60, burst_records=5),), (Client(OLD),), (Client(MIDDLE),), (Delay(1, 20.0),)
)


def compare_live() -> str:
    """Runs the pair, replays each run from the running brokers, and prints predictions beside what came."""
    with (
        tempfile.TemporaryDirectory(prefix="partition-health-live-") as name,
        start_bed(Path(name), settings=SETTINGS) as bed,
    ):
        say("warming the brokers")
        warm_up(bed)
        described = describe_bed()
        recordings = {(PAIR.name, side): _record(bed, side, Path(name) / side, described) for side in SIDES}
        parts, rows = [], []
        with running_session(SPARK) as spark:
            for table in compare_pairs(spark, recordings, SEEDS, replay=partial(replay_live, bed)):
                parts.append(f"{format_rows(table.title, table.rows)}\n{table.note}")
                print(parts[-1], end="\n\n", flush=True)
                rows += table.rows
    return "\n\n".join([*parts, format_verdict(rows)])


def _record(bed: Bed, side: str, folder: Path, described: dict[str, Any]) -> Recording:
    capture = record_side(bed, PAIR, side, folder, described)
    facts = json.loads((capture / "manifest.json").read_text())
    return Recording(capture, PAIR, side, facts["figures"], facts["is_quiet"])


def replay_live(  # noqa: PLR0917 - as `run_replay`
    bed: Bed, spark: SparkSession, capture: Path, candidates: Path, seeds: int, folder: Path
) -> dict[str, Any]:
    """As `run_replay`, with the records and leaders asked of the brokers; of the disks only the run's time is known."""
    topic = json.loads((capture / "manifest.json").read_text())["topic"]
    brokers = LiveCluster(kind="live_cluster", bootstrap_servers=bed.cluster.internal_bootstrap)

    def ask_brokers(config: PipelineConfig) -> PipelineConfig:
        cluster = config.clusters[CLUSTER]
        sources = (brokers, *(source for source in cluster.sources if not source.bears_records))
        live = cluster.model_copy(update={"sources": sources, "as_of": None})
        return config.model_copy(update={"clusters": {CLUSTER: live}})

    now_ms = time.time_ns() // 1_000_000
    found = run_replay(spark, capture, candidates, seeds, folder, topics=[topic], change=ask_brokers, now_ms=now_ms)
    return found | {"results": [result for result in found["results"] if result["topic"] == topic]}

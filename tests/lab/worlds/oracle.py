"""What must hold of a world, whatever its hostile host and server do.

1. The ingest ends, by itself or by an error that is raised on purpose.
2. Records of the other hosts are as in the sound world, or no verdict can rest on the windows: they are incomplete.
3. Each problem is one row of quarantine, without hidden characters.
"""

import random
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import yaml

from pipeline.config_file import load_config
from pipeline.errors import PipelineError
from pipeline.jobs import ingest
from pipeline.sources.collected.stored_folder import StoredFolder
from tests.engines import sail
from tests.lab.worlds.draw import draw_answer, make_hostile
from tests.spark.capture_runs import plan, stored
from tests.unit.sources.collected.disks import CONFIG, NOW_MS, SPAN
from tests.unit.sources.collected.test_landing import make_three
from tests.unit.sources.http_servers import answering

HOSTILE = "broker-3"
OTHERS = (0, 1)  # partitions that other brokers lead


@dataclass(frozen=True)
class World:
    """How a world ended: `done` or the error's class, what was done to it, and what does not hold."""

    end: str
    faults: list[str]
    wrong: list[str]


class _Ending:
    """Keeps the error that ends a block, whatever it is: an oracle looks for all of them."""

    error: BaseException | None = None

    def __enter__(self) -> None:
        """Begins."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        self.error = error
        return not isinstance(error, KeyboardInterrupt)

    def judge(self) -> list[str]:
        """What is wrong with an error."""
        said = str(self.error)
        if not isinstance(self.error, PipelineError):
            return [f"{type(self.error).__name__}: {said[:300]!r}"]
        return [] if said.isprintable() else [f"an error of several lines, or with hidden characters: {said!r}"]


class SoundWorld:
    """Three honest hosts, collected once; hostile worlds are copies of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "partition-health.yaml").write_text(CONFIG)
        (folder / "secret").write_text("a7" * 32)
        (folder / "secret").chmod(0o600)
        make_three(load_config(folder / "partition-health.yaml"), StoredFolder(str(folder / "landing")), folder)
        run_in(folder)
        self._traffic = read_traffic(folder)
        assert set(self._traffic) == {0, 1, 2}
        assert not is_incomplete(folder)

    def run_hostile(self, seed: int) -> World:
        """Makes the world of a seed and ingests it."""
        chance = random.Random(seed)
        folder = self._folder / f"world-{seed}"
        folder.mkdir()
        for name in ("landing", "secret", "partition-health.yaml"):
            source = self._folder / name
            (shutil.copytree if source.is_dir() else shutil.copy2)(source, folder / name)
        faults = make_hostile(chance, folder / "landing" / HOSTILE)
        ending = _Ending()
        with ending, answering(draw_answer(chance)) as url:
            run_in(folder, url=url if chance.random() < 0.5 else None)
        wrong = self._judge(folder) if ending.error is None else ending.judge()
        shutil.rmtree(folder)
        return World("done" if ending.error is None else type(ending.error).__name__, faults, wrong)

    def _judge(self, folder: Path) -> list[str]:
        wrong = []
        traffic = read_traffic(folder)
        differ = [partition for partition in OTHERS if traffic.get(partition) != self._traffic[partition]]
        if differ and not is_incomplete(folder):
            wrong.append(f"other hosts' partitions {differ} differ, and the windows are complete")
        rows = stored(folder / "w", "bronze.quarantine", "path", "position", "reason")
        if not all((row["path"] + row["reason"]).isprintable() for row in rows):
            wrong.append("hidden characters in quarantine")
        counts = Counter((row["path"], row["position"], row["reason"]) for row in rows)
        wrong += [f"named {count} times: {key}" for key, count in counts.items() if count > 1]
        return wrong


def run_in(folder: Path, url: str | None = None) -> None:
    """Ingests the windows of a world's folder in this process."""
    document = yaml.safe_load(CONFIG)
    sources = document["clusters"]["demo"]["sources"]
    if url is not None:
        sources.append({"kind": "prometheus", "url": url, "access": {"timeout_s": 2, "attempts": 1}})
    (folder / "partition-health.yaml").write_text(yaml.safe_dump(document))
    config = load_config(folder / "partition-health.yaml")
    ingest.run(sail(), plan(config, SPAN, now_ms=NOW_MS))


def read_traffic(folder: Path) -> dict[int, Counter]:
    """Rows of `silver.partition_traffic` by partition, without what a run has of its own."""
    found: dict[int, Counter] = {}
    for row in stored(folder / "w", "silver.partition_traffic"):
        kept = tuple((name, str(value)) for name, value in sorted(row.items()) if name != "run_id")
        found.setdefault(row["partition"], Counter())[kept] += 1
    return found


def is_incomplete(folder: Path) -> bool:
    """Whether every window lacks something of the records' source, so that no verdict rests on it."""
    rows = stored(folder / "w", "bronze.window_status", "source", "expected_count", "arrived_count")
    counts = [(row["arrived_count"], row["expected_count"]) for row in rows if row["source"] == "collected"]
    return all(arrived < expected for arrived, expected in counts)

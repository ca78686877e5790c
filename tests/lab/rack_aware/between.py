"""Bytes between zones of a recorded pair, by the pipeline, by the proxy and by the brokers' own logs: equal to the byte.

`python -m tests.lab.rack_aware.between ARCHIVE...` prints all three for each archive of `make draw ARGS=--zones`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.cli.replay_inputs import read_inputs
from pipeline.config.pipeline_config import Spark
from pipeline.jobs import ingest, replay, score_health
from pipeline.runs import plan_runs
from pipeline.storage.engines import running_engine
from pipeline.storage.window_status import trust_windows
from pipeline.tables.gold import ZONE_TRAFFIC
from tests.lab.archive import unpack
from tests.lab.fidelity.pairs.pair import decode_pair
from tests.lab.fidelity.pairs.record import name_client
from tests.lab.fidelity.pairs.tables import name_zones

if TYPE_CHECKING:
    from collections.abc import Mapping

Ends = tuple[str, str]


def measure_capture(capture: Path, folder: Path) -> tuple[dict[str, Counter[Ends]], Counter[str]]:
    """Bytes by kind and zones, as `gold.zone_traffic` has them, and produced bytes by how their zone is known."""
    manifest = json.loads((capture / "manifest.json").read_text())
    pair = decode_pair(manifest["pair"])
    arguments = argparse.Namespace(
        paths=[capture / "brokers"], metrics=[str(capture / "scrapes")], candidates=None, seeds=1,
        window=None, topics=[manifest["topic"]],
    )  # fmt: skip
    inputs = read_inputs(arguments)
    config = name_zones(inputs.configure(folder), pair).model_copy(update={"candidates": ()})
    (run,) = plan_runs(config, inputs.span, run_id="zones", now_ms=inputs.as_of_ms)
    with running_engine(Spark(engine="sail"), app_name="zones") as spark:
        ingest.run(spark, run)
        trust_windows(run.warehouse, run.cluster_name, run.windows)
        replay.run(spark, run, run.windows)
        score_health.run(spark, run, run.windows)
    found: dict[str, Counter[Ends]] = {"produce": Counter(), "replication": Counter()}
    sources: Counter[str] = Counter()
    for row in run.rows(ZONE_TRAFFIC):
        found[row["kind"]][row["from_zone"], row["to_zone"]] += row["size_bytes"]
        if row["kind"] == "produce":
            sources[row["zone_source"]] += row["size_bytes"]
    return found, sources


def count_by_others(manifest: Mapping[str, Any]) -> dict[str, Counter[Ends]]:
    """The same by what went through the proxy, and by the segments of leaders and followers."""
    pair, told = decode_pair(manifest["pair"]), manifest["zones"]
    zone_of = {name_client(pair, number): zone for number, zone in enumerate(pair.zones)}
    found: dict[str, Counter[Ends]] = {"produce": Counter(), "replication": Counter()}
    for client_id, by_broker in told["sent"].items():
        for broker, size in by_broker.items():
            found["produce"][zone_of[client_id], pair.racks[int(broker)]] += size
    for broker, by_partition in told["replicas"].items():
        for partition, size in by_partition.items():
            leader = pair.leaders[int(partition)]
            if leader != int(broker) and size:
                found["replication"][pair.racks[leader], pair.racks[int(broker)]] += size
    return found


def main() -> int:
    """Compares each archive; 1 where one differs."""
    differs = False
    for archive in map(Path, sys.argv[1:]):
        with tempfile.TemporaryDirectory(prefix="zones-") as place:
            capture = unpack(archive, Path(place) / "capture")
            ours, sources = measure_capture(capture, Path(place) / "tables")
            theirs = count_by_others(json.loads((capture / "manifest.json").read_text()))
        differs |= ours != theirs
        print(archive.name, "equal" if ours == theirs else "DIFFERS", dict(sources))
        for kind in ours:
            print(f"  {kind}: {dict(sorted(ours[kind].items()))}")
            if ours[kind] != theirs[kind]:
                print(f"  others say: {dict(sorted(theirs[kind].items()))}")
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())

"""Bytes between zones of recorded pairs, by the pipeline, by the proxy and by the brokers' own logs: equal to the byte.

`make draw ARGS="--zones --between"` compares all three for each recording of `make draw ARGS=--zones`.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.tables.gold import ZONE_TRAFFIC
from tests.lab.archive import unpack
from tests.lab.fidelity.pairs.pair import BEFORE, ENDING, decode_pair
from tests.lab.fidelity.pairs.record import name_client
from tests.lab.fidelity.pairs.tables import zones_of
from tests.lab.rack_aware.judged import judge_capture
from tests.lab.recording import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Ends = tuple[str, str]
HEAD = (
    "| recording | producers in | leaders on brokers | produced between zones, of all | replicated between zones | proxy and logs |",
    "|---|---|---|---|---|---|",
)


def measure_capture(capture: Path, folder: Path) -> tuple[dict[str, Counter[Ends]], Counter[str]]:
    """Bytes by kind and zones, as `gold.zone_traffic` has them, and produced bytes by how their zone is known."""
    manifest = json.loads((capture / "manifest.json").read_text())
    run = judge_capture(capture, folder, [manifest["topic"]], zones_of(decode_pair(manifest["pair"])))
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


def compare_recordings(archives: Sequence[Path]) -> tuple[str, bool]:
    """A table with a row for each recording, and whether all counts of all of them are equal."""
    rows, are_equal = [*HEAD], True
    for archive in archives:
        with tempfile.TemporaryDirectory(prefix="zones-") as place:
            capture = unpack(archive, Path(place) / "capture")
            manifest = json.loads((capture / "manifest.json").read_text())
            ours, theirs = measure_capture(capture, Path(place) / "tables")[0], count_by_others(manifest)
        if ours != theirs:
            say(f"{archive.name}: we count {ours}, the proxy and the logs {theirs}")
            are_equal = False
        rows.append(_format_row(archive, manifest, ours, is_equal=ours == theirs))
        say(rows[-1])
    return "\n".join(rows), are_equal


def _format_row(
    archive: Path, manifest: Mapping[str, Any], ours: Mapping[str, Counter[Ends]], *, is_equal: bool
) -> str:
    pair, side = decode_pair(manifest["pair"]), manifest["side"]
    is_aware = any("client.rack" in client.config for client in pair.clients(side))
    name = archive.name.removesuffix(f"-{side}{ENDING}").removeprefix("zones-")
    keyed = "; some records have keys" if any(series.keyed_percent for series in pair.traffic) else ""
    where = [f"{', '.join(pair.zones)}{keyed}", ",".join(map(str, pair.leaders))] if side == BEFORE else ["", ""]
    between = {kind: sum(size for (near, far), size in of.items() if near != far) for kind, of in ours.items()}
    cells = [
        f"{name}, {'rack-aware' if is_aware else 'plain'}",
        *where,
        f"{between['produce']:,} of {ours['produce'].total():,}",
        f"{between['replication']:,}" if pair.replicas > 1 else "one replica",
        "equal" if is_equal else "**differ**",
    ]
    return f"| {' | '.join(cells)} |"

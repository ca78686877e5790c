"""Recordings of real runs as committed: settings, versions, machine and figures in one small JSON file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lab.fidelity.arrivals import Series
from tests.lab.fidelity.run import PartitionFigures, RealRun
from tests.lab.fidelity.settings import Delay, PerfLoad, SeriesLoad, Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMITTED = Path(__file__).parents[2] / "golden" / "fidelity.json"
EARLIER = COMMITTED.with_name("fidelity_earlier.json")
"""Draws and repeats that later recordings took the place of; each with the times of the bed then."""


@dataclass(frozen=True)
class Recordings:
    """Real runs of one bed.

    Attributes:
        bed: Machine, versions, date.
        timings: By client version, see `timings.summarise`.
        runs: Settings and what they gave.
    """

    bed: Mapping[str, Any]
    timings: Mapping[str, Mapping[str, Any]]
    runs: tuple[tuple[Setting, RealRun], ...]


def read_recordings(path: Path = COMMITTED) -> Recordings:
    """Reads a file of recordings."""
    data = json.loads(path.read_text())
    runs = tuple((decode_setting(each["setting"]), _decode_run(each["run"])) for each in data["runs"])
    return Recordings(data["bed"], data["timings"], runs)


def write_recordings(recordings: Recordings, path: Path) -> None:
    """Writes them, a run per line."""
    runs = [
        json.dumps({"setting": encode_setting(setting), "run": run.to_json()}, separators=(",", ":"))
        for setting, run in recordings.runs
    ]
    timings = [f"{json.dumps(version)}: {json.dumps(each)}" for version, each in recordings.timings.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'{{"bed": {json.dumps(recordings.bed)},\n"timings": {{\n' + ",\n".join(timings) + '\n},\n"runs": [\n'
        + ",\n".join(runs) + "\n]}\n"
    )  # fmt: skip


def encode_setting(setting: Setting) -> dict[str, Any]:
    """A setting for JSON."""
    return asdict(setting)


def decode_setting(data: Mapping[str, Any]) -> Setting:
    """The setting again."""
    loads = tuple(
        SeriesLoad(load["version"], Series(**load["series"]), load["config"]) if "series" in load else PerfLoad(**load)
        for load in data["loads"]
    )
    delays = tuple(Delay(**delay) for delay in data["delays"])
    return Setting(data["name"], loads, delays, tuple(data["leaders"]))


def _decode_run(data: Mapping[str, Any]) -> RealRun:
    fields = {name: value for name, value in data.items() if name not in ("is_quiet", "partitions")}
    partitions = tuple(PartitionFigures(**each) for each in data["partitions"])
    return RealRun(
        **(fields | {"partitions": partitions, "tools": tuple(data["tools"]), "nodes": tuple(data["nodes"])})
    )

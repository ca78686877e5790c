"""Tables of the committed pairs: each recording replayed as it was and under the other side's clients."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config.sections import Zones
from pipeline.model.promise import Trust
from tests.lab.archive import unpack_once
from tests.lab.fidelity.pairs.compare import PairRow, compare_back_test, compare_change
from tests.lab.fidelity.pairs.figures import measure_plain_bytes
from tests.lab.fidelity.pairs.misses import BACK_TEST, CHANGE
from tests.lab.fidelity.pairs.pair import AFTER, BEFORE, COMMITTED, ENDING, RDKAFKA, SIDES, Pair, decode_pair
from tests.lab.fidelity.pairs.predict import Prediction, read_predictions, run_replay, write_candidates
from tests.lab.fidelity.pairs.record import name_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from pipeline.config.pipeline_config import PipelineConfig
    from tests.lab.fidelity.pairs.pair import Client

    Replaying = Callable[..., dict[str, Any]]

UNPACKED = Path(__file__).parents[4] / "build/pairs"


@dataclass(frozen=True)
class Recording:
    """A run as committed.

    Attributes:
        capture: Where it lies, unpacked.
        pair: What was run.
        side: Whose run this is.
        figures: What it gave.
        is_quiet: Whether others left the machine alone.
    """

    capture: Path
    pair: Pair
    side: str
    figures: Mapping[str, Any]
    is_quiet: bool

    @property
    def other_side(self) -> str:
        """The run that is predicted from this one."""
        return AFTER if self.side == BEFORE else BEFORE


@dataclass(frozen=True)
class PairTable:
    """What is replayed, as which table of `misses.py`, its rows, and the prediction they are of."""

    recording: Recording
    kind: str
    title: str
    rows: Sequence[PairRow]
    prediction: Prediction

    @property
    def is_trusted(self) -> bool:
        """The replay says so."""
        return Trust.of(self.prediction.trust) is Trust.TRUSTED

    @property
    def note(self) -> str:
        """What the replay says of itself."""
        others = (f"  trust in {subject}: {trust}" for subject, trust in self.prediction.trusts.items())
        assumed = (f"  assumed: {each}" for each in self.prediction.assumptions)
        return "\n".join([f"  trust: {self.prediction.trust}", *others, *assumed])

    def trusts(self, subject: str) -> bool | None:
        """Whether the answer to another question than that for shares is trusted; None where it is not answered."""
        trust = self.prediction.trusts.get(subject)
        return None if trust is None else Trust.of(trust) is Trust.TRUSTED


def read_recordings(folder: Path = COMMITTED, beginning: str = "") -> dict[tuple[str, str], Recording]:
    """Every archive of a folder, by pair and side; all, or those whose names begin so."""
    found = {}
    for archive in sorted(folder.glob(f"{beginning}*{ENDING}")):
        capture = unpack_once(archive, UNPACKED)
        facts = json.loads((capture / "manifest.json").read_text())
        pair = decode_pair(facts["pair"])
        for number, partition in enumerate(facts["figures"]["partitions"]):
            partition["plain_bytes"] = measure_plain_bytes(
                capture / f"brokers/{partition['leader']}/{facts['topic']}-{number}"
            )
        found[pair.name, facts["side"]] = Recording(capture, pair, facts["side"], facts["figures"], facts["is_quiet"])
    return found


def compare_pairs(
    spark: SparkSession,
    recordings: Mapping[tuple[str, str], Recording],
    seeds: int,
    only: Sequence[str] = (),
    sides: Sequence[str] = SIDES,
    *,
    replay: Replaying = run_replay,
) -> Iterator[PairTable]:
    """For each recording the back-test, and where its other side is at hand the prediction of that.

    Args:
        spark: Session.
        recordings: What to replay.
        seeds: How many.
        only: Names of pairs; all without.
        sides: Which sides to replay: `AFTER` is the way back.
        replay: As `run_replay`.
    """
    for (name, side), recording in recordings.items():
        if (only and name not in only) or side not in sides:
            continue
        other = recordings.get((name, recording.other_side))
        yield from judge_recording(recording, other, predict(spark, recording, seeds, replay))


def judge_recording(
    recording: Recording, other: Recording | None, found: Mapping[str, Prediction]
) -> Iterator[PairTable]:
    """The tables of a recording and of its other side, if there is one, given the replay's results."""
    pair, name, side = recording.pair, recording.pair.name, recording.side
    clients = [" and ".join(each.describe() for each in pair.clients(which)) for which in SIDES]
    old, new = clients if side == BEFORE else reversed(clients)
    quiet = "" if recording.is_quiet else ", not quiet"
    in_use, candidate = found["in-use"], found.get("after")
    title = f"{name}, {side}, as it was: {old}{quiet} | {pair.describe()}"
    yield PairTable(recording, BACK_TEST, title, compare_back_test(recording.figures, found), in_use)
    if other and candidate:
        quiet = "" if recording.is_quiet and other.is_quiet else ", not quiet"
        title = f"{name}, {old} -> {new}{quiet} | {pair.describe()}"
        yield PairTable(recording, CHANGE, title, compare_change(recording.figures, other.figures, found), candidate)


def predict(
    spark: SparkSession, recording: Recording, seeds: int, replay: Replaying = run_replay
) -> dict[str, Prediction]:
    """The replay's results for a recording: ``in-use``, and ``after`` where the other side is a client's candidate."""
    with tempfile.TemporaryDirectory(prefix="partition-health-pair-") as folder:
        candidates = write_other_side(Path(folder) / "candidates.yaml", recording)
        found = replay(spark, recording.capture, candidates, seeds, Path(folder), **name_reading(recording))
        topic = f"{recording.pair.name}-{recording.side}"  # a cluster's metadata log names others, too
        return read_predictions({"results": [one for one in found["results"] if one["topic"] == topic]})


def name_reading(recording: Recording) -> dict[str, Any]:
    """What a recording needs to be read besides its folder: of brokers in racks its own topic, and its producers' zones."""
    pair = recording.pair
    if not pair.racks:
        return {}
    return {"topics": [f"{pair.name}-{recording.side}"], "change": partial(name_zones, pair=pair)}


def write_other_side(file: Path, recording: Recording) -> Path:
    """The candidates file that asks for the clients of a recording's other side, where one client stands for them."""
    client, *others = (_without_rack(each) for each in recording.pair.clients(recording.other_side))
    if client.version == RDKAFKA or any(each != client for each in others):
        file.write_text("candidates: [{name: no-client, partitioner: java-builtin}]\n")
        return file
    return write_candidates(file, client)


def _without_rack(client: Client) -> Client:
    """The client without the one setting in which rack-aware producers of a pair differ."""
    return replace(client, config={name: value for name, value in client.config.items() if name != "client.rack"})


def zones_of(pair: Pair) -> Zones:
    """The section `zones` with the zone of each producer, by its `client.id`."""
    return Zones(clients={name_client(pair, number): zone for number, zone in enumerate(pair.zones)})


def name_zones(config: PipelineConfig, pair: Pair) -> PipelineConfig:
    """The configuration with the zone of each producer, by its `client.id`."""
    clusters = {name: cluster.model_copy(update={"zones": zones_of(pair)}) for name, cluster in config.clusters.items()}
    return config.model_copy(update={"clusters": clusters})

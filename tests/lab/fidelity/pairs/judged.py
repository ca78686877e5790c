"""Figures of all committed pairs as they were judged: plain values, for tables that hold one state of the code beside another."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config.pipeline_config import Spark
from pipeline.storage.engines import running_engine
from tests.lab.fidelity.pairs.compare import EXACT, SHARE_POINTS
from tests.lab.fidelity.pairs.misses import BACK_TEST
from tests.lab.fidelity.pairs.pair import COMMITTED as PAIRS
from tests.lab.fidelity.pairs.predict import ingest_capture, read_predictions, replay_ingested
from tests.lab.fidelity.pairs.report import DIRECTION, is_figure_trusted
from tests.lab.fidelity.pairs.tables import judge_recording, name_reading, read_recordings, write_other_side
from tests.lab.fidelity.rows import HOLDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from pipeline.runs import RunContext
    from tests.lab.fidelity.pairs.tables import PairTable, Recording

DRAWS = Path("tests/data/draws")
_SECRET = "34" * 32
"""Always the same: the order of records within a millisecond follows from the ids of their keys."""


@dataclass(frozen=True)
class Judged:
    """A figure of a pair as it was judged with a piece switched off, and what of it decides what is counted.

    Attributes:
        of: Folder, pair, side and which of its two tables.
        is_back_test: The current setup, replayed as itself.
        figure: What it is.
        before: Of the recorded run.
        real: Of the run that was predicted.
        median: Predicted; None where nothing was.
        low: Of the range.
        high: Likewise.
        holds: Within its bar.
        way: As in `PairRow`.
        is_claimed: Likewise.
        is_trusted: What the replay says of the question that it answers.
        is_direction_trusted: What the replay says of the table's direction; None where it tells none.
        by_keys: Keys alone decide the table's shares: they have no range.
    """

    of: str
    is_back_test: bool
    figure: str
    before: float
    real: float
    median: float | None
    low: float | None
    high: float | None
    holds: bool
    way: str
    is_claimed: bool
    is_trusted: bool
    by_keys: bool
    is_direction_trusted: bool | None = None

    @property
    def place(self) -> str:
        """What it is a share of, a broker's or a partition's; "" for what is no share."""
        if not self.figure.startswith("bytes"):
            return ""
        return "brokers" if "broker" in self.figure else "partitions"

    @property
    def key(self) -> tuple[str, str]:
        """The same figure has the same key whatever is switched off."""
        return self.of, self.figure

    @property
    def off(self) -> float:
        """Error of the prediction, in the figure's unit; infinite without one."""
        return abs(self.median - self.real) if self.median is not None else float("inf")

    @property
    def is_moved(self) -> bool:
        """The real share differs by more than the bar from the recorded one."""
        return abs(self.before - self.real) > SHARE_POINTS

    @property
    def is_inside(self) -> bool:
        """It lies in its range."""
        return self.low is not None and self.high is not None and self.low <= self.real <= self.high


def judge_table(folder: str, table: PairTable) -> Iterator[Judged]:
    """The figures of a table."""
    keyed = any(row.figure == EXACT for row in table.rows)
    of = f"{folder} {table.recording.pair.name} {table.recording.side} {table.kind}"
    for row in table.rows:
        found = row.predicted
        ends = (found.median, found.low, found.high) if found else (None, None, None)
        yield Judged(
            of, table.kind == BACK_TEST, row.figure, row.before, row.after, *ends, row.verdict == HOLDS, row.way,
            row.is_claimed, is_figure_trusted(table, row), keyed, table.trusts(DIRECTION),
        )  # fmt: skip


@dataclass(frozen=True)
class Ingested:
    """A recording, ingested and ready to be replayed.

    Attributes:
        name: Of its folder, pair and side.
        recording: It.
        other: The other side, where it is at hand.
        spark: Session; its tasks run in this process.
        run: Its tables.
    """

    name: str
    recording: Recording
    other: Recording | None
    spark: SparkSession
    run: RunContext

    def judge(self) -> list[Judged]:
        """Replays it and judges what is predicted."""
        found = read_predictions(replay_ingested(self.spark, self.run))
        tables = judge_recording(self.recording, self.other, found)
        return [row for table in tables for row in judge_table(self.name.split()[0], table)]


def ingest_pairs(
    seeds: int, is_wanted: Callable[[str], bool] = lambda _name: True, *, scrape_s: float = 0.0
) -> Iterator[Ingested]:
    """All committed recordings, one after the other, as far as their names are wanted; each is gone when the next comes.

    Of scrapes that lie less than `scrape_s` apart only the first is read.
    """
    with running_engine(Spark(engine="sail"), app_name="pairs") as spark:
        for folder in (PAIRS, *sorted(DRAWS.glob("[0-9]*"))):
            recordings = read_recordings(folder)
            for (pair, side), recording in recordings.items():
                if not is_wanted(name := f"{folder.name} {pair} {side}"):
                    continue
                with tempfile.TemporaryDirectory(prefix="partition-health-pair-") as place:
                    secret = Path(place) / "secret"
                    secret.touch(mode=0o600)
                    secret.write_text(_SECRET)
                    candidates = write_other_side(Path(place) / "candidates.yaml", recording)
                    capture = thin_scrapes(recording.capture, Path(place) / "thinned", scrape_s)
                    run = ingest_capture(spark, capture, candidates, seeds, Path(place), **name_reading(recording))
                    yield Ingested(name, recording, recordings.get((pair, recording.other_side)), spark, run)


def thin_scrapes(capture: Path, folder: Path, scrape_s: float) -> Path:
    """The recording with scrapes at least so far apart, in another folder; the recording itself where all are.

    Args:
        capture: An unpacked recording.
        folder: Is made.
        scrape_s: Seconds.
    """
    if not scrape_s or not any((capture / "scrapes").rglob("*.prom")):  # librdkafka's statistics are left as they are
        return capture
    folder.mkdir()
    (folder / "brokers").symlink_to((capture / "brokers").resolve())
    (folder / "tools").symlink_to((capture / "tools").resolve())
    last: dict[Path, int] = {}
    for file in sorted((capture / "scrapes").rglob("*.prom"), key=lambda each: int(each.stem)):
        source = file.parent.relative_to(capture)
        if source not in last or int(file.stem) - last[source] >= 1000 * scrape_s - 500:
            last[source] = int(file.stem)
            (folder / source).mkdir(parents=True, exist_ok=True)
            shutil.copy(file, folder / source)
    return folder

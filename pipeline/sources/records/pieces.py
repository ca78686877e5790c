"""Pieces of tables that scans yield. Imports no Spark: the collector runs without it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

import pyarrow as pa

from pipeline.calibration.arrival_rows import CHUNK_SCHEMA
from pipeline.sources.metrics.sample_rows import SAMPLE_SCHEMA
from pipeline.sources.records.batch_rows import BATCH_SCHEMA
from pipeline.sources.records.key_rows import KEY_SCHEMA, OTHER_SCHEMA
from pipeline.sources.records.summary_rows import SUMMARY_SCHEMA

PIECE_ROWS = 200_000
"""Rows (of arrivals: records) that a task gathers before it hands them on: some 25 MB."""
_LOOSE_TABLES = 256
"""Tables of a kind that a task holds before it joins them: one of a row takes 10 to 20 KiB, joined 0.3."""


class Kind(Enum):
    SUMMARIES = "summaries"
    BATCHES = "batches"
    KEYS = "keys"
    OTHERS = "others"
    ARRIVALS = "arrivals"
    SAMPLES = "samples"


SCHEMAS = {
    Kind.SUMMARIES: SUMMARY_SCHEMA,
    Kind.BATCHES: BATCH_SCHEMA,
    Kind.KEYS: KEY_SCHEMA,
    Kind.OTHERS: OTHER_SCHEMA,
    Kind.ARRIVALS: CHUNK_SCHEMA,
    Kind.SAMPLES: SAMPLE_SCHEMA,
}


class Piece(NamedTuple):
    kind: Kind
    rows: pa.Table

    @property
    def row_count(self) -> int:
        """Rows; of arrivals the records in them."""
        if self.kind is Kind.ARRIVALS:
            return int(self.rows["record_count"].to_numpy().sum())
        return int(self.rows.num_rows)


class ReadTask(Protocol):
    """Input of one Spark task; picklable."""

    def run(self) -> Iterator[Piece]: ...


def run_read_task(task: ReadTask) -> Iterator[Piece]:
    return join_pieces(task.run())


def join_pieces(pieces: Iterable[Piece], piece_rows: int = PIECE_ROWS) -> Iterator[Piece]:
    """Joins pieces of a kind; order within a kind stays, pieces without rows go."""
    joined: dict[Kind, list[pa.Table]] = defaultdict(list)
    loose: dict[Kind, list[pa.Table]] = defaultdict(list)
    counts: Counter[Kind] = Counter()
    for piece in pieces:
        if not piece.rows.num_rows:
            continue
        kind = piece.kind
        loose[kind].append(piece.rows)
        counts[kind] += piece.row_count
        if counts[kind] >= piece_rows:
            yield Piece(kind, _join([*joined.pop(kind, ()), *loose.pop(kind)]))
            counts[kind] = 0
        elif len(loose[kind]) == _LOOSE_TABLES:
            joined[kind].append(_join(loose.pop(kind)))
    for kind in counts:
        if tables := [*joined[kind], *loose[kind]]:
            yield Piece(kind, _join(tables))


def _join(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).combine_chunks()

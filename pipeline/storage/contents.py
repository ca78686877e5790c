"""What a commit notes of the rows that it wrote: a gate compares it with what is stored."""

import json
from collections.abc import Iterable

import numpy as np
import polars as pl
import pyarrow as pa

from pipeline.model.window import TimeWindow, stretches_of

CONTENTS = "contents"
"""Entry of a commit's information: cluster, spans of windows in milliseconds or the run that added rows, their number and digest."""


def digest_rows(rows: pa.RecordBatch | pa.Table) -> int:
    """A number of 63 bits that all columns of all rows make, whatever their order; that of parts is the XOR of theirs."""
    return int(np.bitwise_xor.reduce(pl.DataFrame(rows).hash_rows(1).to_numpy())) >> 1


def note_contents(cluster: str, of: Iterable[TimeWindow] | str, row_count: int, digest: int) -> dict[str, str]:
    """The entry, of all rows of a cluster in some windows, or of those that a run added."""
    told = of if isinstance(of, str) else [(span.start_ms, span.end_ms) for span in stretches_of(of)]
    return {CONTENTS: json.dumps([cluster, told, row_count, digest])}

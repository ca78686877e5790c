"""The keyed replay over Spark: files of `silver.key_traffic` and `silver.key_hashes` to sums per candidate.

Two stages. Tasks read files and cut them into buckets of keys; then each bucket is joined with its hashes and every
candidate is placed, all in one pass over the rows. What a task holds is one bucket.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.replay.buckets import replay_bucket, sum_unnamed
from pipeline.replay.packing import ANSWERS, HASHES, TRAFFIC, UNNAMED, join_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pipeline.replay.buckets import Sums
    from pipeline.replay.packing import _Columns
    from pipeline.replay.plan import ReplayPlan


def replay_packed(bucket: tuple[int, Iterable[tuple[str, _Columns]]], plan: ReplayPlan) -> Iterator[Sums]:
    """Places the keys of one bucket under all candidates.

    Args:
        bucket: Its number, and what `pack_file` gave of it.
        plan: What is to be replayed.

    Returns:
        Partial sums, for `merge_sums`.
    """
    pieces: dict[str, list[_Columns]] = {}
    for content, columns in bucket[1]:
        pieces.setdefault(content, []).append(columns)
    joined = {content: join_columns(found) for content, found in pieces.items()}
    if UNNAMED in joined:
        return iter(sum_unnamed(plan, joined[UNNAMED]))
    if TRAFFIC in joined:
        return iter(replay_bucket(plan, joined[TRAFFIC], joined.get(HASHES, {}), joined.get(ANSWERS, {})))
    return iter(())


def merge_sums(partial: Iterable[Sums]) -> dict[tuple[int, int, int], list[Sums]]:
    """Groups sums by topic, window and placing."""
    merged: dict[tuple[int, int, int], list[Sums]] = {}
    for sums in partial:
        merged.setdefault((sums.topic, sums.window, sums.placing), []).append(sums)
    return merged

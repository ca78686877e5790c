"""The newest window in which anything was produced, by offsets: no record is fetched."""

from collections.abc import Callable, Mapping, Sequence

from pipeline.model.log import TopicPartition
from pipeline.model.window import TimeWindow
from pipeline.sources.live.admin import ask_metadata, ask_offsets
from pipeline.sources.live.connection import connect
from pipeline.sources.live.requests import Failures
from pipeline.sources.live.settings import LiveSettings

OffsetsAt = Callable[[int], Mapping[TopicPartition, int]]
"""Offset of the first record of each partition from an instant on, -1 for none."""


def choose_newest(windows: Sequence[TimeWindow], offsets_at: OffsetsAt) -> TimeWindow | None:
    """Chooses the newest of consecutive windows that holds a record; None where none does."""
    newest_first = sorted(windows, reverse=True)
    if not newest_first:
        return None
    since_end = offsets_at(newest_first[0].end_ms)
    for window in newest_first:
        since_start = offsets_at(window.start_ms)  # another record than the first since its end: it holds one
        if any(offset >= 0 and offset != since_end.get(key, -1) for key, offset in since_start.items()):
            return window
        since_end = since_start
    return None


def find_newest_traffic(source: LiveSettings, windows: Sequence[TimeWindow]) -> TimeWindow | None:
    """Asks for the newest of some consecutive windows with a record of a client's topic; errors as of `connect`."""
    with connect(source) as connection:
        metadata = ask_metadata(connection)
        clients = {key: one for key, one in metadata.partitions.items() if key.topic not in metadata.internal_topics}
        leaders = {key: state.leader_id for key, state in clients.items() if state.leader_id >= 0}

        def offsets_at(at_ms: int) -> Mapping[TopicPartition, int]:
            return {key: at.offset for key, at in ask_offsets(connection, leaders, at_ms, Failures()).items()}

        return choose_newest(windows, offsets_at)

"""A range of offsets to fetch from a broker."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FetchRead:
    """Offsets `[start_offset, end_offset)` of one partition to fetch, with what the rows need to know."""

    topic: str
    topic_id: str
    partition: int
    leader_id: int  # whom to ask first
    start_offset: int
    end_offset: int
    is_first: bool  # first range of its partition: takes the batch that its start is within
    is_last: bool
    size_bytes: int = 0
    taken_until: int = 0  # batches that begin before this offset were read with an earlier slice of the time

    @property
    def path(self) -> str:  # stands for a file's in problems
        return f"{self.topic}-{self.partition}"

    @property
    def offset_count(self) -> int:
        return self.end_offset - self.start_offset

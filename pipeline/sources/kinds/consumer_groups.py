"""Texts of `kafka-consumer-groups --describe`."""

from typing import Literal

from pydantic import Field

from pipeline.config.section import ConfigPath
from pipeline.model.log import Problem
from pipeline.model.window import TimeWindow
from pipeline.sources.questions import SourceAvailability, name_groups
from pipeline.sources.source import ClusterReading, Described, TextSource


class ConsumerGroups(TextSource):
    """Texts of `kafka-consumer-groups --describe`, one file a moment, named `…<epoch ms>.txt`."""

    rank = 80

    kind: Literal["consumer_groups"]
    paths: tuple[ConfigPath, ...] = Field(min_length=1)

    def describe(self, described: Described) -> None:
        """Adds what each group consumes, at the instants in the names of the files."""
        from pipeline.codec.tools.tool_text import parse_consumer_groups
        from pipeline.sources.files.directory_walk import list_files, split_instant

        problems = described.problems[self.kind]
        for path in list_files(self.paths, ("*consumer-groups*.txt",), problems):
            _, instant_ms = split_instant(path.stem)
            if instant_ms is None:
                reason = "no instant in the file name: expected <name>-<epoch ms>.txt"
                problems.append(Problem(path=str(path), reason=reason))
                continue
            members = self.parse(path, parse_consumer_groups, described) or ()
            described.groups += [(instant_ms, one) for one in members if one.topic is not None and one.can_be]
            reason = name_groups(member.group_id for member in members if not member.can_be)
            problems += [Problem(path=str(path), reason=f"left out: {reason}")] if reason else []

    def availability(self, reading: ClusterReading, window: TimeWindow, newest_ms: int | None) -> SourceAvailability:
        """Availability: nothing is expected; the moments described have arrived."""
        moments = {observed_at_ms for observed_at_ms, _ in reading.groups}
        return SourceAvailability(None, sum(at in window for at in moments), newest_ms=max(moments, default=None))

"""Texts of Kafka's tools about a cluster."""

from typing import Literal

from pydantic import Field

from pipeline.config.section import ConfigPath
from pipeline.model.log import Problem
from pipeline.model.window import TimeWindow
from pipeline.sources.questions import SourceAvailability, name_groups
from pipeline.sources.source import ClusterReading, Described, Number, TextSource, rated


class TopicsDescribe(TextSource):
    """Text of `kafka-topics --describe`; used where the logs hold no cluster metadata."""

    rank = 40
    column = "topics_describe"
    provides = rated(
        "exact", Number.LEADER_COUNTS, Number.TOPIC_REPLICAS, Number.RULES, Number.REPLICAS, Number.REASSIGNMENTS
    )
    kind: Literal["topics_describe"]
    path: ConfigPath

    def describe(self, described: Described) -> None:
        from pipeline.codec.tools.tool_text import parse_topics_describe
        from pipeline.model.cluster import TOPICS_DESCRIBE, ClusterHistory

        description = self.parse(self.path, parse_topics_describe, described)
        if description is not None and described.history is None:
            described.history = ClusterHistory.always(TOPICS_DESCRIBE, description.partitions, description.configs)


class LogDirsDescribe(TextSource):
    """Text of `kafka-log-dirs --describe`; used for replicas whose disks are not read."""

    rank = 50
    column = "log_dirs_describe"
    provides = rated("exact", Number.REPLICA_SIZES)
    kind: Literal["log_dirs_describe"]
    path: ConfigPath

    def describe(self, described: Described) -> None:
        from pipeline.codec.tools.tool_text import parse_log_dirs_describe

        for replica in self.parse(self.path, parse_log_dirs_describe, described) or ():
            described.replicas[replica.topic_partition, replica.broker_id, replica.is_future] = replica


class GetOffsets(TextSource):
    """Text of `kafka-get-offsets`; says how far the logs of `log_dirs_describe` reach."""

    rank = 60
    kind: Literal["get_offsets"]
    path: ConfigPath

    def describe(self, described: Described) -> None:
        from pipeline.codec.tools.tool_text import parse_offsets

        described.high_watermarks |= self.parse(self.path, parse_offsets, described) or {}


class ReassignVerify(TextSource):
    """Text of `kafka-reassign-partitions --verify`; marks the partitions that are being moved."""

    rank = 70
    column = "reassign_verify"
    provides = rated("exact", Number.REASSIGNMENTS)
    kind: Literal["reassign_verify"]
    path: ConfigPath

    def describe(self, described: Described) -> None:
        from pipeline.codec.tools.reassignment_text import parse_reassignment_status

        for status in self.parse(self.path, parse_reassignment_status, described) or ():
            if status.is_running:
                described.moving.add((status.topic_partition, status.broker_id))
            elif not status.is_over:
                reason = f"the reassignment of {status.topic_partition} did not come to its end: {status.status}"
                described.problems[self.kind].append(Problem(path=str(self.path), reason=reason, severity="suspect"))


class ConsumerGroups(TextSource):
    """Texts of `kafka-consumer-groups --describe`, one file a moment, named `…<epoch ms>.txt`."""

    rank = 80
    column = "consumer_groups"
    provides = rated("exact", Number.GROUPS)
    kind: Literal["consumer_groups"]
    paths: tuple[ConfigPath, ...] = Field(min_length=1)

    def describe(self, described: Described) -> None:
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
        moments = {observed_at_ms for observed_at_ms, _ in reading.groups}
        return SourceAvailability(None, sum(at in window for at in moments), newest_ms=max(moments, default=None))

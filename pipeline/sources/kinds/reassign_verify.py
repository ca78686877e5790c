"""Text of `kafka-reassign-partitions --verify`."""

from typing import Literal

from pipeline.config.section import ConfigPath
from pipeline.model.log import Problem
from pipeline.sources.source import Described, TextSource


class ReassignVerify(TextSource):
    """Text of `kafka-reassign-partitions --verify`; marks the partitions that are being moved."""

    rank = 70

    kind: Literal["reassign_verify"]
    path: ConfigPath

    def describe(self, described: Described) -> None:
        """Adds the partitions still being moved; a reassignment that failed is a problem."""
        from pipeline.codec.tools.reassignment_text import parse_reassignment_status

        for status in self.parse(self.path, parse_reassignment_status, described) or ():
            if status.is_running:
                described.moving.add((status.topic_partition, status.broker_id))
            elif not status.is_over:
                reason = f"the reassignment of {status.topic_partition} did not come to its end: {status.status}"
                described.problems[self.kind].append(Problem(path=str(self.path), reason=reason, severity="suspect"))

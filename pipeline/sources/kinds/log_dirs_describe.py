"""Text of `kafka-log-dirs --describe`."""

from typing import Literal

from pipeline.config.section import ConfigPath
from pipeline.sources.source import Described, TextSource


class LogDirsDescribe(TextSource):
    """Text of `kafka-log-dirs --describe`; used for replicas whose disks are not read."""

    rank = 50

    kind: Literal["log_dirs_describe"]
    path: ConfigPath

    def describe(self, described: Described) -> None:
        """Adds size and lag of every replica."""
        from pipeline.codec.tools.tool_text import parse_log_dirs_describe

        for replica in self.parse(self.path, parse_log_dirs_describe, described) or ():
            described.replicas[replica.topic_partition, replica.broker_id, replica.is_future] = replica

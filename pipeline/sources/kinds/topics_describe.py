"""Text of `kafka-topics --describe`."""

from typing import Literal

from pipeline.config.section import ConfigPath
from pipeline.sources.numbers import Number, rated
from pipeline.sources.source import Described, TextSource


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
        """Adds leaders, replicas and configs; the first such text counts."""
        from pipeline.codec.tools.tool_text import parse_topics_describe
        from pipeline.model.cluster import TOPICS_DESCRIBE, ClusterHistory

        description = self.parse(self.path, parse_topics_describe, described)
        if description is not None and described.history is None:
            described.history = ClusterHistory.always(TOPICS_DESCRIBE, description.partitions, description.configs)

"""Texts of `kafka-dump-log`: segments whose disks cannot be read from here."""

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field

from pipeline.config.section import ConfigPath
from pipeline.model.window import TimeWindow
from pipeline.sources.questions import ClusterQuestion, SourceAvailability, name_some
from pipeline.sources.source import ClusterReading, Described, Number, RecordSource, rated


class DumpLog(RecordSource):
    """Texts of `kafka-dump-log --files …` of one broker's segments: files, or folders of `*.txt`.

    Only lines of batches are read; a text with lines of records (`--print-data-log`, `--deep-iteration`, decoders) is
    refused from the first of them on. The paths that were dumped name topic and partition.

    Attributes:
        broker: Whose disk was dumped; without it no leader is known unless another source names one.
    """

    rank = 30
    column = "dump_log"
    provides = rated(
        "exact",
        *(Number.SHARES, Number.RECORD_COUNTS, Number.BATCH_COUNTS, Number.PARTITION_SIZES, Number.TOPIC_SIZES),
        *(Number.RULES, Number.FORECAST, Number.RECOMMENDATIONS, Number.BATCH_HEADERS),
        *(Number.REPLICA_SIZES, Number.AVAILABILITY),
    ) | rated("assumed", Number.LEADER_COUNTS, Number.REPLICAS)

    kind: Literal["dump_log"]
    paths: tuple[ConfigPath, ...] = Field(min_length=1)
    broker: int | None = Field(None, ge=0)

    @classmethod
    def read_cluster(cls, sources: Sequence[Self], question: ClusterQuestion, described: Described) -> ClusterReading:
        from pipeline.sources.files.cluster_rows import count_directories
        from pipeline.sources.files.cluster_state import read_cluster_history, with_named_brokers
        from pipeline.sources.files.dumped_logs import discover_dumps, with_topic_ids

        dumped = discover_dumps((source.paths, source.broker) for source in sources)
        history, problems = read_cluster_history(dumped.tree, described.history)
        partitions = history.state_at(question.as_of_ms).partitions
        return ClusterReading(
            record_source=cls.column,
            tree=with_topic_ids(dumped.tree, partitions),
            history=with_named_brokers(history),
            replicas=(*dumped.replicas, *described.list_replicas(partitions, besides=dumped.replicas)),
            directory_counts=count_directories(dumped.tree),
            problems={cls.column: (*dumped.tree.problems, *problems)},
            has_records=False,
        )

    def availability(self, reading: ClusterReading, window: TimeWindow, newest_ms: int | None) -> SourceAvailability:
        """Expected are the partitions wanted that `kafka-topics --describe` names, arrived those dumped."""
        from pipeline.model.cluster import TOPICS_DESCRIBE
        from pipeline.model.log import fits_topics

        dumped = {partition.topic_partition for _, partition in reading.tree.iter_partitions()}
        if reading.history.state_source != TOPICS_DESCRIBE:
            return SourceAvailability(None, len(dumped), newest_ms=newest_ms)
        named = reading.history.state_at(window.end_ms).partitions
        wanted = {key for key in named if fits_topics(key.topic, reading.topics)}
        missing = name_some("no dump of", [str(key) for key in sorted(wanted - dumped)])
        return SourceAvailability(len(wanted), len(wanted & dumped), missing, newest_ms)

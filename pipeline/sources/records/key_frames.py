"""What each key got, as a Spark frame; and the questions put to strategies while the keys are at hand."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pipeline.partitioners.recorded import list_families
from pipeline.sources.files.segment_plan import format_plan
from pipeline.sources.records.key_counts import SOURCE_NAME, KeyCountSource
from pipeline.sources.records.key_questions import Question, format_questions, version_of
from pipeline.sources.records.record_options import COUNTS_ONLY, record_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from pipeline.model.log import TopicPartition
    from pipeline.runs import RunContext
    from pipeline.sources.files.segment_plan import SegmentRead
    from pipeline.sources.records.key_rows import RecordLog

_QUESTIONS = "question bigint, strategy string, strategy_version string, partition_count bigint"


def choose_questions(
    run: RunContext, reads: Sequence[RecordLog], partitions: Iterable[TopicPartition]
) -> tuple[Question, ...]:
    """Which strategies are asked about the keys of which topic, for how many partitions.

    The user's own are asked for the topic's partition count, those of the configuration, and those of the candidates.
    Where only counts are stored, one strategy of each family that keys can tell is asked besides.

    Args:
        run: Names the strategies and candidates.
        reads: Segments (or fetched partitions) that are scanned.
        partitions: Partitions known to the cluster.

    Raises:
        ConfigError: A strategy cannot be loaded.
    """
    keys = run.config.keys
    names = list(keys.strategies)
    if keys.mode == COUNTS_ONLY:
        names += [family.strategies[0] for family in list_families()]
    if not names:
        return ()
    own: dict[str, int] = defaultdict(int)
    for read in reads:
        own[read.topic] = max(own[read.topic], read.partition + 1)
    for known in partitions:
        if known.topic in own:
            own[known.topic] = max(own[known.topic], known.partition + 1)
    versions = {name: version_of(name) for name in names}
    return tuple(
        Question(topic, name, versions[name], count)
        for topic, own_count in sorted(own.items())
        for name in names
        for count in sorted({own_count, *keys.partition_counts, *_candidate_counts(run, topic, own_count)})
    )


def _candidate_counts(run: RunContext, topic: str, own_count: int) -> set[int]:
    return {candidate.partition_count(own_count) for candidate in run.config.candidates if candidate.fits(topic)}


def key_options(run: RunContext, questions: Sequence[Question]) -> dict[str, str]:
    """Options of `kafka_key_counts` that say what is stored about keys: all but the segments.

    Args:
        run: Says which windows, and what is stored about keys.
        questions: From `choose_questions`.

    Raises:
        ConfigError: The secret cannot be made or read.
    """
    return {
        **record_options(run),
        "max_distinct_keys": str(run.config.keys.max_distinct_keys),
        "questions": format_questions(questions),
    }


def key_frame(
    spark: SparkSession, run: RunContext, reads: Sequence[SegmentRead], questions: Sequence[Question]
) -> DataFrame:
    """Rows of `kafka_key_counts` over the segments, for the run's windows; see there.

    Args:
        spark: Session.
        run: Says which windows, and what is stored about keys.
        reads: Segments to scan.
        questions: From `choose_questions`.

    Raises:
        ConfigError: The secret cannot be made or read.
    """
    spark.dataSource.register(KeyCountSource)
    options = {
        "plan": format_plan(reads),
        "spark_partitions": str(spark.sparkContext.defaultParallelism),
        **key_options(run, questions),
    }
    return spark.read.format(SOURCE_NAME).options(**options).load()


def question_frame(spark: SparkSession, questions: Sequence[Question]) -> DataFrame:
    """The questions by their place, as `question`, `strategy`, `strategy_version`, `partition_count`."""
    rows = [(place, q.strategy, q.version, q.partition_count) for place, q in enumerate(questions)]
    return spark.createDataFrame(rows, _QUESTIONS)

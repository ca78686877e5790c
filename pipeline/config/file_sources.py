"""Sources that are files, as the configuration declares them: log directories, kept pages, and what Kafka's tools print."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field

from pipeline.config.section import Duration, Section


class LogDirectories(Section):
    """Brokers' log directories on a file system: each path is a log directory or a tree that holds several."""

    kind: Literal["log_directories"]
    paths: tuple[Path, ...] = Field(min_length=1)


class DumpLog(Section):
    """Texts of `kafka-dump-log --files …` of one broker's segments: files, or folders of `*.txt`.

    Batch lines suffice; lines of records are passed over. The paths that were dumped name topic and partition.
    `broker` is whose disk was dumped; without it nobody leads unless another source tells.
    """

    kind: Literal["dump_log"]
    paths: tuple[Path, ...] = Field(min_length=1)
    broker: int | None = Field(None, ge=0)


class TopicsDescribe(Section):
    """Text of `kafka-topics --describe`; used where the logs hold no cluster metadata."""

    kind: Literal["topics_describe"]
    path: Path


class LogDirsDescribe(Section):
    """Text of `kafka-log-dirs --describe`; used for replicas whose disks are not read."""

    kind: Literal["log_dirs_describe"]
    path: Path


class GetOffsets(Section):
    """Text of `kafka-get-offsets`; says how far the logs of `log_dirs_describe` reach."""

    kind: Literal["get_offsets"]
    path: Path


class ReassignVerify(Section):
    """Text of `kafka-reassign-partitions --verify`; marks the partitions that are being moved."""

    kind: Literal["reassign_verify"]
    path: Path


class ConsumerGroups(Section):
    """Texts of `kafka-consumer-groups --describe`, one file a moment, named `…<epoch ms>.txt`."""

    kind: Literal["consumer_groups"]
    paths: tuple[Path, ...] = Field(min_length=1)


class ProducerMetrics(Section):
    """Exporter pages of producers: `<path>/<client>/<epoch ms>.prom`."""

    kind: Literal["producer_metrics"]
    path: Path
    interval: Duration = timedelta(seconds=5)


class BrokerMetrics(Section):
    """Exporter pages of brokers: `<path>/<broker id>/<epoch ms>.prom`."""

    kind: Literal["broker_metrics"]
    path: Path
    interval: Duration = timedelta(minutes=1)

"""One validated, frozen configuration, read from YAML.

`PARTITION_HEALTH_CONFIG` names the file. Relative paths in it are taken from the file's own folder.
Unknown keys, impossible values and missing files of the configuration fail here, before Spark starts.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BeforeValidator, Field, field_validator, model_validator

from pipeline.config.file_sources import (
    BrokerMetrics,
    ConsumerGroups,
    DumpLog,
    GetOffsets,
    LogDirectories,
    LogDirsDescribe,
    ProducerMetrics,
    ReassignVerify,
    TopicsDescribe,
)
from pipeline.config.keys import KeySettings
from pipeline.config.live_source import LiveCluster
from pipeline.config.mail import Mail
from pipeline.config.metric_sources import ExporterUrls, LibrdkafkaStatistics, PerfTestOutput, Prometheus
from pipeline.config.replay import DEFAULT_CANDIDATES, IN_USE, Candidate, Replay
from pipeline.config.rules import Gate, Rule, over_defaults
from pipeline.config.section import Duration, Instant, KafkaSetting, Section
from pipeline.config.yaml_file import read_yaml
from pipeline.environment import variable
from pipeline.errors import ConfigError

CONFIG_VARIABLE = "PARTITION_HEALTH_CONFIG"
DEFAULT_CONFIG = "partition-health.yaml"


Source = Annotated[
    LogDirectories
    | LiveCluster
    | DumpLog
    | TopicsDescribe
    | LogDirsDescribe
    | GetOffsets
    | ReassignVerify
    | ConsumerGroups
    | ProducerMetrics
    | BrokerMetrics
    | Prometheus
    | ExporterUrls
    | PerfTestOutput
    | LibrdkafkaStatistics,
    Field(discriminator="kind"),
]


class Cluster(Section):
    """One Kafka cluster: where its data comes from and what is expected of its brokers.

    `partitioners` names the strategy in use by topic pattern, the first that fits; elsewhere it is read from the data.
    `producers` holds settings of producers, by `client.id` and Kafka's names, where no source tells them.
    `rules` holds limits of further measures, field by field over the default ones; `disk_bytes` what brokers' disks hold.
    """

    sources: tuple[Source, ...] = Field(min_length=1)
    as_of: Instant | None = None
    topics: tuple[str, ...] = ()
    partitioners: dict[str, str] = Field(default_factory=dict)
    capacity: dict[int, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    producers: dict[str, dict[str, KafkaSetting]] = Field(default_factory=dict)
    owner: str = ""
    mail_to: tuple[str, ...] = ()
    time_zone: str = "UTC"
    gate: Gate = Gate()
    rules: Annotated[dict[str, Rule], BeforeValidator(over_defaults)] = Field(
        default_factory=dict, validate_default=True
    )
    disk_bytes: dict[int, int] = Field(default_factory=dict)
    batch_size_bytes: int = Field(16384, gt=0)
    freshness: Duration = timedelta(hours=2)

    @field_validator("sources")
    @classmethod
    def _one_way_to_the_records(cls, sources: tuple[Source, ...]) -> tuple[Source, ...]:
        ways = {source.kind for source in sources if isinstance(source, LogDirectories | DumpLog | LiveCluster)}
        if len(ways) > 1 or sum(isinstance(source, LiveCluster) for source in sources) > 1:
            raise ValueError(
                "records come from log_directories, from texts of dump_log or from one live_cluster, not from several"
            )
        return sources

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, time_zone: str) -> str:
        try:
            ZoneInfo(time_zone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError(f"no time zone {time_zone!r}; write one as Europe/Berlin") from error
        return time_zone


class Spark(Section):
    """Where Spark runs; `conf` is passed through."""

    master: str = "local[2]"
    driver_memory: str = "2g"
    conf: dict[str, str] = Field(default_factory=dict)


class PipelineConfig(Section):
    """The whole configuration; a run that is not over `late_after` after it was queued is told as late."""

    warehouse: Path
    outbox: Path
    window: Duration = timedelta(hours=1)
    grace: Duration = timedelta(minutes=5)
    late_after: Duration = timedelta(hours=1)
    clusters: dict[str, Cluster] = Field(min_length=1)
    candidates: tuple[Candidate, ...] = DEFAULT_CANDIDATES
    replay: Replay = Replay()
    mail: Mail = Mail()
    spark: Spark = Spark()
    keys: KeySettings = KeySettings()

    @field_validator("candidates")
    @classmethod
    def _named_once(cls, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        names = [candidate.name for candidate in candidates]
        for name in names:
            if name == IN_USE or names.count(name) > 1:
                raise ValueError(f"candidate {name}: {'that name is taken' if name == IN_USE else 'named twice'}")
        return candidates

    @model_validator(mode="after")
    def _known_clusters(self) -> PipelineConfig:
        unknown = [name for name in self.keys.clear_topics if name not in self.clusters]
        if unknown:
            raise ValueError(f"keys.clear_topics names clusters that are not configured: {', '.join(unknown)}")
        return self


def load_config(path: Path | None = None) -> PipelineConfig:
    """Reads and validates the configuration.

    Args:
        path: The YAML file; without it `$PARTITION_HEALTH_CONFIG`, else `partition-health.yaml` here.

    Raises:
        ConfigError: naming the file and every wrong key.
    """
    path = path or config_path()
    if not path.exists():
        raise ConfigError(f"no configuration at {path}: pass --config FILE or set {CONFIG_VARIABLE}")
    return _with_absolute_paths(read_yaml(path).validate(PipelineConfig), path.resolve().parent)


def config_path() -> Path:
    """Where the configuration is looked for: `$PARTITION_HEALTH_CONFIG`, else `partition-health.yaml` here."""
    return Path(variable(CONFIG_VARIABLE) or DEFAULT_CONFIG)


def _with_absolute_paths(config: PipelineConfig, base: Path) -> PipelineConfig:
    def absolute(path: Path) -> Path:
        return base / path.expanduser()

    def source_at(source: Source) -> Source:
        if isinstance(source, LiveCluster):
            return source.absolute(base)
        if isinstance(source, LogDirectories | DumpLog | ConsumerGroups | PerfTestOutput | LibrdkafkaStatistics):
            return source.model_copy(update={"paths": tuple(absolute(p) for p in source.paths)})
        if isinstance(source, Prometheus | ExporterUrls):
            source = source.model_copy(update={"access": source.access.with_files_under(base)})
        if isinstance(source, Prometheus):
            return source
        return source.model_copy(update={"path": absolute(source.path)})

    clusters = {
        name: cluster.model_copy(update={"sources": tuple(source_at(s) for s in cluster.sources)})
        for name, cluster in config.clusters.items()
    }
    warehouse, secret = absolute(config.warehouse), absolute(config.keys.secret)
    if secret.resolve().is_relative_to(warehouse.resolve()):
        raise ConfigError(f"keys.secret {secret} lies in the warehouse {warehouse}; who reads tables must not read it")
    return config.model_copy(
        update={
            "warehouse": warehouse,
            "outbox": absolute(config.outbox),
            "clusters": clusters,
            "mail": config.mail.model_copy(update={"mutes": absolute(config.mail.mutes)}),
            "keys": config.keys.model_copy(update={"secret": secret}),
        }
    )

"""One validated, frozen configuration: unknown keys and impossible values fail here, before Spark starts."""

import re
import shlex
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import ByteSize, ConfigDict, Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from pipeline.config import section, sections
from pipeline.config.mail import Address, Mail
from pipeline.config.replay import DEFAULT_CANDIDATES, IN_USE, Candidate, Replay
from pipeline.config.rules import Gate, RuleSettings, fill_rules
from pipeline.config.storage import ConfigFolder, Storage
from pipeline.model.window import instant_of


class Cluster(section.Section):
    """One Kafka cluster: where its data comes from and what is expected of its brokers."""

    model_config = ConfigDict(defer_build=True)  # until all kinds of sources are known

    sources: tuple[section.AnySource, ...] = Field(min_length=1)
    """Sources of its data. Records come from one kind of source; a live cluster may be added to it."""
    as_of: section.Instant | None = None
    """For a recording: the time that counts as now, the end of its last window."""
    topics: tuple[str, ...] = ()
    """Patterns of topics to read, as `orders-*`, and with `!` in front of those to leave out; all by default."""
    partitioners: dict[str, str] = Field(default_factory=dict)
    """Current strategy by topic pattern (the first match counts); for other topics it is inferred."""
    capacity: dict[section.NodeId, Annotated[float, Field(ge=1e-12, le=1e12)]] = Field(default_factory=dict)
    """Weight of a broker by id; 1 where it is not named."""
    producers: dict[str, dict[str, section.KafkaSetting]] = Field(default_factory=dict)
    """Settings of producers, by `client.id` and Kafka's names, where no source reports them."""
    owner: str = ""
    """Person or team responsible for the cluster; shown in mails and as owner of the DAGs."""
    mail_to: tuple[Address, ...] = ()
    """Recipients of its mails; `mail.to` if empty."""
    time_zone: str = "UTC"
    """Zone whose times mails show next to UTC, such as Europe/Berlin."""
    gate: Gate = Gate()
    """Limits of the broker share rule."""
    rules: dict[str, RuleSettings] = Field(default_factory=dict, validate_default=True)
    """Limits of further rules by name, field by field over the default ones."""
    disk_bytes: dict[section.NodeId, Annotated[int, Field(gt=0, lt=2**63)]] = Field(default_factory=dict)
    """Capacity of a broker's disks by id, in place of what live brokers report."""
    max_moved_bytes: ByteSize | None = None
    """What a plan may copy between brokers in all, such as 500GiB; no limit without it."""
    what_ifs: dict[str, sections.WhatIf] = Field(default_factory=dict)
    """Changes of brokers, traffic and placement by name, which `what-if --configured` works out."""
    zones: sections.Zones = sections.Zones()
    """Zones of producers and consumers, and what traffic between zones costs."""
    batch_size_bytes: int = Field(16384, gt=0)
    """`batch.size` of producers, where no source reports it."""
    freshness: section.Duration = timedelta(hours=2)
    """Age of a source's newest data from which a window is stale."""

    @field_validator("sources")
    @classmethod
    def _one_way_to_the_records(cls, sources: tuple[section.AnySource, ...]) -> tuple[section.AnySource, ...]:
        ways = Counter(source.kind for source in sources if source.bears_records)
        alone = {source.kind for source in sources if source.bears_records and source.completes not in ways}
        if len(alone) > 1 or any(source.is_only_one and ways[source.kind] > 1 for source in sources):
            raise ValueError(
                "more than one kind of source gives records: keep log_directories, collected or one live_cluster; "
                "only log_directories may have one live_cluster with them"
            )
        return sources

    @field_validator("rules", mode="before")
    @classmethod
    def _fill_rules(cls, rules: object, validation: ValidationInfo) -> object:
        return fill_rules(rules, validation.data.get("gate"))

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, time_zone: str) -> str:
        try:
            ZoneInfo(time_zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # a folder of zones, a name too long
            raise ValueError(f"no time zone {time_zone!r}; expected one such as Europe/Berlin") from error
        return time_zone


_LONGEST_NAME = 200
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class Spark(section.Section):
    engine: Literal["spark", "sail"] = "spark"
    """`spark` is Apache Spark; `sail` runs the same DataFrames in this process, without Java, where one machine is
    enough. It needs the extra `sail`."""
    master: str = "local[2]"
    """Spark's master URL; not used where `remote` is set, nor by Sail."""
    remote: str | None = None
    """Address of a Spark Connect server, such as `sc://host:15002`; it needs the extra `connect`, and no Java here. The
    server needs no Delta, but its Python workers need this package."""
    driver_memory: str = "2g"
    """Heap of the driver."""
    conf: dict[str, str] = Field(default_factory=dict)
    """Further settings of Spark, passed through."""

    @field_validator("remote")
    @classmethod
    def _check_remote(cls, address: str | None) -> str | None:
        if address is not None and not address.startswith("sc://"):
            # without the address: it may hold a token
            raise ValueError("expected the address of a Spark Connect server, such as sc://host:15002")
        return address

    @property
    def is_local(self) -> bool:
        return self.remote is None and (self.engine == "sail" or self.master.startswith("local["))


def _follow_window(validated: dict[str, Any]) -> timedelta:
    """Half a window, five minutes at most; those where the window is wrong."""
    window: timedelta = validated.get("window", timedelta(hours=1))
    return min(timedelta(minutes=5), window / 2)


class PipelineConfig(section.Section):
    """The whole configuration."""

    model_config = ConfigDict(defer_build=True)
    _file: Path | None = PrivateAttr(None)  # where it was read from: `file` in the context of the validation
    _unusable: dict[str, str] = PrivateAttr(default_factory=dict)  # likewise, see `unusable`

    storage: Storage = Storage()
    """How an object store is reached."""
    warehouse: ConfigFolder
    """Folder of the Delta tables, or `s3a://bucket/path`."""
    outbox: section.ConfigPath
    """Folder where mails become files while `mail.smtp` is not set."""
    window: section.Duration = timedelta(hours=1)
    """Length of a window: whole minutes that divide an hour, or whole hours that divide a day."""
    grace: section.Duration = Field(default_factory=_follow_window, json_schema_extra={"default": "PT5M"})
    """How long after its end a window is ingested; by default half a window, at most five minutes."""
    late_after: section.Duration = timedelta(hours=1)
    """A run that has not ended this long after it was queued is reported as late."""
    clusters: dict[str, Cluster] = Field(min_length=1)
    """Kafka clusters by name."""
    candidates: tuple[Candidate, ...] = DEFAULT_CANDIDATES
    """Clients and settings that recorded traffic is replayed through; by default a built-in set."""
    checkpoint_actions: tuple[dict[str, Any], ...] = ()
    """Further actions of every gate's Checkpoint, as Great Expectations writes them: `type`, `name` and so on."""
    replay: Replay = Replay()
    """How the replay runs."""
    mail: Mail = Mail()
    """Mails, webhooks and alerts about incidents."""
    spark: Spark = Spark()
    """Where Spark runs."""
    airflow: sections.AirflowNames = sections.AirflowNames()
    """Names in Airflow."""
    keys: sections.KeySettings = sections.KeySettings()
    """What is stored about the keys of records."""
    report: sections.Report = sections.Report()
    """Where the HTML report is written, and over which period."""
    metrics: sections.Metrics = sections.Metrics()
    """Measures published as metrics for Prometheus."""
    retention: sections.Retention = Field(default_factory=dict)
    """How long rows are kept after their date, by table or layer (`bronze`, `silver`, `gold`). Without an entry, and in
    the tables that incidents are computed from, for ever. `keys.retention` holds for hashes of keys."""
    sums_only: bool = False
    """Drop record batches, arrivals, key traffic and hashes of keys once their window is replayed and judged, and the
    next one is replayed."""

    @model_validator(mode="after")
    def _keep_context(self, validation: ValidationInfo) -> Self:
        self._file = (validation.context or {}).get("file")
        self._unusable = (validation.context or {}).get("unusable", {})
        if unknown := [name for name in self.keys.clear_topics if name not in self.cluster_names]:
            raise ValueError(f"keys.clear_topics names clusters that are not configured: {', '.join(unknown)}")
        return self

    @property
    def unusable(self) -> dict[str, str]:
        """Clusters that were left out as they are wrong, each with the reason: nothing of theirs is removed."""
        return self._unusable

    @property
    def cluster_names(self) -> tuple[str, ...]:
        return (*self.clusters, *self.unusable)

    def clusters_of_task(self, task_id: str) -> tuple[str, ...]:
        """Clusters for which an Airflow task is mapped. Only `ingest` has one for an unusable cluster: it fails there with the reason."""
        return self.cluster_names if task_id == "ingest" else tuple(self.clusters)

    def command(self, name: str) -> str:
        given = "" if self._file is None else f" --config {shlex.quote(str(self._file))}"
        return f"partition-health {name}{given}"

    @property
    def schedule_end(self) -> datetime | None:
        """When scheduling ends: for recordings, which are backfilled, after their last window; None where a cluster is live."""
        ends = [cluster.as_of for cluster in self.clusters.values()]
        return None if None in ends or self.unusable else max(filter(None, ends)) + self.window + self.grace

    @property
    def local_folder(self) -> Path:
        """Folder for locks and reports: the warehouse; the outbox, where the warehouse is in an object store."""
        return self.warehouse if isinstance(self.warehouse, Path) else self.outbox

    def report_path(self, cluster: str, window_start_ms: int) -> Path:
        folder = self.report.folder or self.local_folder / "reports"
        return folder / sections.report_name(cluster, f"{instant_of(window_start_ms):%Y-%m-%dT%H-%MZ}")

    def data_docs_index(self, cluster: str) -> Path:
        return self.report_path(cluster, 0).parent / "data-docs" / sections.cluster_slug(cluster) / "index.html"

    def report_link(self, cluster: str, window_start_ms: int) -> str:
        """The same as people open it: under `report.base_url`, else as a file."""
        path = self.report_path(cluster, window_start_ms)
        return str(path) if self.report.base_url is None else f"{self.report.base_url.rstrip('/')}/{path.name}"

    @field_validator("window")
    @classmethod
    def _at_most_a_month(cls, window: timedelta) -> timedelta:
        if window > timedelta(days=31):
            raise ValueError("longer than P31D")
        return window

    @field_validator("clusters")
    @classmethod
    def _names_that_tables_hold(cls, clusters: dict[str, Cluster]) -> dict[str, Cluster]:
        wrong = [name for name in clusters if not name.strip() or len(name) > _LONGEST_NAME or _UNSTORABLE.search(name)]
        if wrong:
            why = f"a cluster's name has 1 to {_LONGEST_NAME} characters, without NUL or half a surrogate pair"
            raise section.WrongValuesError(*(((name,), why) for name in wrong))
        return clusters

    @field_validator("candidates")
    @classmethod
    def _named_once(cls, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        names = [candidate.name for candidate in candidates]
        for name in names:
            if name == IN_USE or names.count(name) > 1:
                raise ValueError(f"candidate {name}: {'that name is taken' if name == IN_USE else 'named twice'}")
        return candidates

    @field_validator("keys")
    @classmethod
    def _secret_outside_warehouse(cls, keys: sections.KeySettings, validation: ValidationInfo) -> sections.KeySettings:
        warehouse = validation.data.get("warehouse")
        if isinstance(warehouse, Path) and keys.secret.resolve().is_relative_to(warehouse.resolve()):
            reason = f"{keys.secret} is in the warehouse {warehouse}: put it where readers of tables cannot read it"
            raise section.WrongValuesError((("secret",), reason))
        return keys

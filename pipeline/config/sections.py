"""Sections of the configuration of some lines: `airflow`, `keys`, `metrics`, `report`, `retention`; of a cluster `what_ifs`, `zones`."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from pipeline.config.http_access import HttpLogin, HttpUrl
from pipeline.config.section import ConfigPath, Duration, NodeId, Section, WrongValuesError, suggest
from pipeline.errors import ConfigError
from pipeline.model.number_text import format_slug
from pipeline.tables import KEPT, TABLES, Table
from pipeline.tables.keys import EXPIRING, KEY_TRAFFIC
from pipeline.tables.silver import ARRIVALS, RECORD_BATCHES

Factor = Annotated[float, Field(ge=1e-6, le=1e6)]
BrokerId = Annotated[int, Field(ge=0, lt=2**31)]


class WhatIf(Section):
    add_brokers: dict[BrokerId, str] = Field(default_factory=dict)
    """More brokers: rack by id, "" for none."""
    lose_brokers: tuple[int, ...] = ()
    """Brokers that are gone."""
    lose_racks: tuple[str, ...] = ()
    """Racks whose brokers are gone."""
    resize_brokers: dict[NodeId, Factor] = Field(default_factory=dict)
    """Capacity of a broker by id, as a multiple of what it has."""
    grow: dict[str, Factor] = Field(default_factory=dict)
    """Traffic of a topic, as a multiple of what it has."""
    reassignment: ConfigPath | None = None
    """File as kafka-reassign-partitions reads it, carried out first."""


class AirflowNames(Section):
    prefix: str = Field("partition_health_", pattern=r"^[A-Za-z0-9_.-]{0,100}$")
    """Prefix of the ids of DAGs and of the names of assets and pool."""

    def name(self, of: str) -> str:
        return f"{self.prefix}{of}"


_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Schedule:
    cron: str  # ticks, in UTC, one per window
    run_offset: int  # ticks from the run back to the tick that names its window
    key_format: str  # turns that tick into the partition key, the window's start


def plan_schedule(window: timedelta, grace: timedelta) -> Schedule:
    """A run per window, `grace` after its end, rounded up to whole windows where these are shorter than an hour; else `ConfigError`.

    >>> plan_schedule(timedelta(hours=1), timedelta(minutes=5))
    Schedule(cron='5 * * * *', run_offset=-1, key_format='%Y-%m-%dT%H:00:00Z')
    >>> plan_schedule(timedelta(minutes=15), timedelta(minutes=5))
    Schedule(cron='*/15 * * * *', run_offset=-2, key_format='%Y-%m-%dT%H:%M:00Z')
    """
    if not window % _MINUTE and not _HOUR % window and window < _HOUR:
        minutes = window // _MINUTE
        late = -(-grace // window)
        return Schedule("* * * * *" if minutes == 1 else f"*/{minutes} * * * *", -1 - late, "%Y-%m-%dT%H:%M:00Z")
    if not window % _HOUR and not _DAY % window:
        hours = window // _HOUR
        late, rest = divmod(grace, window)
        minute = -(-rest // _MINUTE)
        if minute >= 60:
            late, minute = late + 1, 0
        hour = {1: "*", 24: "0"}.get(hours, f"*/{hours}")
        return Schedule(f"{minute} {hour} * * *", -1 - late, "%Y-%m-%dT%H:00:00Z")
    raise ConfigError(
        f"window: Airflow cannot schedule windows of {window.total_seconds():g} s: "
        "they have to be whole minutes that divide an hour, or whole hours that divide a day"
    )


PSEUDONYMOUS, COUNTS_ONLY = "pseudonymous", "counts_only"
DEFAULT_SECRET = Path("partition-health.secret")


class KeySettings(Section):
    mode: Literal["pseudonymous", "counts_only", "off"] = "pseudonymous"
    """`pseudonymous` stores counts by key id, and hashes by key id in a table of its own; `counts_only` stores sums
    over keys, no id and no hash; `off` reads no keys."""
    secret: ConfigPath = DEFAULT_SECRET
    """File outside the warehouse with the deployment secret, 64 hex digits; written at the first start, readable by its
    owner only. If it is lost, new ids cannot be matched with old ones."""
    secret_variable: str | None = None
    """Environment variable that holds the secret instead."""
    clear_topics: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """By cluster, topics whose keys may be stored in clear, with their hashes, for `retention`."""
    max_distinct_keys: int = Field(1_000_000, ge=2, le=1 << 28)
    """Keys held at once per segment and window; further ones are counted with a stated error. Each part of a segment
    that is cut among Spark's tasks holds as many: the error is then smaller."""
    retention: Duration = timedelta(days=30)
    """How long hashes, answers and clear keys are kept after the date on which the key was seen."""
    strategies: tuple[Annotated[str, Field(pattern=r"^[\w.]+:\w+$")], ...] = ()
    """User-defined strategies, `module:name`, that place every distinct key."""
    partition_counts: tuple[Annotated[int, Field(ge=1, lt=2**31)], ...] = ()
    """Partition counts they place it for, besides the topic's own."""


class Pushgateway(HttpLogin):
    url: HttpUrl
    """Its address, such as `http://pushgateway:9091`."""


class Metrics(Section):
    textfile_folder: ConfigPath | None = None
    """Folder of node_exporter's textfile collector; a file per cluster is replaced in it as a whole."""
    pushgateway: Pushgateway | None = None
    """Pushgateway that gets the same, a group per cluster."""
    topics: int = Field(500, ge=0)
    """Series are made for at most so many topics, those with most bytes."""
    partitions: int = Field(50, ge=0)
    """Series are made for at most so many partitions, those farthest above their topic's mean."""


class Report(Section):
    folder: ConfigPath | None = None
    """Where reports are written; `reports` in the warehouse by default."""
    base_url: str | None = Field(None, pattern=r"^https?://[^\s\"'<>]+$")
    """Address under which a web server of yours shows that folder, for links in mails; without it mails name the file."""
    period: Duration = timedelta(days=7)
    """How far back a report looks from its newest window."""
    keep: Duration = timedelta(days=30)
    """How long reports are kept after their newest window."""


def cluster_slug(cluster: str) -> str:
    """Returns a cluster's name as part of a file name; a digest distinguishes similar names."""
    slug = format_slug(cluster)
    digest = "" if slug == cluster else f"-{hashlib.blake2b(cluster.encode(), digest_size=3).hexdigest()}"
    return f"{slug}{digest}"


def report_name(cluster: str, window: str) -> str:
    return f"{cluster_slug(cluster)}-{window}.html"


LEAST_RETENTION = timedelta(days=31)  # as far back as jobs take up windows by themselves
SUMMED_UP = (RECORD_BATCHES, ARRIVALS, KEY_TRAFFIC)  # what grows with records and keys; read once, for sums
_NAMES = {table.name for table in TABLES} - {table.name for table in (*KEPT, *EXPIRING)}


def _check(retention: Mapping[str, timedelta]) -> Mapping[str, timedelta]:
    known = sorted({table.layer for table in TABLES}) + sorted(_NAMES)
    wrong = []
    for name, kept in retention.items():
        if name not in known:
            wrong.append(((name,), f"not a layer or a table that may lose rows; {suggest(name, known)}"))
        elif kept < LEAST_RETENTION:
            wrong.append(((name,), f"runs read up to {LEAST_RETENTION.days} days of history; keep that much or more"))
    if wrong:
        raise WrongValuesError(*wrong)
    return retention


Retention = Annotated[dict[str, Duration], AfterValidator(_check)]


def retention_of(retention: Mapping[str, timedelta], table: Table) -> timedelta | None:
    """How long a table's rows are kept: its own entry, or its layer's; None is for ever."""
    return None if table.name not in _NAMES else retention.get(table.name) or retention.get(table.layer)


class Zones(Section):
    """Availability zones, by the names that brokers have in `broker.rack`."""

    brokers: dict[NodeId, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict)
    """Zone of a broker by id, where its `broker.rack` is not its zone or it has none."""
    clients: dict[str, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict)
    """Zone by pattern of `client.id` or address, such as `checkout-a-*` or `10.1.*`, the first that fits; for clients
    that do not say their `client.rack` themselves."""
    weights: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """Proportions of producers per zone, for those whose zone is not known; by default equal for all zones of brokers."""
    price_per_gb: float | None = Field(None, ge=0)
    """Price of 10^9 bytes from one zone to another, both directions together, in your currency."""

    def find(self, *names: str) -> str:
        """Zone of a client by its `client.id` and addresses, without a port too; "" where no pattern fits.

        >>> zones = Zones(clients={"app-a*": "a", "10.1.*": "b"})
        >>> [zones.find("app-a7"), zones.find("x", "10.1.0.3:9404"), zones.find("x")]
        ['a', 'b', '']
        """
        tried = {part for name in names if name for part in (name, name.rpartition(":")[0])}
        return next((zone for glob, zone in self.clients.items() if any(fnmatchcase(name, glob) for name in tried)), "")

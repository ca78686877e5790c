"""Metrics for Prometheus about the newest judged window, as OpenMetrics and node_exporter read them: to a file, to a Pushgateway."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, push_to_gateway
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from pipeline.alerting.http_request import EXCHANGE_ERRORS, describe_exchange, exchange_once
from pipeline.config.sections import Pushgateway, cluster_slug
from pipeline.errors import DeliveryError, PipelineError
from pipeline.files import replace_file
from pipeline.measures import disks
from pipeline.model.window import END_OF_TIME_MS
from pipeline.report.answers import ask_newest
from pipeline.runs import RunContext

PREFIX = "partition_health_"
_WINDOW = "cluster = {cluster} AND window_start = {window}"
_DAY = "cluster = {cluster} AND window_date = {date} AND window_start = {window}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GaugeFamily:
    source: str  # what follows FROM
    labels: Mapping[str, str] = field(default_factory=dict)  # expressions by label, beside `cluster`
    metrics: Mapping[str, tuple[str, str]]  # by name without prefix: aggregate over the rows of a label set, meaning
    first: str = "1"  # which label sets come first where there are too many: an aggregate, descending
    limit: str = "1000"  # most label sets; in braces a key of the configuration's section `metrics`

    @property
    def table(self) -> str:
        return self.source.split()[0]

    @property
    def sql(self) -> str:
        selected = [f"{expression} AS {label}" for label, expression in self.labels.items()]
        selected += [f"{expression} AS {name}" for name, (expression, _) in self.metrics.items()]
        grouped = f" GROUP BY {', '.join(self.labels.values())}" if self.labels else ""
        order = ", ".join((f"{self.first} DESC NULLS LAST", *self.labels))
        return f"SELECT {', '.join(selected)} FROM {self.source}{grouped} ORDER BY {order} LIMIT {self.limit}"


FAMILIES = (
    GaugeFamily(
        source=f"gold.verdicts WHERE {_WINDOW}",
        metrics={"window_start_timestamp_seconds": ("date_part('epoch', max(window_start))", "Start of the window that all these metrics describe.")},
    ),
    GaugeFamily(
        source=f"gold.verdicts WHERE {_WINDOW}", labels={"rule": "rule", "verdict": "verdict"},
        metrics={"verdicts": ("count(*)", "Subjects with this verdict under this rule; no series where there are none.")},
    ),
    GaugeFamily(
        source="gold.incidents WHERE cluster = {cluster} AND incident_id NOT IN (SELECT incident_id FROM gold.incidents"
        " WHERE cluster = {cluster} AND state IN ('resolved', 'withdrawn'))",
        labels={"rule": "rule", "subject": "subject"},
        metrics={"incident_start_timestamp_seconds": ("date_part('epoch', max(since))", "Start of the first window above the limit, of each open incident.")},
        first="max(since)", limit="200",
    ),
    GaugeFamily(
        source=f"gold.broker_share WHERE {_WINDOW}", labels={"broker": "broker_id"},
        metrics={
            "broker_share_ratio": ("max(share_ratio)", "Part of the bytes divided by the part of the capacity; 1 is fair."),
            "broker_chance_ratio": ("max(chance_ratio)", "Share ratio that chance alone exceeds once in a thousand windows."),
            "broker_peak_ratio": ("max(peak_ratio)", "Load in its busiest slot (a sixtieth of the window, at least 5 s) divided by its fair part of the mean slot."),
            "broker_capacity": ("max(capacity)", "Capacity, the weight that the configuration gives it."),
            "broker_appended_bytes": ("max(size_bytes)", "Bytes appended in the window to partitions it led."),
            "broker_appended_records": ("max(record_count)", "Records appended in the window to partitions it led."),
            "broker_leaders": ("max(leader_count)", "Partitions led at the end of the window."),
            "broker_leaders_excess_ratio": ("max(leaders_term)", "Bytes above its fair share because it leads more partitions, as part of the cluster's bytes."),
            "broker_topic_mix_excess_ratio": ("max(topic_mix_term)", "Bytes above its fair share because it leads busier topics, likewise."),
            "broker_heavy_keys_excess_ratio": ("max(heavy_keys_term)", "Bytes above its fair share because of keys that no hash can spread, likewise."),
            "broker_hash_luck_excess_ratio": ("max(hash_luck_term)", "Bytes above its fair share because lighter keys hash to it by chance, likewise."),
            "broker_remainder_excess_ratio": ("max(remainder_term)", "The rest of the bytes above its fair share: batching, the partitioner, slow brokers."),
        },
    ),
    GaugeFamily(
        source=f"gold.verdicts WHERE {_WINDOW} AND rule = 'broker_share'",
        labels={"broker": "replace(subject, 'broker ', '')"},
        metrics={
            "broker_share_limit_ratio": ("max(limit_value)", "Share ratio from which a broker carries too much."),
            "broker_share_windows_above": ("max(above_count)", "Windows above the limit among the last n."),
        },
    ),
    GaugeFamily(
        source=f"gold.latency WHERE {_WINDOW} AND client_id = '*'", labels={"broker": "broker_id"},
        metrics={
            "broker_request_latency_avg_seconds": ("max(request_latency_avg_ms) / 1000", "Mean produce request latency as all producers saw it."),
            "broker_request_latency_max_seconds": ("max(request_latency_max_ms) / 1000", "Largest produce request latency."),
            "broker_request_latency_peers_ratio": ("max(ratio_to_peers)", "Mean latency divided by the median of the other brokers."),
        },
    ),
    GaugeFamily(
        source=f"gold.rule_measures WHERE {_WINDOW} AND rule = 'disk_hours_to_full' AND value < {disks.NO_END_HOURS}",
        labels={"broker": "replace(subject, 'broker ', '')"},
        metrics={"broker_disk_full_seconds": ("min(value) * 3600", "Time until its first volume is full.")},
    ),
    GaugeFamily(
        source=f"gold.topic_health WHERE {_WINDOW}", labels={"topic": "topic"},
        metrics={
            "topic_appended_bytes": ("sum(size_bytes)", "Bytes appended in the window."),
            "topic_appended_records": ("sum(record_count)", "Records appended in the window."),
            "topic_partitions": ("max(partition_count)", "Partitions."),
            "topic_peak_ratio": ("max(peak_to_mean)", "Bytes of its largest partition divided by the mean of its partitions."),
            "topic_chance_peak_ratio": ("max(chance_peak_to_mean)", "The value of that ratio that chance exceeds once in a thousand windows."),
            "topic_top_key_ratio": ("max(top_key_ratio)", "Part of its bytes that belongs to its heaviest key."),
            "topic_under_replicated_partitions": ("sum(under_replicated_count)", "Partitions with fewer in-sync replicas than replicas."),
            "topic_below_min_isr_partitions": ("sum(below_min_isr_count)", "Partitions below min.insync.replicas."),
            "topic_leaderless_partitions": ("sum(leaderless_count)", "Partitions without a leader."),
        },
        first="sum(size_bytes)", limit="{topics}",
    ),
    GaugeFamily(
        source=f"gold.partition_health WHERE {_WINDOW} AND excess_bytes > 0",
        labels={"topic": "topic", "partition": "partition"},
        metrics={
            "partition_excess_bytes": ("max(excess_bytes)", "Bytes above the mean of its topic's partitions."),
            "partition_mean_ratio": ("max(ratio_to_mean)", "Bytes divided by the mean of its topic's partitions."),
        },
        first="max(excess_bytes)", limit="{partitions}",
    ),
    GaugeFamily(
        source=f"gold.scenario_comparison WHERE {_WINDOW} AND NOT is_baseline AND trust = 'trusted'",
        labels={"topic": "topic", "candidate": "candidate"},
        metrics={"topic_candidate_broker_peak_ratio": ("max(broker_peak_to_mean)", "Bytes of the topic's busiest broker divided by the mean broker's, under a candidate; only trusted predictions.")},
        first="sum(size_bytes)", limit="{topics}",
    ),
    GaugeFamily(
        source=f"gold.back_tests WHERE {_WINDOW}", labels={"topic": "topic"},
        metrics={"topic_back_test_share_error_ratio": ("max(share_error_points) / 100", "Largest difference between a broker's predicted and observed share.")},
        first="max(share_error_points)", limit="{topics}",
    ),
    GaugeFamily(
        source=f"bronze.window_status WHERE {_DAY}", labels={"source": "source"},
        metrics={
            "source_newest_timestamp_seconds": ("date_part('epoch', max(newest_at))", "Newest instant of which a source had data when it was read."),
            "source_expected_items": ("max(expected_count)", "Partitions, brokers or clients that a source should bring."),
            "source_arrived_items": ("max(arrived_count)", "How many of them arrived."),
        },
    ),
)  # fmt: skip  # a table: a metric a line
_ANSWER_BYTES = 1 << 16
_JOB = "partition_health"


class WindowMetrics(Collector):
    def __init__(self, run: RunContext) -> None:
        self._run = run

    def collect(self) -> Iterator[GaugeMetricFamily]:
        run, limits = self._run, self._run.config.metrics.model_dump(include={"topics", "partitions"})
        asker = ask_newest(run, END_OF_TIME_MS)
        if asker is None:
            return
        for family in FAMILIES:
            rows = asker.ask(family.table, family.sql, limits).rows
            for name, (_, meaning) in family.metrics.items():
                samples = GaugeMetricFamily(PREFIX + name, meaning, labels=["cluster", *family.labels])
                for row in rows:
                    if row[name] is not None:
                        samples.add_metric([run.cluster_name, *(str(row[label]) for label in family.labels)], row[name])
                yield samples


def publish_metrics(run: RunContext) -> tuple[str, ...]:
    config = run.config.metrics
    if config.textfile_folder is None and config.pushgateway is None:
        return ()
    registry = CollectorRegistry(auto_describe=False)
    try:
        registry.register(WindowMetrics(run))
        if config.textfile_folder is not None:
            config.textfile_folder.mkdir(parents=True, exist_ok=True)
            path = config.textfile_folder / f"partition_health_{cluster_slug(run.cluster_name)}.prom"
            replace_file(path, generate_latest(registry), mode=0o644)
        if config.pushgateway is not None:
            _push(registry, config.pushgateway, run.cluster_name)
    except (OSError, PipelineError) as error:
        return (f"the metrics could not be published: {error}",)
    return ()


def _push(registry: CollectorRegistry, gateway: Pushgateway, cluster: str) -> None:
    def handler(
        *, url: str, method: str, headers: list[tuple[str, str]], data: bytes, **_: object
    ) -> Callable[[], object]:
        client = gateway.async_client()
        request = client.build_request(method, url, headers=dict(headers), content=data)
        return exchange_once(client, request, most_bytes=_ANSWER_BYTES)[0].raise_for_status

    try:
        push_to_gateway(gateway.url, _JOB, registry, grouping_key={"cluster": cluster}, handler=handler)
    except EXCHANGE_ERRORS as error:
        raise DeliveryError(f"{gateway.url}: {describe_exchange(error, gateway.hide)}") from None

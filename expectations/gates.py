"""The gates: which suites each has, over which windows, and what of their rows only the driver knows."""

from collections.abc import Callable
from functools import partial

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from expectations.gate import NOTHING, Asked, Batches, Versions, run_gate
from expectations.reports import SuiteReport, raise_for_data_gate
from expectations.suite_files import OF_STRATEGIES
from pipeline.config.mail import MAIL_CHANNEL
from pipeline.config.section import is_record_source
from pipeline.model.incident import IncidentChange
from pipeline.model.verdict import HISTORY_FACTOR, Verdicts
from pipeline.model.window import TimeWindow, Windows, instant_of, milliseconds_of
from pipeline.runs import RunContext
from pipeline.storage.predicates import format_datafusion_text
from pipeline.storage.window_status import trust_windows, windows_in_doubt
from pipeline.tables import Table
from pipeline.tables.broker_metrics import BROKER_METRICS, BROKER_REQUEST_TIMES, BROKER_TOPICS
from pipeline.tables.bronze import WINDOW_STATUS
from pipeline.tables.gold import BROKER_SHARE, VERDICTS
from pipeline.tables.health import FORECAST, RULE_MEASURES
from pipeline.tables.incidents import ALERT_OUTBOX, INCIDENTS
from pipeline.tables.keys import KEY_HASHES, KEY_MATRICES, KEY_TRAFFIC
from pipeline.tables.replay import BACK_TESTS
from pipeline.tables.silver import ARRIVALS, RECORD_BATCHES

_HISTORY_WINDOWS = 24
_LEAST_HISTORY = 3
_TOPIC = ("window_start", "topic", "topic_id")
_DIGIT = "strpos('0123456789abcdef', substr(key_id, {place}, 1)) - 1"
_NUMBER = " + ".join(f"{16**at} * ({_DIGIT.format(place=6 - at)})" for at in range(6))
_DIGEST_OF_KEY = f"({_NUMBER}) * (partition + 1) * (record_count + size_bytes)"  # adds to `arrivals.key_digest`


def check_ingested(spark: SparkSession, run: RunContext, versions: Versions = NOTHING) -> tuple[SuiteReport, ...]:
    """The data gate of `ingest`, which marks the windows; `DataGateError` if a critical check failed, after all had their turn."""
    starts_ms, max_age_ms = [window.start_ms for window in run.windows], milliseconds_of(run.cluster.freshness)
    parameters = {"windows_ms": starts_ms, "max_age_ms": max_age_ms}
    reports = run_gate(spark, "ingest", run, list_ingested(run), versions=versions, parameters=parameters)
    raise_for_data_gate(reports)
    # a run beside this one may have replaced some, and its gate is still to come
    trust_windows(run.warehouse, run.cluster_name, run.windows, run_id=run.run_id)
    return reports


def list_ingested(run: RunContext) -> Batches:
    # not of windows in doubt: one table may lack what another has
    doubted = {window.start_ms for window in windows_in_doubt(run.warehouse, run.cluster_name, run.windows)}
    columns = ("window_start_ms", "source", "source_expired", "table_versions")
    status = [told for told in run.tuples(WINDOW_STATUS, run.windows, *columns) if told[0] not in doubted]

    def windows_with(table: Table, source: str = "") -> list[TimeWindow]:
        """The run's windows whose rows of a table, read from a source or any, this run vouches for."""
        starts_ms = {
            start_ms
            for start_ms, name, is_expired, versions in status
            if (name == source if source else is_record_source(name)) and not is_expired
            if dict(versions).get(table.name) is not None
        }
        return [window for window in run.windows if window.start_ms in starts_ms]

    all_windows = Asked(run.windows)
    of_run = Asked(run.windows, {"own": f"run_id = {format_datafusion_text(run.run_id)}"})  # of tables without windows
    kept_from_ms = run.now_ms - milliseconds_of(run.config.keys.retention)
    hashed = Asked([window for window in windows_with(KEY_HASHES) if window.start_ms >= kept_from_ms])
    answers = (hashed, Asked(windows_with(KEY_MATRICES))) if run.config.keys.strategies else ()
    return {
        "window_status_gate": partial(run.load, WINDOW_STATUS, run.windows),
        "broker_metrics_gate": partial(run.load, BROKER_METRICS, run.windows),
        "broker_topics_gate": partial(run.load, BROKER_TOPICS, run.windows),
        "broker_request_times_gate": partial(run.load, BROKER_REQUEST_TIMES, run.windows),
        "partition_traffic_gate": all_windows,
        "record_batches_gate": all_windows,
        "consumer_groups_gate": all_windows,
        "producer_nodes_gate": all_windows,
        "arrivals_gate": all_windows,
        "cluster_state_gate": all_windows,
        "brokers_gate": all_windows,
        "quarantine_gate": of_run,
        "log_counts_gate": Asked(sorted({*run.split_by_rows(run.windows)[0], *windows_with(RECORD_BATCHES)})),
        "leaders_gate": all_windows,
        "key_traffic_gate": Asked(windows_with(KEY_TRAFFIC)),
        "arrival_counts_gate": Asked(windows_with(ARRIVALS), {"digest_of_key": _DIGEST_OF_KEY}),
        "metric_samples_gate": Asked(run.windows, {"window_us": f"{1000 * run.window_ms}"}),
        "log_segments_gate": of_run,
        "log_ends_gate": of_run,
        "log_coverage_gate": Asked(windows_with(RECORD_BATCHES, "log_directories")),
        "key_hashes_gate": hashed,
        **dict(zip(OF_STRATEGIES, answers, strict=False)),
    }


def check_replayed(
    spark: SparkSession, run: RunContext, windows: tuple[TimeWindow, ...], versions: Versions = NOTHING
) -> tuple[SuiteReport, ...]:
    """The data gate of `replay`, over the windows that were replayed; raises as `check_ingested`."""
    if not windows:
        return ()
    reports = run_gate(spark, "replay", run, list_replayed(run, windows), versions=versions)
    raise_for_data_gate(reports)
    return reports


def list_replayed(run: RunContext, windows: tuple[TimeWindow, ...]) -> Batches:
    asked, seeds = Asked(windows), {"seeds": f"{run.config.replay.seeds}"}
    return {
        "replay_results_gate": asked,
        "replay_brokers_gate": asked,
        "scenario_comparison_gate": Asked(windows, seeds, add=partial(_add_expected, run)),
        "hash_verdicts_gate": asked,
        "back_tests_gate": Asked(windows, add=partial(_add_tests, run, windows)),
        "producer_sessions_gate": asked,
        "session_counts_gate": asked,
        "service_models_gate": asked,
    }


def _add_expected(run: RunContext, rows: pa.Table) -> pa.Table:
    topics = rows["topic"].to_pylist()
    # and the current setup
    counts = {topic: 1 + sum(candidate.fits(topic) for candidate in run.config.candidates) for topic in set(topics)}
    return rows.append_column("expected_candidate_count", pa.array([counts[topic] for topic in topics], pa.int64()))


def _add_tests(run: RunContext, windows: tuple[TimeWindow, ...], found: pa.Table) -> pa.Table:
    rows = add_history(run, windows)
    told = (
        ("replayed_trust", pa.string()),
        ("comparison_count", pa.int64()),
        *((name, pa.float64()) for name in ("replayed_share", "recorded_share", "range_points")),
    )
    return rows.join(found.cast(pa.schema([*map(rows.schema.field, _TOPIC), *told])), _TOPIC)


def add_history(run: RunContext, windows: tuple[TimeWindow, ...]) -> pa.Table:
    """Rows of `gold.back_tests` with the median error of their topic in the windows before; NULL with too few of them."""
    first_ms, end_ms = min(window.start_ms for window in windows), max(window.end_ms for window in windows)
    reach = TimeWindow(max(0, first_ms - HISTORY_FACTOR * _HISTORY_WINDOWS * run.window_ms), end_ms)
    history = pl.DataFrame(run.load(BACK_TESTS, (reach,), (*_TOPIC, "share_error_points"))).sort("window_start")
    before = pl.col("share_error_points").shift(1)
    median = before.rolling_quantile(0.5, "lower", _HISTORY_WINDOWS, min_samples=_LEAST_HISTORY)
    medians = history.select(*_TOPIC, history_share_error_points=median.over("topic", "topic_id")).to_arrow()
    rows = run.load(BACK_TESTS, windows).drop_columns(["settings"])  # which no join of Arrow takes
    kinds = [*map(rows.schema.field, _TOPIC), ("history_share_error_points", pa.float64())]
    return rows.join(medians.cast(pa.schema(kinds)), _TOPIC)


def check_health(run: RunContext, verdicts: Verdicts, queue: Callable[[], object] | None = None) -> SuiteReport:
    """The health gate over verdicts with limit, k, severity: its failure is mailed; `queue`, its action, queues incidents."""
    from expectations.actions import QueueIncidents  # takes three seconds

    actions = [] if queue is None else [QueueIncidents.by(lambda _: queue())]
    rows = run.table_of(VERDICTS, verdicts).append_column("k", pa.array([one.k for one in verdicts], pa.int64()))
    rows = rows.append_column("severity", pa.array([one.severity for one in verdicts], pa.string()))
    (report,) = run_gate(None, "health", run, {"health_gate": lambda: rows}, actions=actions)
    return report


def check_measured(
    spark: SparkSession, run: RunContext, windows: Windows, verdicts: Verdicts, versions: Versions = NOTHING
) -> tuple[SuiteReport, ...]:
    """The data gate of `health`, after incidents were queued, so that none is silenced; raises as `check_ingested`."""
    reports = run_gate(spark, "measures", run, list_measured(run, windows, verdicts), versions=versions)
    raise_for_data_gate(reports)
    return reports


def list_measured(run: RunContext, windows: Windows, verdicts: Verdicts) -> Batches:
    kept, asked = run.split_by_rows(windows)[0], Asked(windows)  # others' keys are dropped (`sums_only`)
    broker = "coalesce(share.broker_id, led.broker_id)"
    sizes = "".join(f" WHEN {number} THEN {float(value)}" for number, value in run.cluster.capacity.items())
    capacity = {"capacity": f"CASE {broker}{sizes} ELSE 1.0 END" if sizes else "1.0"}
    has_zones = {"has_zones": "true" if run.cluster.zones.brokers else "coalesce(rack, '') <> ''"}
    return {
        "broker_share_gate": Asked(windows, capacity),
        "partition_health_gate": asked,
        "topic_health_gate": asked,
        "hot_keys_gate": Asked(kept),
        "latency_gate": asked,
        "group_balance_gate": asked,
        "zone_traffic_gate": Asked(kept, has_zones),
        "rule_measures_gate": asked,
        "recommendations_gate": asked,
        "promises_gate": asked,
        "forecast_gate": partial(run.load, FORECAST, windows),
        "verdicts_gate": partial(join_verdicts, run, verdicts),
        "incidents_gate": asked,
        "alert_outbox_gate": partial(join_messages, run, windows),
    }


def join_messages(run: RunContext, windows: Windows) -> pa.Table:
    """Messages about the windows, and a row without one for each open change that nobody silenced and no mail tells."""
    names = ("window_start", "message_id", "incident_id", "state", "channel", "tells", "subject_line", "attempt_count")
    messages = run.load(ALERT_OUTBOX, None, (*names, "delivered_at", "delivered_to"))
    told: set[str] = set()
    for row in messages.to_pylist():
        if (row["channel"] or MAIL_CHANNEL) == MAIL_CHANNEL:
            told |= set((row["tells"] or f"{row['incident_id']}-{row['state']}").split(","))
    starts = pa.array([window.start_ms * 1000 for window in windows], pa.int64()).cast(messages["window_start"].type)
    own = messages.filter(pc.is_in(messages["window_start"], starts))
    untold = [
        {"window_start": instant_of(one.window_start_ms), "incident_id": one.incident_id, "state": one.state}
        for one in run.values(IncidentChange, INCIDENTS, windows, where="silenced_by IS NULL")
        if one.is_open and one.key not in told
    ]
    schema = pa.schema([field.with_nullable(nullable=True) for field in own.schema])
    return pa.concat_tables([own.cast(schema), pa.Table.from_pylist(untold, schema)])


def join_verdicts(run: RunContext, verdicts: Verdicts) -> pa.Table:
    """Verdicts as they are to be stored, and brokers that lack one, with the measure that each judges."""
    rows = run.table_of(VERDICTS, verdicts)
    starts_ms = sorted({verdict.window_start_ms for verdict in verdicts})
    windows = [run.window_at(start_ms) for start_ms in starts_ms]
    names = ("window_start", "rule", "subject")
    measured = {tuple(key): value for *key, value in run.tuples(RULE_MEASURES, windows, *names, "value")} | {
        (start, "broker_share", f"broker {broker_id}"): ratio
        for start, broker_id, ratio in run.tuples(BROKER_SHARE, windows, "window_start", "broker_id", "share_ratio")
    }
    keys = list(zip(*(rows[name].to_pylist() for name in names), strict=True))
    judged = rows.append_column("measured_value", pa.array([measured.get(key) for key in keys], pa.float64()))
    unjudged = [dict(zip(names, key, strict=True)) for key in {*measured} - {*keys} if key[1] == "broker_share"]
    schema = pa.schema([field.with_nullable(nullable=True) for field in judged.schema])
    return pa.concat_tables([judged.cast(schema), pa.Table.from_pylist(unjudged, schema)])

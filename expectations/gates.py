"""Which suites are behind which job: the data gate after `ingest`, the health gate after `judge_health`.

Light to import, like `expectations.gate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from expectations.gate import GateReport, check_table, raise_for_data_gate, run_suite
from pipeline.model.verdict import Verdict
from pipeline.model.window import TimeWindow, milliseconds_of
from pipeline.tables import Table
from pipeline.tables.broker_metrics import BROKER_METRICS, BROKER_REQUEST_TIMES, BROKER_TOPICS
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE, CONSUMER_GROUPS, LOG_SEGMENTS, WINDOW_STATUS
from pipeline.tables.gold import VERDICTS
from pipeline.tables.health import RULE_MEASURES
from pipeline.tables.keys import KEY_TRAFFIC
from pipeline.tables.silver import ARRIVALS, PARTITION_TRAFFIC, PRODUCER_NODES, RECORD_BATCHES

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from pipeline.runs import RunContext

_WITH_SUITES = (
    *(CLUSTER_STATE, PARTITION_TRAFFIC, RECORD_BATCHES),
    *(BROKER_METRICS, BROKER_TOPICS, BROKER_REQUEST_TIMES),
)
_KEYS_ONLY = (BROKERS, CONSUMER_GROUPS, PRODUCER_NODES, ARRIVALS)


def check_ingested(spark: SparkSession, run: RunContext) -> tuple[GateReport, ...]:
    """The data gate of `ingest`: may the next step trust the run's windows? If so, they are marked.

    Raises:
        DataGateError: if a critical check failed; all suites had their turn before.
        GateBrokenError: if a check raised.
    """
    from expectations.data_docs import write_data_docs  # loads Great Expectations
    from pipeline.storage.window_status import trust_windows

    reports = (
        check_table(
            spark,
            run,
            WINDOW_STATUS,
            run.windows,
            windows_ms=[window.start_ms for window in run.windows],
            max_age_ms=milliseconds_of(run.cluster.freshness),
        ),
        *(check_table(spark, run, table, run.windows) for table in _WITH_SUITES),
        *(check_table(spark, run, table, run.windows, "keys_gate") for table in _KEYS_ONLY),
        run_suite("log_counts_gate", sum_logs(run)),
        run_suite("log_ends_gate", find_log_ends(run)),
        run_suite("key_traffic_gate", load_key_sums(run)),
        run_suite("arrivals_gate", sum_arrivals(run)),
    )
    write_data_docs(run, reports)
    raise_for_data_gate(reports)
    trust_windows(run.warehouse, run.cluster_name, run.windows)
    return reports


def sum_logs(run: RunContext) -> pa.Table:
    """Records, control records among them, and bytes of each topic-partition and window: its traffic's and its batches'.

    Traffic is summed up while the logs are scanned, batches are counted as they are stored; where all were read. A window that
    this run stored has to have its batches, one that it left as it was may have lost them since (`sums_only`, `retention`).
    """
    return run.query(
        """
        SELECT window_start, topic, topic_id, partition, sum(records) AS record_count, sum(bytes) AS size_bytes,
               sum(batch_records) AS batch_record_count, sum(batch_bytes) AS batch_size_bytes
        FROM (
            SELECT window_start, topic, topic_id, partition, coalesce(count_kind, 'exact') = 'exact' AS is_exact,
                   record_count + control_record_count AS records, size_bytes AS bytes,
                   0 AS batch_records, 0 AS batch_bytes
            FROM traffic
            UNION ALL
            SELECT window_start, topic, topic_id, partition, true AS is_exact, 0 AS records, 0 AS bytes,
                   record_count AS batch_records, size_bytes AS batch_bytes
            FROM batches
        ) AS counted
        GROUP BY window_start, topic, topic_id, partition
        HAVING bool_and(is_exact)
        """,
        sorted({*run.split_by_rows(run.windows)[0], *_windows_with(run, RECORD_BATCHES)}),
        traffic=PARTITION_TRAFFIC,
        batches=RECORD_BATCHES,
    )


def find_log_ends(run: RunContext) -> pa.Table:
    """The last offset that this run's scan found in each log it read to its newest segment, and the log's end.

    The end is not the scan's: it is that of the last index entry and the batches after it.
    """
    import pyarrow as pa

    from pipeline.storage.predicates import format_datafusion_text

    ends = {
        (row["topic"], row["topic_id"], row["partition"], row["replica_id"]): row["log_end_offset"]
        for row in run.rows(CLUSTER_STATE, run.windows)
        if row["run_id"] == run.run_id and row["log_end_offset"] is not None
    }
    names = ("topic", "topic_id", "partition", "broker_id")
    is_scanned_now = (
        f"is_active AND is_scanned AND last_offset IS NOT NULL AND run_id = {format_datafusion_text(run.run_id)}"
    )
    found = [
        {**dict(zip(names, key, strict=True)), "last_offset": row["last_offset"], "log_end_offset": ends[key]}
        for row in run.load(LOG_SEGMENTS, where=is_scanned_now).to_pylist()
        if (key := tuple(row[name] for name in names)) in ends
    ]
    kinds = (pa.string(), pa.string(), *(pa.int64(),) * 4)
    return pa.Table.from_pylist(found, pa.schema(zip((*names, "last_offset", "log_end_offset"), kinds, strict=True)))


def load_key_sums(run: RunContext) -> pa.Table:
    """Data records of each topic-partition and window as its batches have them and as its keys do.

    Only windows that this run read keys of: neither those older than the tables of keys nor runs that read none.
    """
    return run.query(
        """
        SELECT window_start, topic, topic_id, partition, sum(stored) AS record_count,
               sum(keyed) AS key_record_count, sum(unreadable) AS unreadable_record_count
        FROM (
            SELECT window_start, topic, topic_id, partition, record_count AS stored, 0 AS keyed, 0 AS unreadable
            FROM traffic
            UNION ALL
            SELECT window_start, topic, topic_id, partition, 0 AS stored, record_count AS keyed,
                   CASE WHEN kind = 'unreadable' THEN record_count ELSE 0 END AS unreadable
            FROM keys
        ) AS counted
        GROUP BY window_start, topic, topic_id, partition
        """,
        _windows_with(run, KEY_TRAFFIC),
        traffic=PARTITION_TRAFFIC,
        keys=KEY_TRAFFIC,
    )


def sum_arrivals(run: RunContext) -> pa.Table:
    """Data records of each topic and window as its batches have them and as its arrivals do, where all were read."""
    uneven = " OR ".join(
        f"coalesce(array_length({name}), 0) <> record_count"
        for name in ("gap_ms", "body_bytes", "partition", "key_index")
    )
    return run.query(
        f"""
        SELECT window_start, topic, topic_id, sum(stored) AS record_count, sum(arrived) AS arrival_record_count,
               sum(outliers) AS outlier_record_count, sum(uneven) AS uneven_row_count
        FROM (
            SELECT window_start, topic, topic_id, coalesce(count_kind, 'exact') = 'exact' AS is_exact,
                   record_count AS stored, 0 AS arrived, 0 AS outliers, 0 AS uneven
            FROM traffic
            UNION ALL
            SELECT window_start, topic, topic_id, true AS is_exact, 0 AS stored,
                   record_count + unreadable_record_count AS arrived, outlier_record_count AS outliers,
                   CASE WHEN {uneven} THEN 1 ELSE 0 END AS uneven
            FROM arrivals
            WHERE count_kind = 'exact'
        ) AS counted
        GROUP BY window_start, topic, topic_id
        HAVING bool_and(is_exact)
        """,
        _windows_with(run, ARRIVALS),
        traffic=PARTITION_TRAFFIC,
        arrivals=ARRIVALS,
    )


def _windows_with(run: RunContext, table: Table) -> list[TimeWindow]:
    """The run's windows whose rows of a table this run vouches for."""
    from pipeline.config.source import is_record_source  # brings pydantic

    starts_ms = {
        milliseconds_of(row["window_start"])
        for row in run.rows(WINDOW_STATUS, run.windows)
        if is_record_source(row["source"])
        and not row["source_expired"]
        and dict(row["table_versions"]).get(table.name) is not None
    }
    return [window for window in run.windows if window.start_ms in starts_ms]


def check_health(
    spark: SparkSession, run: RunContext, windows: Sequence[TimeWindow], verdicts: Sequence[Verdict]
) -> GateReport:
    """The health gate over the verdicts on scored windows: every value with its limit, k and severity."""
    import pyarrow as pa

    from expectations.data_docs import write_data_docs

    rows = run.table_of(VERDICTS, verdicts)
    rows = rows.append_column("k", pa.array([verdict.k for verdict in verdicts], pa.int64()))
    rows = rows.append_column("severity", pa.array([verdict.severity for verdict in verdicts], pa.string()))
    reports = (run_suite("health_gate", rows), check_table(spark, run, RULE_MEASURES, windows))
    write_data_docs(run, reports)
    return GateReport(suite="health_gate", checks=tuple(check for report in reports for check in report.checks))


def describe_health(verdicts: Sequence[Verdict], run: RunContext) -> str:
    """The verdict in words, see `pipeline.verdicts.health_text`."""
    from pipeline.verdicts.health_text import describe_verdicts

    return describe_verdicts(verdicts, cluster=run.cluster_name, gate=run.cluster.gate, window_ms=run.window_ms)

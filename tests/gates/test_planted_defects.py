"""Every expectation of every suite, with the defect it exists for planted where jobs leave it: each fails.

A minute of two topics of the capture is ingested and replayed once. Each case changes a copy of its tables as a broken
job, a lost write or a damaged file would have left them, and the gates run as after the job.
"""

import dataclasses
import datetime as dt
import json
import shutil

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from expectations.engine import SUITES
from expectations.gates import check_health, check_ingested
from expectations.replay_gate import add_history, check_replayed
from pipeline.config.rules import Gate
from pipeline.errors import DataGateError, StorageError
from pipeline.jobs import ingest, replay
from pipeline.model.trust import Trust
from pipeline.model.verdict import Verdict
from pipeline.replay.comparison import comparison_row
from pipeline.replay.rows import broker_rows, partition_rows
from pipeline.replay.simulated.runs import CELL_RECORDS
from pipeline.replay.simulated.topics import SimulatedTopic
from pipeline.rules.rule import RuleMeasure
from pipeline.storage.frames import arrow_schema
from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import table_path
from pipeline.storage.window_status import trusted_windows
from pipeline.tables.health import RULE_MEASURES
from pipeline.verdicts.broker_share import judge_broker_share
from pipeline.verdicts.sources import SourceStatus, judge_sources
from tests.engines import sail
from tests.gates.rows import MINUTE_0_MS, declared
from tests.gates.test_health_gate import HOT, LIMITS, MINUTE_MS, shares
from tests.spark.capture_runs import ALL_SOURCES, SCRAPES, Capture, plan
from tests.unit.replay.test_simulated_rows import outcome_of, record, simulate

TOPICS = ("orders", "payments")
MINUTE = 3


@pytest.fixture(scope="module")
def healthy(capture_folder, tmp_path_factory):
    """A run without a defect; its gates pass."""
    clock = json.loads((capture_folder / "manifest.json").read_text())["clock"]
    capture = Capture(capture_folder, clock["start_ms"], clock["end_ms"], clock["recorded_until_ms"])
    folder = tmp_path_factory.mktemp("healthy")
    part = capture.part(folder / "capture", topics=TOPICS, scrapes=SCRAPES)
    context = plan(part.write_config(folder, topics=TOPICS, sources=ALL_SOURCES), part.span(MINUTE, MINUTE + 1))
    ingest.run(sail(), context)
    reports = check_ingested(None, context)
    replay.run(sail(), context, context.windows)
    reports += check_replayed(None, context, context.windows)
    assert [check.name for report in reports for check in report.checks if not check.success] == []
    return context


@pytest.fixture
def run(healthy, tmp_path):
    """The same run with tables of its own."""
    shutil.copytree(healthy.warehouse, tmp_path / "warehouse")
    return dataclasses.replace(healthy, config=healthy.config.model_copy(update={"warehouse": tmp_path / "warehouse"}))


def rewrite(run, name, change):
    """Puts other rows in place of a table's; no check of the storage sees them."""
    table = declared(name)
    rows = change(load_rows(run.warehouse, table).to_pylist())
    write_deltalake(table_path(run.warehouse, table), _arrow(table, rows), mode="overwrite")


def _arrow(table, rows):
    return pa.Table.from_pylist(rows, arrow_schema(table))


def changed(name, where=lambda row: True, **values):
    """The first row that `where` picks gets other values; a function gets the row."""

    def plant(run):
        def change(rows):
            row = next(row for row in rows if where(row))
            row |= {key: value(row) if callable(value) else value for key, value in values.items()}
            return rows

        rewrite(run, name, change)

    return plant


def doubled(name, **values):
    """A row is there twice, as after a write that was repeated."""
    return lambda run: rewrite(run, name, lambda rows: [*rows, rows[0] | values])


def lost(name, where=lambda row: True):
    """A row was never written."""

    def change(rows):
        gone = next(row for row in rows if where(row))
        return [row for row in rows if row is not gone]

    return lambda run: rewrite(run, name, change)


def all_lost(name):
    return lambda run: rewrite(run, name, lambda _: [])


def of(**values):
    return lambda row: all(row[name] == value for name, value in values.items())


def simulated(row):
    return row["topic"] == "orders" and row["candidate"] == "builtin"


def in_use(row):
    return row["topic"] == "orders" and row["is_baseline"]


def less(name, by=1):
    return lambda row: row[name] - by


def more(name, by=1):
    return lambda row: row[name] + by


def rising_error(run):
    """Three windows before were predicted well."""

    def change(rows):
        (now,) = (row for row in rows if row["topic"] == "orders")
        now |= {"share_error_points": 1.4, "share_bar_points": 1.5}
        before = [
            now | {"window_start": now["window_start"] - dt.timedelta(minutes=back), "share_error_points": 0.1}
            for back in (1, 2, 3)
        ]
        return [*rows, *before]

    rewrite(run, "gold.back_tests", change)


def lossy(kept, lost_count, *, ending=0):
    """Simulated runs that bring part of their records nowhere, through the code that makes the tables' rows.

    `kept`: part of the records that partitions hold; `lost_count`: what the runs say they lost; `ending`: records that
    are neither acknowledged nor lost.
    """

    def plant(run):
        runs = simulate(seeds=(1, 2))
        recorded = record(runs[1])
        for seed, one in runs.items():
            cells = one.cells.copy()
            cells[:, CELL_RECORDS] = cells[:, CELL_RECORDS] * kept
            runs[seed] = dataclasses.replace(
                one, cells=cells, refused_count=lost_count, done_count=one.done_count - lost_count - ending
            )
        topic, outcome = outcome_of(SimulatedTopic(recorded, runs))
        columns = comparison_row(topic, outcome, {"trust": Trust.TRUSTED})
        start = run.windows[0].start_ms
        named = {
            "window_start": dt.datetime.fromtimestamp(start / 1000, dt.UTC),
            "topic": "orders",
            "candidate": "in-use",
        }

        def change_comparison(rows):
            row = next(row for row in rows if in_use(row))
            named["topic_id"] = row["topic_id"]
            row |= {name: value for name, value in columns.items() if name in row} | {"seed_count": row["seed_count"]}
            return rows

        def put(fresh):
            def change(rows):
                kept_rows = [row for row in rows if not in_use(row)]
                head = {"cluster": run.cluster_name, "is_baseline": True, "run_id": run.run_id, **named}
                return [*kept_rows, *({**head, **row} for row in fresh)]

            return change

        rewrite(run, "gold.scenario_comparison", change_comparison)
        rewrite(run, "gold.replay_results", put(list(partition_rows(topic, outcome))))
        rewrite(run, "gold.replay_brokers", put(list(broker_rows(topic, outcome))))
        whole = int(recorded.records.sum())
        rewrite(
            run,
            "silver.partition_traffic",
            lambda rows: [
                row | {"record_count": whole if row["partition"] == 0 else 0} if row["topic"] == "orders" else row
                for row in rows
            ],
        )

    return plant


TRAFFIC, STATUS, STATE = "silver.partition_traffic", "bronze.window_status", "bronze.cluster_state"
BATCHES, RESULTS, COMPARED = "silver.record_batches", "gold.replay_results", "gold.scenario_comparison"
BROKER, TIMES, TESTED = "silver.broker_metrics", "silver.broker_request_times", "gold.back_tests"
LOGS, OTHERS = of(source="log_directories"), of(source="producer_metrics")
LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)

INGESTED = {
    "window_status_gate": {
        "windows_present": lost(STATUS, LOGS),
        "key_unique": doubled(STATUS),
        "log_directories_complete": changed(STATUS, LOGS, arrived_count=2),
        "other_sources_complete": changed(STATUS, OTHERS, expected_count=more("arrived_count")),
        "window_over": changed(STATUS, LOGS, as_of=lambda row: row["window_end"] - dt.timedelta(seconds=1)),
        "log_directories_fresh": changed(STATUS, LOGS, newest_at=LONG_AGO),
        "other_sources_fresh": changed(STATUS, OTHERS, newest_at=LONG_AGO),
        "source_not_expired": changed(STATUS, LOGS, source_expired=True),
    },
    "cluster_state_gate": {
        "key_unique": doubled(STATE),
        "leader_flag_agrees": changed(STATE, is_leader=lambda row: not row["is_leader"]),
        "leader_known": changed(STATE, of(is_leader=False), leader_id=-1),
    },
    "partition_traffic_gate": {
        "key_unique": doubled(TRAFFIC),
        "offsets_contiguous": changed(TRAFFIC, missing_offset_count=5),
        "no_record_gone": changed(TRAFFIC, compacted_record_count=5),
        "crc_ok": changed(TRAFFIC, crc_error_count=1),
        "leader_known": changed(TRAFFIC, leader_id=-1),
        "no_time_outlier": changed(TRAFFIC, time_outlier_count=1),
    },
    "record_batches_gate": {
        "key_unique": doubled(BATCHES),
        "header_sound": changed(BATCHES, record_count=more("record_count")),
        "crc_ok": changed(BATCHES, is_crc_ok=False),
    },
    "log_counts_gate": {"records_read_equal_written": lost(BATCHES)},
    "log_ends_gate": {
        "logs_read_to_their_ends": changed(
            "bronze.log_segments",
            of(is_active=True, is_scanned=True, topic="orders"),
            last_offset=less("last_offset", 520),
        )
    },
    "broker_metrics_gate": {
        "key_unique": doubled(BROKER),
        "increases_not_negative": changed(BROKER, bytes_in=-1.0),
        "idle_ratios_sound": changed(BROKER, request_handler_idle_ratio=3.0),
        "leaders_held": changed(BROKER, leader_count=9, partition_count=8),
        "broker_known": changed(BROKER, broker_id=None),
    },
    "broker_topics_gate": {
        "key_unique": doubled("silver.broker_topics"),
        "increases_not_negative": changed("silver.broker_topics", bytes_in=-1.0),
    },
    "broker_request_times_gate": {
        "key_unique": doubled(TIMES),
        "times_not_negative": changed(TIMES, request_count=-1.0),
        "percentiles_in_order": changed(TIMES, time_p50_ms=9.0, time_p99_ms=1.0),
    },
    "keys_gate": {"key_unique": doubled("bronze.brokers")},
    "key_traffic_gate": {
        "records_by_key_equal_data_records": lost("silver.key_traffic"),
        "records_readable": changed("silver.key_traffic", kind="unreadable"),
    },
    "arrivals_gate": {
        "arrivals_equal_data_records": lost("silver.arrivals"),
        "arrays_even": changed("silver.arrivals", gap_ms=lambda row: row["gap_ms"][:-1]),
        "timestamps_in_line": changed("silver.arrivals", outlier_record_count=1),
    },
}

REPLAYED = {
    "replay_results_gate": {
        "key_unique": doubled(RESULTS),
        "ranges_sound": changed(RESULTS, simulated, record_count_low=more("record_count")),
        "no_partition_beyond": changed(RESULTS, simulated, partition_count=0),
        "batches_sound": changed(RESULTS, simulated, batch_count_high=less("batch_count")),
    },
    "scenario_comparison_gate": {
        "key_unique": doubled(COMPARED),
        "replayed_equal_recorded": lossy(0.48, 0),
        "recorded_equal_batches": lost(TRAFFIC, of(topic="orders")),
        "shares_sum_to_one": changed(
            "gold.replay_brokers", simulated, size_bytes=lambda row: 2 * row["size_bytes"], size_bytes_high=10**12
        ),
        "candidates_present": lost(COMPARED, simulated),
        "all_seeds_present": changed(COMPARED, simulated, seed_count=1),
        "seeds_replay_all": lossy(1.0, 0, ending=500),
        "delivered_records_stay": lossy(0.48, 10_400),
        "trust_told": changed(COMPARED, simulated, trust=""),
        "baseline_exact": changed(COMPARED, in_use, moved_record_count=1),
    },
    "hash_verdicts_gate": {
        "key_unique": doubled("gold.hash_verdicts"),
        "explained_within_judged": changed("gold.hash_verdicts", explained_record_counts=[("fnv", 10**9)]),
    },
    "back_tests_gate": {
        "key_unique": doubled(TESTED),
        "trust_follows": changed(TESTED, of(topic="orders"), share_error_points=30.0),
        "shares_sound": changed(TESTED, of(topic="orders"), predicted_share_high=1.5),
        "shares_within_bar": changed(
            TESTED, of(topic="orders"), share_error_points=30.0, is_trusted=False, trust="not trustworthy: far off"
        ),
        "error_not_rising": rising_error,
    },
}


def hot_broker(run):
    loads = shares([HOT] * 3)
    return judge_broker_share(loads, Gate(**LIMITS), window_ms=MINUTE_MS, judged_from_ms=MINUTE_0_MS)


def blind_source(run):
    missing = SourceStatus(
        window_start_ms=MINUTE_0_MS, source="live_cluster", expected_count=3, arrived_count=2, missing=None,
        newest_ms=MINUTE_0_MS, as_of_ms=MINUTE_0_MS,
    )  # fmt: skip  # fields of a value, several a line
    return judge_sources([missing], max_age_ms=60_000)


def broken_rule(severity):
    return lambda run: (
        Verdict(
            window_start_ms=MINUTE_0_MS, rule="leaderless", subject="topic orders", value=2.0, limit_value=1.0,
            chance_value=None, is_above=True, above_count=2, verdict="fail", reason="2 partitions", k=2, severity=severity,
        ),
    )  # fmt: skip  # fields of a value, several a line


def measured_twice(run):
    one = RuleMeasure(
        window_start_ms=run.windows[0].start_ms, rule="leaderless", subject="topic orders", topic="orders", value=0.0,
        detail="",
    )  # fmt: skip  # fields of a value, several a line
    run.replace(RULE_MEASURES, [one, one], run.windows)
    return ()


JUDGED = {
    "health_gate": {
        "broker_share": hot_broker,
        "sources_arrived": blind_source,
        "critical_rules": broken_rule("critical"),
        "warning_rules": broken_rule("warning"),
    },
    "rule_measures_gate": {"key_unique": measured_twice},
}


def cases(planted):
    return [
        pytest.param(s, check, plant, id=f"{s}-{check}") for s, of in planted.items() for check, plant in of.items()
    ]


def failed_checks(gate, run):
    """Suite and name of each check that failed, whether it stopped the run or not."""
    try:
        reports = gate(None, run)
    except DataGateError as error:
        lines = str(error).splitlines()
        suite, found = "", set()
        for line in lines:
            if line.startswith("  ") and not line.startswith("    "):
                found.add((suite, line.split(":")[0].strip()))
            elif not line.startswith(" "):
                suite = line.split(":")[0]
        return found
    return {(report.suite, check.name) for report in reports for check in report.checks if not check.success}


@pytest.mark.parametrize(("suite", "check", "plant"), cases(INGESTED))
def test_a_defect_in_what_was_ingested_is_found(run, suite, check, plant):
    plant(run)
    assert (suite, check) in failed_checks(check_ingested, run)


@pytest.mark.parametrize(("suite", "check", "plant"), cases(REPLAYED))
def test_a_defect_in_what_was_replayed_is_found(run, suite, check, plant):
    plant(run)
    assert (suite, check) in failed_checks(lambda spark, run: check_replayed(spark, run, run.windows), run)


@pytest.mark.parametrize(("suite", "check", "plant"), cases(JUDGED))
def test_a_sick_cluster_fails_the_health_gate(run, suite, check, plant):
    report = check_health(None, run, run.windows, plant(run))
    assert [one.name for one in report.checks if not one.success] == [check], suite


def test_every_expectation_has_a_planted_defect():
    expected = {
        (path.stem, entry["meta"]["check"])
        for path in SUITES.glob("*.json")
        for entry in json.loads(path.read_text())["expectations"]
    }
    planted = {(s, check) for found in (INGESTED, REPLAYED, JUDGED) for s, of in found.items() for check in of}
    assert planted == expected


def test_a_rerun_that_dies_half_way_leaves_no_trusted_window(run):
    """The batches' folder cannot be written to; other tables are replaced by then, and their versions only grow."""
    assert trusted_windows(run.warehouse, run.cluster_name) == {*run.windows}
    batches = table_path(run.warehouse, declared(BATCHES))
    (folder,) = batches.glob("window_date=*")
    shutil.rmtree(folder)
    folder.write_text("no folder")
    with pytest.raises(StorageError):
        ingest.run(sail(), run)
    assert trusted_windows(run.warehouse, run.cluster_name) == frozenset()


def test_a_cluster_without_back_tests_has_no_history(run):
    """`replay.arrivals: false` from the first run on."""
    rewrite(run, "gold.back_tests", lambda _: [])
    assert add_history(run, run.windows).num_rows == 0

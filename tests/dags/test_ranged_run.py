"""One ranged run per DAG by `dag.test()`, as `make run` does it; oracle: the capture's own slow broker, number 1."""

from collections import Counter
from pathlib import Path
from urllib.parse import quote

from deltalake import DeltaTable
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from pipeline.progress import PHASES
from pipeline.rules import RULES
from pipeline.storage.tables_on_disk import count_rows
from pipeline.tables import TABLES
from tests.key_search import make_pattern, search_files, search_tables

SUITES = Path(__file__).parents[2] / "expectations/suites"
BROKERS, TOPICS = 3, 2


def test_every_task_ran_once_and_only_the_verdict_fails(ranged):
    ran, _ = ranged
    assert {dag_id: result["tasks"] for dag_id, result in ran.items()} == {
        "ingest": {"ingest": ["success", 1], "hand_over": ["success", 1], "take_up": ["skipped", 1]},
        "replay": {"replay": ["success", 1], "hand_over": ["success", 1]},
        "health": {name: ["success", 1] for name in ("score_health", "hand_over", "deliver_alerts")}
        | {"health_verdict": ["failed", 1]},
        "maintenance": {"maintain": ["success", 1]},
    }


def test_every_phase_has_a_box_that_is_green_also_where_the_cluster_is_unhealthy(ranged):
    """As Airflow's grid colours it; oracle: `PHASES`."""
    ran, _ = ranged
    for dag_id, step in (("ingest", "ingest_windows"), ("replay", "replay_windows"), ("health", "judge_windows")):
        assert ran[dag_id]["phases"] == dict.fromkeys(PHASES[step], "success")


def test_the_tables_hold_all_windows(ranged, capture_slice):
    _, config = ranged
    windows = len(capture_slice.windows)
    counts = count_rows(config.warehouse)
    assert counts["bronze.window_status"] == windows
    assert counts["gold.broker_share"] == windows * BROKERS
    verdicts = DeltaTable(str(config.warehouse / "gold/verdicts")).to_pyarrow_table(columns=["rule"])
    by_rule = Counter(verdicts["rule"].to_pylist())
    assert (by_rule["broker_share"], by_rule["source_arrival"]) == (windows * BROKERS, windows)
    assert set(by_rule) <= {"broker_share", "source_arrival", *RULES}
    assert counts["gold.hash_verdicts"] == windows * TOPICS
    assert counts["silver.record_batches"] > 10_000
    committed = DeltaTable(str(config.warehouse / "bronze/window_status")).to_pyarrow_table(columns=["window_start"])
    starts_ms = {round(start.timestamp() * 1000) for start in committed["window_start"].to_pylist()}
    assert starts_ms == {window.start_ms for window in capture_slice.windows}


def test_the_mail_left_before_the_verdict_failed(ranged):
    ran, config = ranged
    (path,) = config.outbox.glob("*.eml")
    assert "broker 1 carries" in path.read_text()
    (line,) = ran["health"]["results"]["deliver_alerts"]
    assert line.endswith(str(path))
    assert ran["health"]["results"]["score_health"]["failed"] is True


def test_maintenance_names_every_table(ranged):
    ran, config = ranged
    named = {line.split(":")[0] for line in ran["maintenance"]["results"]["maintain"]}
    assert named == set(count_rows(config.warehouse))


def test_the_measures_of_the_newest_window_are_there_as_metrics(ranged):
    _, config = ranged
    text = (config.warehouse.parent / "metrics/partition_health_demo.prom").read_text()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    rows = DeltaTable(str(config.warehouse / "gold/broker_share")).to_pyarrow_table().to_pylist()
    newest = max(row["window_start"] for row in rows)
    assert {one.labels["broker"]: one.value for one in samples if one.name.endswith("_broker_share_ratio")} == {
        str(row["broker_id"]): row["share_ratio"] for row in rows if row["window_start"] == newest
    }
    topics = DeltaTable(str(config.warehouse / "gold/topic_health")).to_pyarrow_table().to_pylist()
    assert {one.labels["topic"] for one in samples if one.name.endswith("_topic_appended_bytes")} == {
        row["topic"] for row in topics if row["window_start"] == newest
    }


def test_no_key_is_told_in_any_table_log_or_mail(ranged):
    _, config = ranged
    assert count_rows(config.warehouse)["silver.key_hashes"] > 1000
    pattern = make_pattern({b"actor-"})
    assert search_tables(config.warehouse, pattern) == {}
    assert search_files(config.warehouse.parent, pattern) == {}


def test_every_task_left_a_link_to_its_runs_report(ranged):
    ran, _ = ranged
    for dag_id in ("ingest", "replay", "health"):
        run_id = quote(ran[dag_id]["run_id"], safe="")
        for task_id, link in ran[dag_id]["links"].items():
            assert link.endswith(f"/partition-health/run/partition_health_{dag_id}/{run_id}"), (dag_id, task_id)


def test_asset_events_carry_verdict_and_rows(ranged, capture_slice):
    """Oracle: the tables, which no other run has written."""
    ran, config = ranged
    counts = count_rows(config.warehouse)
    events = {}
    for dag_id, name in (("ingest", "ingested"), ("replay", "replayed"), ("health", "judged")):
        ((asset, extra),) = ran[dag_id]["events"].items()
        assert asset == f"partition_health_{name}"
        events[dag_id] = extra["demo"]
    rows = {name: count for event in events.values() for name, count in event["rows"].items()}
    assert {"bronze.window_status", "silver.record_batches", "gold.replay_results", "gold.broker_share"} <= set(rows)
    assert {name: counts[name] for name in rows} == rows
    assert [event["verdict"] in {"ok", "warn"} for event in (events["ingest"], events["replay"])] == [True, True]
    assert events["health"]["verdict"] == "fail"
    assert "broker 1" in events["health"]["summary"]


def test_lineage_names_the_delta_tables_that_were_written(ranged):
    ran, config = ranged
    named = set(ran["health"]["lineage"])
    folders = {table.name: config.warehouse.joinpath(*table.name.split(".")) for table in TABLES}
    assert named <= {folder.resolve().as_uri() for folder in folders.values()}
    for event in (*ran["ingest"]["events"].values(), *ran["health"]["events"].values()):
        assert {folders[name].resolve().as_uri() for name in event["demo"]["rows"]} <= named


def test_data_docs_have_a_page_of_every_suite_but_those_about_strategies_that_nobody_configured(ranged):
    """Oracle: the suites' files; each other one ran in one of the three DAGs."""
    _, config = ranged
    pages = {path.stem for path in config.data_docs_index("demo").parent.glob("*_gate*.html")}
    suites = {path.stem for path in SUITES.glob("*.json")}
    ran_suites = suites - {"key_answers_gate", "key_matrices_gate"}
    assert {page.partition("-")[0] for page in pages if not page.startswith("suite.")} == ran_suites
    assert {page.removeprefix("suite.") for page in pages if page.startswith("suite.")} == ran_suites
    index = config.data_docs_index("demo").read_text()
    assert [name for name in ("not run yet", *suites - ran_suites) if name in index] == []

"""Promises over made-up tables: advice that is carried out and does not help loses its rank, and says why.

The model is planted wrong: the replay puts `orders` evenly on three brokers under `linger.ms=5`, whose producers then spread it
as before. Oracle: the windows as written here.
"""

import polars as pl
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from pipeline.config.replay import Candidate
from pipeline.config_file import load_config
from pipeline.jobs import recommend
from pipeline.jobs.recommend.promises import read_window
from pipeline.model.window import HOUR_MS, TimeWindow, instant_of, milliseconds_of
from pipeline.runs import plan_runs
from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.tables.health import PROMISES, RECOMMENDATIONS
from pipeline.tables.silver import PRODUCER_SESSIONS, SERVICE_MODELS
from tests.config_files import write_configuration
from tests.report_tables import CLUSTER, T0_MS, blank_rows, write_rows

LINGER, UPGRADE = "replay:linger", "replay:upgrade"
HOT, LINGERS, COOL = (600, 200, 200), (600, 200, 200), (334, 333, 333)
"""Bytes on brokers 0 to 2: before the advice, with it carried out, and upgraded."""
WINDOWS = (
    # bytes by broker, the session's id, its linger.ms and its strategy
    (HOT, 1, "0", "java-sticky-2.4"),
    (LINGERS, 2, "5", "java-sticky-2.4"),
    (LINGERS, 2, "5", "java-sticky-2.4"),
    (HOT, 3, "0", "java-sticky-2.4"),
    (LINGERS, 4, "5", "java-sticky-2.4"),
    (LINGERS, 4, "5", "java-sticky-2.4"),
    (HOT, 5, "0", "java-sticky-2.4"),
    (COOL, 6, "0", "java-builtin"),
    (COOL, 6, "0", "java-builtin"),
)


def write_windows(warehouse, topic, definitions):
    frames = []
    for number, (loads, *_) in enumerate(WINDOWS):
        share = pl.Series(loads) / sum(loads)
        start = instant_of(T0_MS + number * HOUR_MS)
        frames.append(
            pl.DataFrame({"window_start": [start] * 3, "topic": [topic] * 3, "broker_id": range(3)}).with_columns(
                size_bytes=pl.Series(loads) * 1_000_000, share=share, recorded_share=share, share_ratio=share * 3,
                leader_id=pl.col("broker_id"), partition=pl.col("broker_id"), replica_id=pl.col("broker_id"),
                is_in_sync=pl.lit(value=True), expected_share=pl.lit(1 / 3), capacity=pl.lit(1.0), chance_ratio=pl.lit(1.0),
                chance_p_value=pl.lit(0.0), excess_topic=pl.lit(topic),
            )
        )  # fmt: skip  # fields of a value, several a line
    brokers = pl.concat(frames)
    for name in ("gold.broker_share", "gold.partition_health", "bronze.cluster_state"):
        write_rows(warehouse, name, brokers)
    planted = brokers.join(pl.DataFrame({"candidate": ["linger", "upgrade"]}), how="cross").with_columns(
        share=pl.lit(1 / 3), share_low=pl.lit(0.32), share_high=pl.lit(0.345), records_per_batch=pl.lit(9.0)
    )
    write_rows(warehouse, "gold.replay_brokers", planted)
    compared = planted.filter(pl.col("broker_id") == 0)
    strategies = pl.Series([strategy for *_, strategy in WINDOWS for _ in range(2)])
    defined = pl.col("candidate").replace_strict(definitions)
    trusted = compared.with_columns(baseline=strategies, trust=pl.lit("trusted"), definition=defined)
    write_rows(warehouse, "gold.scenario_comparison", trusted)
    write_sessions(warehouse, brokers.filter(pl.col("broker_id") == 0))


def write_sessions(warehouse, frame):
    _, sessions, lingers, strategies = zip(*WINDOWS, strict=True)
    named = {"cluster": pl.lit(CLUSTER), "record_count": pl.lit(100), "confidence": pl.lit(1.0)}
    rows = blank_rows(
        PRODUCER_SESSIONS, frame.with_columns(**named, producer_id=pl.Series(sessions), strategy=pl.Series(strategies))
    )
    for name, values in (("settings", lingers), ("setting_sources", ["configured"] * len(WINDOWS))):
        at = rows.schema.get_field_index(name)
        maps = pa.array([[("linger.ms", value)] for value in values], rows.schema.field(at).type)
        rows = rows.set_column(at, rows.schema.field(at), maps)
    write_deltalake(table_path(warehouse, PRODUCER_SESSIONS), rows, mode="append")


def prepare(folder, topic="orders", **linger):
    clusters = {CLUSTER: {"sources": [{"kind": "log_directories", "paths": [str(folder)]}]}}
    linger = linger or {"config": {"linger.ms": 5}}
    candidates = [{"name": "linger", **linger}, {"name": "upgrade", "partitioner": "java-builtin"}]
    config = load_config(write_configuration(folder, clusters, candidates=candidates))
    ensure_tables(config.warehouse)
    write_windows(config.warehouse, topic, {one.name: one.definition for one in config.candidates})
    return config


def run(config, first, end):
    span = TimeWindow(T0_MS + first * HOUR_MS, T0_MS + end * HOUR_MS)
    (context,) = plan_runs(config, span, run_id="test", now_ms=span.end_ms)
    recommend.run(context, context.windows)


def rows_of(config, table):
    rows = load_rows(config.warehouse, table).drop_columns("run_id").to_pylist()
    for row in rows:
        row["window"] = (milliseconds_of(row["window_start"]) - T0_MS) // HOUR_MS
    return sorted(rows, key=lambda row: [str(row[name]) for name in table.key])


@pytest.mark.parametrize(("topic", "is_advised"), [("orders", True), ("app-repartition", False)])
def test_no_more_partitions_are_advised_for_a_topic_that_takes_none(tmp_path, topic, is_advised):
    config = prepare(tmp_path, topic, partitions="x2")
    run(config, 0, 1)
    actions = {row["action"] for row in rows_of(config, RECOMMENDATIONS)}
    assert {UPGRADE} <= actions
    assert (LINGER in actions) is is_advised


@pytest.mark.parametrize(("topic", "is_advised"), [("orders", True), ("app-repartition", False)])
def test_no_other_keys_are_advised_for_a_topic_whose_use_rests_on_them(tmp_path, topic, is_advised):
    """Kafka Streams joins and sums by them, and compaction keeps the last record of each."""
    config = prepare(tmp_path, topic)
    of = pl.DataFrame({"window_start": [instant_of(T0_MS)], "topic": [topic], "partition": [9], "leader_id": [0]})
    write_rows(config.warehouse, "gold.partition_health", of.with_columns(heavy_keys_bytes=pl.lit(2e8)))
    measured = of.with_columns(heavy_key_count=pl.lit(1), top_key_ratio=pl.lit(0.4), best_peak_to_mean=pl.lit(2.0))
    write_rows(config.warehouse, "gold.topic_health", measured)
    run(config, 0, 1)
    assert ("rekey" in {row["action"] for row in rows_of(config, RECOMMENDATIONS)}) is is_advised


def test_a_candidate_that_changed_since_its_replay_is_not_advised_by_it_nor_judged(tmp_path):
    """Its name stays: `linger.ms=50` was advised by what the replay said of 5, and 5 judged by who has 50."""
    config, other = prepare(tmp_path), {"name": "linger", "config": {"linger.ms": 50}}
    run(config, 0, 1)
    changed = config.model_copy(update={"candidates": (Candidate(**other), *config.candidates[1:])})
    run(changed, 1, 4)
    advised = {row["window"] for row in rows_of(config, RECOMMENDATIONS) if row["action"] == LINGER}
    assert advised == {0}
    told = [row for row in rows_of(config, PROMISES) if row["action"] == LINGER]
    assert {(row["outcome"], row["reason"]) for row in told} == {
        ("unknown", "its candidate is no longer in the configuration")
    }


def test_advice_for_java_says_how_much_of_a_topic_other_clients_write(tmp_path):
    """The replay had made Java producers of them, and was trusted: a third of the traffic would stay as it was."""
    config = prepare(tmp_path)
    session = pl.DataFrame({"topic": ["orders"], "client": ["librdkafka"], "producer_id": [99], "record_count": [50]})
    row = session.with_columns(window_start=pl.lit(instant_of(T0_MS)), confidence=pl.lit(1.0))
    write_rows(config.warehouse, "silver.producer_sessions", row)
    run(config, 0, 1)
    (text,) = [row["text"] for row in rows_of(config, RECOMMENDATIONS) if row["action"] == UPGRADE]
    assert "Take it with care: the replay takes all producers for Java's, 33% of the records are not." in text


def test_a_topic_that_was_made_anew_in_a_window_has_no_prediction_of_one_of_its_ids(tmp_path):
    """The last id's part of the brokers was taken for that of all the topic's bytes."""
    config = prepare(tmp_path)
    own = pl.DataFrame({"broker_id": range(3), "share": [0.3, 0.35, 0.35], "recorded_share": [0.6, 0.2, 0.2]})
    row = own.with_columns(topic=pl.lit("orders"), topic_id=pl.lit("new"), candidate=pl.lit("upgrade"))
    rows = row.with_columns(
        window_start=pl.lit(instant_of(T0_MS)), share_low=pl.col("share"), share_high=pl.col("share")
    )
    write_rows(config.warehouse, "gold.replay_brokers", rows)
    run(config, 0, 2)
    advised = {row["window"] for row in rows_of(config, RECOMMENDATIONS) if row["action"] == UPGRADE}
    assert advised == {1}


@pytest.fixture(scope="module")
def ranged(tmp_path_factory):
    config = prepare(tmp_path_factory.mktemp("ranged"))
    run(config, 0, len(WINDOWS))
    return config


def outcomes(config, action):
    """Window that judged, window that promised, outcome, and the score so far."""
    return [
        (
            row["window"],
            (milliseconds_of(row["promised_at"]) - T0_MS) // HOUR_MS,
            row["outcome"],
            (row["kept_count"], row["broken_count"]),
        )
        for row in rows_of(config, PROMISES)
        if row["action"] == action and row["outcome"] in {"kept", "broken"}
    ]


def test_each_promise_is_judged_in_the_window_after_the_one_it_was_carried_out_in(ranged):
    assert outcomes(ranged, LINGER) == [(2, 0, "broken", (0, 1)), (5, 3, "broken", (0, 2))]
    assert outcomes(ranged, UPGRADE) == [(8, 6, "kept", (1, 0))]
    (kept,) = [row for row in rows_of(ranged, PROMISES) if row["outcome"] == "kept"]
    assert (kept["trust"], kept["predicted_records_per_batch"]) == ("trusted", 9.0)
    shown = [kept[name] for name in ("without_ratio", "corrected_ratio", "actual_ratio")]
    assert shown == pytest.approx([1.8, 1.0, 1.002])


def test_advice_that_nobody_carries_out_is_reported_as_such(ranged):
    said = {row["window"]: row["outcome"] for row in rows_of(ranged, PROMISES) if row["action"] == UPGRADE}
    assert [said[number] for number in range(1, 7)] == ["not_carried_out"] * 6


def test_a_kind_whose_promises_were_broken_comes_last_and_says_why(ranged):
    ranked = {}
    for row in sorted(rows_of(ranged, RECOMMENDATIONS), key=lambda row: row["rank"]):
        ranked.setdefault(row["window"], []).append(row)
    assert [row["action"] for row in ranked[0]] == [LINGER, UPGRADE]
    assert [row["action"] for row in ranked[6]] == [UPGRADE, LINGER]
    assert ranked[6][-1]["text"].endswith("It comes last: 2 of 2 promises of this kind were broken here.")
    assert "It comes last" not in ranked[3][0]["text"]


def test_a_window_that_lacks_records_judges_no_promise_and_gives_no_advice(tmp_path):
    """The promise of window 6 was kept by the shares of a window of which a broker's disk was missing."""
    config = prepare(tmp_path)
    at = {"window_start": instant_of(T0_MS + 8 * HOUR_MS), "as_of": instant_of(T0_MS + 9 * HOUR_MS)}
    status = {"source": "log_directories", "expected_count": 3, "arrived_count": 2, "newest_at": at["as_of"]}
    write_rows(config.warehouse, "bronze.window_status", pl.DataFrame([{**at, **status}]))
    run(config, 0, len(WINDOWS))
    assert outcomes(config, UPGRADE) == []
    write_rows(
        config.warehouse, "bronze.window_status", pl.DataFrame([{**at, **status, "window_start": instant_of(T0_MS)}])
    )
    run(config, 0, 1)
    assert not [row for row in rows_of(config, RECOMMENDATIONS) if not row["window"]]


def test_runs_of_a_few_windows_and_again_give_what_one_run_gives(ranged, tmp_path):
    config = prepare(tmp_path)
    for first, end in ((0, 2), (2, 5), (5, len(WINDOWS)), (4, 6)):
        run(config, first, end)
    for table in (PROMISES, RECOMMENDATIONS):
        assert rows_of(config, table) == rows_of(ranged, table)


def test_a_sessions_version_is_what_all_clients_of_its_name_tell(tmp_path):
    config = prepare(tmp_path)
    nodes = {"client_id": ["a", "a", "b", "b", "c"], "client_version": ["3.9.1", "3.9.1", "3.9.1", "3.2.3", None]}
    start = pl.lit(instant_of(T0_MS))
    write_rows(config.warehouse, "silver.producer_nodes", pl.DataFrame(nodes).with_columns(window_start=start))
    models = {"client_id": ["a", "b", "c", None], "producer_id": [1, 2, 3, 4], "producer_epoch": [0, 0, 0, 0]}
    none = {column.name: pl.lit(0.0) for column in SERVICE_MODELS.columns if column.type == "double"}
    write_rows(config.warehouse, "silver.service_models", pl.DataFrame(models).with_columns(window_start=start, **none))
    (context,) = plan_runs(config, TimeWindow(T0_MS, T0_MS + HOUR_MS), run_id="test", now_ms=T0_MS + HOUR_MS)
    assert read_window(context, *context.windows).client_versions == {(1, 0): "3.9.1"}


def test_a_broker_is_slow_by_what_all_clients_wait_for_it(tmp_path):
    config = prepare(tmp_path)
    waits = {
        "broker_id": [0, 1, 2, 1],
        "client_id": ["*", "*", "*", "app"],
        "request_latency_avg_ms": [535.0, 14.0, None, 535.0],
        "ratio_to_peers": [41.0, 1.1, None, 41.0],
    }
    start = pl.lit(instant_of(T0_MS))
    write_rows(config.warehouse, "gold.latency", pl.DataFrame(waits).with_columns(window_start=start))
    (context,) = plan_runs(config, TimeWindow(T0_MS, T0_MS + HOUR_MS), run_id="test", now_ms=T0_MS + HOUR_MS)
    assert read_window(context, *context.windows).slow == {0: True, 1: False, 2: False}

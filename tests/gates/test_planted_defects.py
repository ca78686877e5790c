"""Every expectation of every suite, with the defect it exists for planted where jobs leave it: each fails.

Four minutes of three topics of the capture, one broker slow, are ingested, replayed and judged once. Each case changes a copy of
the tables as a broken job, a lost write or a damaged file would have left them, and a suite runs as in its gate.
"""

import dataclasses
import datetime as dt
import json
import shutil
from collections import Counter

import pytest

from expectations.measures_gate import check_health
from expectations.replay_gate import add_history
from expectations.suite_files import SUITES
from pipeline.config.rules import Gate
from pipeline.errors import StorageError
from pipeline.jobs import ingest
from pipeline.model.promise import Trust
from pipeline.replay.back_tests import TRUSTS
from pipeline.replay.comparison import comparison_row
from pipeline.replay.rows import broker_rows, partition_rows
from pipeline.replay.simulated.runs import CELL_RECORDS
from pipeline.replay.simulated.topics import SimulatedTopic
from pipeline.storage.tables_on_disk import table_path
from pipeline.storage.window_status import trusted_windows
from pipeline.tables.bronze import WINDOW_STATUS
from pipeline.verdicts.broker_share import judge_broker_share
from pipeline.verdicts.sources import SourceStatus, judge_sources
from tests.engines import sail
from tests.gates.five_defects import FOUND_BY
from tests.gates.rows import MINUTE_0_MS, declared, rows_of
from tests.gates.test_health_gate import HOT, LIMITS, MINUTE_MS, shares
from tests.gates.warehouse import rewrite
from tests.incident_rows import new_verdict
from tests.unit.replay.test_simulated_rows import outcome_of, record, simulate


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


def run_in_vain(row):
    return row["seed_count"] and not row["is_trusted"]


def simulated(row):
    return row["topic"] == "orders" and row["candidate"] == "builtin"


def in_use(row):
    return row["topic"] == "orders" and row["is_baseline"]


def less(name, by=1):
    return lambda row: row[name] - by


def beyond_range(row):
    """A share ten points lower than its range allows: how wide that is depends on the warehouse's secret."""
    return row["share"] - (row["share_high"] - row["share_low"]) / 2 - 0.1


def half(name):
    return lambda row: row[name] / 2


def predicted(row):
    return row["predicted_ratio"] is not None


def made(name, *rows):
    """Rows that the capture has none of."""
    named = lambda run: [{"cluster": run.cluster_name, "run_id": run.run_id, **row} for row in rows]  # noqa: E731
    return lambda run: rewrite(run, name, lambda _: rows_of(name, at_windows(run, named(run))).to_pylist())


def at_windows(run, rows):
    start = dt.datetime.fromtimestamp(run.windows[0].start_ms / 1000, dt.UTC)
    return [row | ({"window_start": start} if "horizon_hours" in row else {}) for row in rows]


def forecast(**others):
    return {"horizon_hours": 24, "value_low": 0.5, "value": 1.0, "value_high": 2.0, **others}


def other_partition(run):
    """The hottest key is said to lie on a partition that holds less of it."""

    def change(rows):
        row = next(
            row for row in rows if row["topic"] == "clicks" and row["kind"] == "key" and row["key_id"] == heaviest(rows)
        )
        return [*rows, row | {"partition": (row["partition"] + 1) % 12, "size_bytes": 10 * row["size_bytes"]}]

    rewrite(run, "silver.key_traffic", change)


def heaviest(rows):
    sizes = Counter()
    for row in rows:
        if row["topic"] == "clicks" and row["kind"] == "key":
            sizes[row["key_id"]] += row["size_bytes"]
    return sizes.most_common(1)[0][0]


def swap_sizes(run):
    """Two keys of a partition have each other's bytes: all sums are as they were."""

    def change(rows):
        keys = sorted((row for row in rows if row["kind"] == "key"), key=lambda row: row["size_bytes"])
        counts = Counter((row["window_start"], row["topic"], row["partition"]) for row in keys)
        most = max(counts, key=lambda place: (counts[place], place))  # whose smallest keys are no hot ones
        first, *others = (row for row in keys if (row["window_start"], row["topic"], row["partition"]) == most)
        other = next(row for row in others if row["size_bytes"] != first["size_bytes"])
        first["size_bytes"], other["size_bytes"] = other["size_bytes"], first["size_bytes"]
        return rows

    rewrite(run, "silver.key_traffic", change)


def more(name, by=1):
    return lambda row: row[name] + by


def rising_error(run):
    """The three windows before were predicted well."""

    def change(rows):
        *before, now = sorted((row for row in rows if row["topic"] == "orders"), key=lambda row: row["window_start"])
        for row in before:
            row |= {"share_error_points": 0.1}
        now |= {"share_error_points": 1.4, "share_bar_points": 1.5}
        return rows

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
        columns = comparison_row(topic, outcome, dict.fromkeys(TRUSTS, Trust.TRUSTED) | {"share_error_points": None})
        named = {"topic": "orders", "candidate": "in-use"}

        def change_comparison(rows):
            row = next(row for row in rows if in_use(row))
            named.update({name: row[name] for name in ("topic_id", "window_start")})
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
NODES, SEGMENTS, SHARES = "silver.producer_nodes", "bronze.log_segments", "gold.replay_brokers"
SHARE, PARTS, TOPIC, ADVICE = "gold.broker_share", "gold.partition_health", "gold.topic_health", "gold.recommendations"
ZONES, HASHES, MATRICES, OUTBOX = "gold.zone_traffic", "silver.key_hashes", "silver.key_matrices", "gold.alert_outbox"
LOGS, OTHERS = of(source="log_directories"), of(source="producer_metrics")
LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)

PLANTED = {
    "window_status_gate": {
        "windows_present": lost(STATUS, LOGS),
        "log_directories_complete": changed(STATUS, LOGS, arrived_count=2),
        "other_sources_complete": changed(STATUS, OTHERS, expected_count=more("arrived_count")),
        "window_over": changed(STATUS, LOGS, as_of=lambda row: row["window_end"] - dt.timedelta(seconds=1)),
        "log_directories_fresh": changed(STATUS, LOGS, newest_at=LONG_AGO),
        "other_sources_fresh": changed(STATUS, OTHERS, newest_at=LONG_AGO),
        "source_not_expired": changed(STATUS, LOGS, source_expired=True),
    },
    "cluster_state_gate": {
        "preferred_stands_first": changed(STATE, is_preferred_leader=lambda row: not row["is_preferred_leader"]),
        "one_leader": changed(STATE, of(is_leader=False), is_leader=True),
        "leader_known": changed(STATE, of(is_leader=False), leader_id=-1),
    },
    "brokers_gate": {
        "away_not_negative": changed("bronze.brokers", away_ms=-1),
        "imbalance_is_ratio": changed("bronze.brokers", preferred_leader_imbalance_ratio=1.5),
    },
    "consumer_groups_gate": {"partition_numbered": changed("bronze.consumer_groups", partition=-1)},
    "producer_nodes_gate": {
        "requests_not_negative": changed(NODES, request_count=-1.0),
        "bytes_not_negative": changed(NODES, outgoing_bytes=-1.0),
        "latency_not_negative": changed(NODES, request_latency_avg_ms=-1.0),
        "mean_within_longest": changed(NODES, request_latency_avg_ms=9.0, request_latency_max_ms=1.0),
    },
    "quarantine_gate": {
        "key_unique": made("bronze.quarantine", {"path": "a"}, {"path": "a"}),
        "severity_known": made("bronze.quarantine", {"severity": "grave"}),
        "position_known": made("bronze.quarantine", {"severity": "refused", "position": -2}),
    },
    "log_segments_gate": {
        "size_not_negative": changed(SEGMENTS, size_bytes=-1),
        "offsets_in_order": changed(SEGMENTS, of(is_scanned=True), first_offset=more("last_offset")),
    },
    "partition_traffic_gate": {
        "offsets_contiguous": changed(TRAFFIC, missing_offset_count=5),
        "no_record_gone": changed(TRAFFIC, compacted_record_count=5),
        "crc_ok": changed(TRAFFIC, crc_error_count=1),
        "leader_known": changed(TRAFFIC, leader_id=-1),
        "no_time_outlier": changed(TRAFFIC, time_outlier_count=1),
    },
    "record_batches_gate": {
        "header_sound": changed(BATCHES, record_count=more("record_count")),
        "crc_ok": changed(BATCHES, is_crc_ok=False),
    },
    "log_counts_gate": {"records_read_equal_written": lost(BATCHES)},
    "leaders_gate": {"leaders_of_epochs": changed(TRAFFIC, leader_id=lambda row: (row["leader_id"] + 1) % 3)},
    "broker_metrics_gate": {
        "increases_not_negative": changed(BROKER, bytes_in=-1.0),
        "idle_ratios_sound": changed(BROKER, request_handler_idle_ratio=3.0),
        "leaders_held": changed(BROKER, leader_count=9, partition_count=8),
        "broker_known": changed(BROKER, broker_id=None),
    },
    "broker_topics_gate": {"increases_not_negative": changed("silver.broker_topics", bytes_in=-1.0)},
    "broker_request_times_gate": {
        "times_not_negative": changed(TIMES, request_count=-1.0),
        "percentiles_in_order": changed(TIMES, time_p50_ms=9.0, time_p99_ms=1.0),
    },
    "key_traffic_gate": {"records_readable": changed("silver.key_traffic", kind="unreadable")},
    "key_hashes_gate": {
        **{
            f"{name}_has_32_bits": changed(HASHES, **{name: 2**32})
            for name in ("murmur2", "crc32", "fnv1a", "murmur3", "java_string", "kafkajs_legacy")
        },
        "empty_key_hashed": changed(HASHES, is_empty=True),
    },
    "key_answers_gate": {
        "partition_exists": changed("silver.key_answers", chosen_partition=more("partition_count", 0)),
        "key_is_hashed": lost(HASHES),
    },
    "key_matrices_gate": {
        "choice_known": changed(MATRICES, chosen_partition=-3),
        "partition_exists": changed(MATRICES, chosen_partition=more("partition_count", 0)),
        "keys_positive": changed(MATRICES, key_count=0),
    },
    "arrivals_gate": {"counts_not_negative": changed("silver.arrivals", record_count=-1)},
    "arrival_counts_gate": {
        "timestamps_in_line": changed("silver.arrivals", outlier_record_count=1),
        "keys_hold_what_arrived": swap_sizes,
    },
    "replay_results_gate": {
        "no_partition_beyond": changed(RESULTS, simulated, partition_count=0),
        "batches_sound": changed(RESULTS, simulated, batch_count_high=less("batch_count")),
    },
    "scenario_comparison_gate": {
        "replayed_equal_recorded": lossy(0.48, 0),
        "recorded_equal_batches": lost(TRAFFIC, of(topic="orders")),
        "all_seeds_present": changed(COMPARED, simulated, seed_count=1),
        "seeds_replay_all": lossy(1.0, 0, ending=500),
        "delivered_records_stay": lossy(0.48, 10_400),
        "trust_told": changed(COMPARED, simulated, trust=""),
        "baseline_exact": changed(COMPARED, in_use, moved_record_count=1),
        "peaks_follow_partitions": changed(COMPARED, in_use, baseline_peak_to_mean=half("baseline_peak_to_mean")),
    },
    "ingest_contents_gate": {"rows_are_all_there": lost("bronze.consumer_groups")},
    "replay_contents_gate": {"rows_are_all_there": lost("gold.hash_verdicts")},
    "measures_contents_gate": {"rows_are_all_there": lost("gold.promises")},
    "replay_brokers_gate": {"shares_follow_bytes": changed(SHARES, simulated, share=beyond_range)},
    "hash_verdicts_gate": {
        "explained_within_judged": changed("gold.hash_verdicts", explained_record_counts=[("fnv", 10**9)])
    },
    "back_tests_gate": {
        "trust_follows": changed(TESTED, of(topic="orders", is_trusted=True), share_error_points=30.0),
        "trust_is_the_replays": changed(TESTED, run_in_vain, is_trusted=True, trust="trusted"),
        "trust_is_earned": changed(TESTED, of(batches_trust="trusted"), records_per_batch_ratio=0.5),
        "shares_within_bar": changed(
            TESTED, of(is_trusted=True), share_error_points=30.0, is_trusted=False, trust="not trustworthy: far off"
        ),
        "error_not_rising": rising_error,
    },
    "producer_sessions_gate": {
        "confidence_is_ratio": changed("silver.producer_sessions", confidence=1.5),
        "source_known": changed("silver.producer_sessions", source="guessed"),
    },
    "service_models_gate": {
        f"{name}_source_known": changed("silver.service_models", **{f"{name}_source": "guessed"})
        for name in ("request", "partition", "kib", "delay")
    },
    "broker_share_gate": {
        "leaders_are_the_states": changed(SHARE, leader_count=more("leader_count")),
        "capacity_is_configured": changed(SHARE, capacity=2.0),
        "fair_shares_sum_to_one": changed(SHARE, expected_share=less("expected_share", 0.1)),
        "chance_is_probability": changed(SHARE, chance_p_value=1.5),
        "units_not_shrunk": changed(SHARE, unit_inflation=0.5),
        "luck_only_lowers": changed(SHARE, ratio_without_luck=more("share_ratio")),
    },
    "partition_health_gate": {
        "partitions_counted": changed(PARTS, topic_partition_count=more("topic_partition_count")),
        "topic_measures_follow_bytes": changed(
            PARTS, of(topic="orders"), topic_peak_to_mean=half("topic_peak_to_mean")
        ),
        "causes_sum_to_excess": changed(
            PARTS, lambda row: row["heavy_keys_bytes"] is not None, heavy_keys_bytes=more("heavy_keys_bytes", 9.0)
        ),
    },
    "topic_health_gate": {
        "partitions_counted": changed(TOPIC, partition_count=more("partition_count")),
        "records_are_its_partitions": changed(TOPIC, record_count=more("record_count")),
        "variation_is_its_partitions": changed(TOPIC, cv=9.0),
        "effective_is_its_partitions": changed(TOPIC, effective_partitions=9.0),
        "chance_is_probability": changed(TOPIC, peak_p_value=1.5),
        "keyed_is_ratio": changed(TOPIC, keyed_ratio=1.5),
        "heaviest_key_agrees": changed(TOPIC, of(topic="clicks"), top_key_ratio=0.9),
    },
    "hot_keys_gate": {"partition_holds_most": other_partition, "ranks_without_gap": lost("gold.hot_keys", of(rank=1))},
    "group_balance_gate": {
        "partitions_are_the_topics": changed("gold.group_balance", partition_count=more("partition_count")),
        "idle_not_negative": changed("gold.group_balance", idle_member_count=-1),
    },
    "zone_traffic_gate": {
        "kind_known": changed(ZONES, kind="nobody"),
        "source_known": changed(ZONES, zone_source="a guess"),
        "bytes_positive": changed(ZONES, size_bytes=0),
        "cost_is_between_zones": changed(ZONES, lambda row: row["from_zone"] == row["to_zone"], cost=1.0),
        "replication_is_the_followers": changed(ZONES, of(kind="produce"), kind="replication"),
        "topics_are_there": lambda run: rewrite(run, ZONES, lambda rows: [r for r in rows if r["topic"] != "clicks"]),
    },
    "rule_measures_gate": {"chance_is_probability": changed("gold.rule_measures", p_value=1.5)},
    "recommendations_gate": {
        "prediction_in_range": changed(ADVICE, predicted, predicted_ratio_low=more("predicted_ratio")),
        "moved_not_negative": changed(ADVICE, moved_bytes=-1),
    },
    "promises_gate": {
        "outcome_known": changed("gold.promises", outcome="forgotten"),
        "prediction_in_range": changed("gold.promises", predicted, predicted_ratio_low=more("predicted_ratio")),
        "carried_out_is_ratio": changed("gold.promises", carried_out_ratio=1.5),
    },
    "forecast_gate": {
        "key_unique": made("gold.forecast", forecast(), forecast()),
        "horizon_is_a_day": made("gold.forecast", forecast(horizon_hours=25)),
        "value_in_range": made("gold.forecast", forecast(value_low=2.0)),
        "trust_is_earned": made("gold.forecast", forecast(is_trusted=True)),
    },
    "verdicts_gate": {"verdict_known": changed("gold.verdicts", verdict="fine")},
    "incidents_gate": {
        "state_known": changed("gold.incidents", state="paused"),
        "since_before": changed("gold.incidents", since=dt.datetime(2040, 1, 1, tzinfo=dt.UTC)),
        "change_was_judged": changed("gold.incidents", rule="another"),
    },
    "alert_outbox_gate": {
        "state_known": changed(OUTBOX, state="paused"),
        "attempts_not_negative": changed(OUTBOX, attempt_count=-1),
        "delivered_somewhere": changed(OUTBOX, delivered_to="nobody"),
    },
}
for path in SUITES.glob("*.json"):
    suite = json.loads(path.read_text())
    if any(entry["meta"]["check"] == "key_unique" for entry in suite["expectations"]):
        PLANTED.setdefault(path.stem, {}).setdefault("key_unique", doubled(suite["meta"]["table"]))


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
    of = {"rule": "leaderless", "subject": "topic orders", "value": 2.0, "limit_value": 1.0, "reason": "2 partitions"}
    return lambda run: (new_verdict(MINUTE_0_MS, above=2, k=2, severity=severity, **of),)


JUDGED = {
    "health_gate": {
        "broker_share": hot_broker,
        "sources_arrived": blind_source,
        "critical_rules": broken_rule("critical"),
        "warning_rules": broken_rule("warning"),
    }
}


def cases(planted):
    return [
        pytest.param(s, check, plant, id=f"{s}-{check}") for s, of in planted.items() for check, plant in of.items()
    ]


@pytest.mark.parametrize(("suite", "check", "plant"), cases(PLANTED))
def test_a_defect_is_found(run, find_new, suite, check, plant):
    plant(run)
    assert (suite, check) in find_new(run, [suite])


@pytest.mark.parametrize(("suite", "check", "plant"), cases(JUDGED))
def test_a_sick_cluster_fails_the_health_gate(run, suite, check, plant):
    report = check_health(run, plant(run))
    assert [one.name for one in report.checks if not one.success] == [check], suite


@pytest.mark.parametrize(
    ("digest", "found"), [("key_digest", {("arrival_counts_gate", "keys_hold_what_arrived")}), (None, set())]
)
def test_keys_are_compared_with_arrivals_that_have_a_digest(run, find_new, digest, found):
    """Rows of older versions have none; what a run then says is what it said before."""
    swap_sizes(run)
    rewrite(run, "silver.arrivals", lambda rows: [row | {"key_digest": digest and row[digest]} for row in rows])
    assert find_new(run, ["arrival_counts_gate", "key_traffic_gate", "hot_keys_gate"]) == found


def test_every_expectation_has_a_planted_defect():
    expected = {
        (path.stem, entry["meta"]["check"])
        for path in SUITES.glob("*.json")
        for entry in json.loads(path.read_text())["expectations"]
    }
    planted = {(suite, check) for found in (PLANTED, JUDGED) for suite, of in found.items() for check in of}
    assert planted | {found for of in FOUND_BY.values() for found in of.values()} == expected


def test_a_rerun_that_dies_half_way_leaves_no_trusted_window(run):
    """The batches' folder cannot be written to; other tables are replaced by then, and their versions only grow."""
    assert trusted_windows(run.warehouse, run.cluster_name) == {*run.windows}
    assert {row["tries"] for row in run.rows(WINDOW_STATUS)} == {1}
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

"""Rows that pass and rows that break each check of each data gate, made by hand; `test_data_gates.py` runs them.

A column that a row does not name holds what `rows.py` puts there: "x", 0, False or the first window's start.
"""

from tests.gates.rows import MINUTE_0_MS, SUMS, at

WINDOWS = {"windows_ms": [MINUTE_0_MS, MINUTE_0_MS + 60_000], "max_age_ms": 300_000}
RANGE = ("_low", "", "_high")


def status(minute: float, source: str = "log_directories", **others):
    row = {"window_start": at(minute), "window_end": at(minute + 1), "source": source, "expected_count": 3}
    return row | {"arrived_count": 3, "missing": None, "newest_at": at(11), "as_of": at(12)} | others


def traffic(partition: int = 0, **others):
    row = {"topic": "orders", "partition": partition, "leader_id": 1, "covered_offset_count": 100}
    return row | {"record_count": 97, "control_record_count": 3} | others


def batch(base_offset: int = 0, **others):
    row = {"base_offset": base_offset, "last_offset": base_offset + 9, "record_count": 10, "size_bytes": 500}
    return row | {"is_crc_ok": True} | others


def replica(replica_id: int, **others):
    row = {"replica_id": replica_id, "leader_id": 1, "replica_count": 4, "leading_count": 1}
    first = dict.fromkeys(("is_preferred_leader", "is_leader"), replica_id == 1)
    return row | {"replica_position": replica_id - 1} | first | others


def logged(partition: int, **others):
    counts = {"record_count": 100, "batch_record_count": 100, "size_bytes": 500, "batch_size_bytes": 500}
    return traffic(partition) | counts | {"batch_offset_count": 100} | others


def ended(partition: int, **others):
    return {"partition": partition, "last_offset": 99, "log_end_offset": 100, **others}


def keyed(partition: int, **others):
    return traffic(partition) | {"key_record_count": 97, "unreadable_record_count": 0} | others


def arrived(topic: str, **others):
    return {"topic": topic, "record_count": 97, "arrival_record_count": 97, **others}


def ranged(name, *values):
    """The ends of a range, and its middle."""
    return {f"{name}{end}": value for end, value in zip(RANGE, values, strict=True)}


def placed(partition: int, **others):
    load = ranged("record_count", 5, 6, 7) | ranged("size_bytes", 50, 60, 70)
    return {"partition": partition, "partition_count": 3, **load, **others}


def batched(partition: int, **others):
    sums = ranged("batch_count", 1, 2, 3) | ranged("log_size_bytes", 70, 80, 90) | ranged("log_share", 0.1, 0.2, 0.3)
    return placed(partition, candidate="sticky", **(sums | others))


UNKNOWN_PEAKS = dict.fromkeys(("recorded_peak_to_mean", "replayed_peak_to_mean", "replayed_peak_to_mean_high"))


def scenario(topic: str, candidate: str, **others):
    row = {"topic": topic, "candidate": candidate, "is_baseline": candidate == "in-use", "trust": "trusted"}
    row |= dict.fromkeys(("record_count", "replayed_record_count", "batch_record_count"), 97)
    row |= dict.fromkeys(("size_bytes", "replayed_size_bytes", "broker_size_bytes"), 500)
    counts = {"candidate_count": 2, "expected_candidate_count": 2, "back_test_count": 1, "seed_count": None}
    return row | counts | UNKNOWN_PEAKS | others


def simulated(topic: str, **others):
    seeds = {"seed_count": 5, "expected_seed_count": 5, "lost_record_count": 0, "lost_record_count_high": 0}
    seeds |= dict.fromkeys(("replayed_record_count_low", "replayed_record_count_high"), 97)
    return scenario(topic, "sticky", **(seeds | others))


def lossy(topic: str, lost: int, lost_high: int, **others):
    return simulated(topic, lost_record_count=lost, lost_record_count_high=lost_high, **others)


_UNEVEN = dict.fromkeys(("recorded_peak_to_mean", "baseline_peak_to_mean"), 1.19)
_UNEVEN |= {"replayed_peak_to_mean": 1.15} | ranged("peak_to_mean", 1.15, 1.66, 2.17)
"""The median over seeds of the largest partition is far above the largest of the partitions' medians."""
_SPREAD = dict.fromkeys(("recorded_peak_to_mean", "baseline_peak_to_mean"), 2.33)
_SPREAD |= {"replayed_peak_to_mean": 3.56, "replayed_peak_to_mean_high": 3.56}
_SPREAD |= ranged("peak_to_mean", 2.31, 2.42, 2.49)
"""It is far below: another partition is the largest in each seed, and medians are spread to the total."""


def back_tested(topic: str, **others):
    unknown = ("replayed_share", "recorded_share", "range_points", "records_per_batch_ratio", "replayed_trust")
    unknown += ("latency_avg_ratio", "batches_trust", "latency_trust", "judged_on", "history_share_error_points")
    shares = {"observed_share": 0.69, "seed_count": 5} | ranged("predicted_share", 0.6, 0.7, 0.8)
    errors = {"share_error_points": 1.0, "share_bar_points": 1.5, "is_trusted": True, "trust": "trusted"}
    return {"topic": topic} | dict.fromkeys(unknown) | shares | errors | others


def doubted(topic: str, **others):
    return back_tested(topic, **{"is_trusted": False, "trust": "not trustworthy: no arrivals are stored", **others})


def verdict(topic: str, **others):
    counts = {"explained_key_counts": {"java-compatible": 7}, "explained_record_counts": {"java-compatible": 90}}
    judged = {"key_count": 8, "record_count": 97, "traffic_record_count": 97, "explained_ratio": 90 / 97}
    return {"topic": topic, "partition_count": 4, "chance_ratio": 0.25} | judged | counts | others


def of_broker(instance: str, **others):
    row = dict.fromkeys(("bytes_in", "bytes_out", "message_in_count", "replication_bytes_in"), 7.0)
    row |= {"request_handler_idle_ratio": 1.1, "network_processor_idle_ratio": 0.5}
    return {"instance": instance, "broker_id": 1, "leader_count": 3, "partition_count": 3} | row | others


def of_topic(topic: str, **others):
    return {"topic": topic, "bytes_in": 7.0, **others}


def timed(stage: str, **others):
    return {"stage": stage, "request_count": 9.0, "time_p50_ms": 1.0, "time_p99_ms": 1.0, **others}


def refused(path: str, **others):
    return {"path": path, "severity": "refused", "position": 7, **others}


PASSING = {
    "window_status_gate": [
        status(0),
        status(1),
        status(0, "topics_describe", expected_count=None),
        status(0, "broker_metrics"),
    ],
    "partition_traffic_gate": [
        traffic(0),
        traffic(1, is_compacted=True, missing_offset_count=7, record_count=90, compacted_record_count=7),
        traffic(9, count_kind="sampled", sampling_rate=0.5, record_count=194, control_record_count=6),
    ],
    "record_batches_gate": [batch(0), batch(10)],
    "log_counts_gate": [logged(0), logged(1)],
    "log_ends_gate": [ended(0), ended(1, last_offset=120)],
    "cluster_state_gate": [replica(1), replica(2)],
    "key_traffic_gate": [keyed(0), keyed(1, record_count=0, key_record_count=0)],
    "arrival_counts_gate": [arrived("orders"), arrived("idle", record_count=0, arrival_record_count=0)],
    "replay_results_gate": [
        *(placed(0), placed(1), placed(3, **ranged("record_count", 0, 0, 0), **ranged("size_bytes", 0, 0, 0))),
        batched(8, partition_count=9),
        batched(7, partition_count=9, **ranged("log_share", None, None, None)),
    ],
    "scenario_comparison_gate": [
        scenario("orders", "in-use"),
        scenario("orders", "java", broker_size_bytes=400, open_leader_count=1, moved_record_count=9),
        scenario("orders", "unknown", partitioner=None, replayed_record_count=None, replayed_size_bytes=None),
        simulated("orders"),
        simulated("few batches", **_UNEVEN, replayed_peak_to_mean_high=2.1),  # as a small topic on real brokers had it
        simulated("twice the partitions", **_SPREAD),  # as `orders` of the committed capture has it
        lossy("no leader", 33, 33, is_baseline=True, replayed_record_count=64, open_leader_count=2),
        lossy("half", 50, 60, replayed_record_count=40, replayed_size_bytes=200, broker_size_bytes=200),
        simulated(
            "lossy",
            **dict.fromkeys(("replayed_record_count_low", "replayed_record_count_high"), 90),
            trust="not trustworthy: the arrivals of 7 records are not known",
        ),
    ],
    "back_tests_gate": [
        back_tested("orders"),
        doubted("empty", **dict.fromkeys(("share_error_points", "observed_share", "predicted_share"))),
    ],
    "broker_metrics_gate": [
        of_broker("a:1"),
        of_broker("b:1", bytes_in=None, leader_count=None, request_handler_idle_ratio=None),
    ],
    "broker_topics_gate": [of_topic("orders"), of_topic("new", bytes_in=None)],
    "broker_request_times_gate": [timed("local"), timed("remote", request_count=None, time_p50_ms=None)],
    "hash_verdicts_gate": [verdict("orders"), verdict("payments", explained_key_counts={})],
    "quarantine_gate": [refused("a"), refused("b", severity="suspect", position=-1)],
}
"""By suite, rows that pass."""

FAILING = {
    "window_status_gate": {
        "log_directories_complete": [
            status(2, arrived_count=2),
            status(8, arrived_count=2, missing="no disk of broker 3; no log of orders-1"),
        ],
        "other_sources_complete": [
            status(1, "broker_metrics", arrived_count=0),
            status(9, arrived_count=2, missing="no log of orders-1"),  # other windows, and other clusters, are sound
        ],
        "window_over": [status(3, as_of=at(3.9), newest_at=at(3.8))],
        "log_directories_fresh": [status(4, newest_at=at(6.99)), status(5, newest_at=None)],
        "other_sources_fresh": [status(6, "producer_metrics", newest_at=at(6.99))],
        "source_not_expired": [status(7, source_expired=True)],
        "windows_present": [],  # broken by a row that is not there: has its own test
    },
    "partition_traffic_gate": {
        "offsets_contiguous": [traffic(2, missing_offset_count=1)],
        "no_record_gone": [traffic(4, record_count=96, compacted_record_count=1)],
        "crc_ok": [traffic(5, crc_error_count=1)],
        "leader_known": [traffic(6, leader_id=-1)],
        "no_time_outlier": [traffic(7, time_outlier_count=1)],
    },
    "log_counts_gate": {
        "records_read_equal_written": [logged(2, batch_record_count=99)],
        "bytes_read_equal_written": [logged(3, size_bytes=499)],
        "offsets_read_equal_written": [logged(4, batch_offset_count=99)],
    },
    "log_ends_gate": {"logs_read_to_their_ends": [ended(2, last_offset=98)]},
    "record_batches_gate": {
        "header_sound": [batch(20, last_offset=19), batch(30, record_count=11)],
        "crc_ok": [batch(40, is_crc_ok=False)],
    },
    "cluster_state_gate": {
        "leader_flag_agrees": [replica(3, is_leader=True)],
        "leader_known": [replica(4, leader_id=-1)],
    },
    "key_traffic_gate": {
        "records_by_key_equal_data_records": [keyed(2, key_record_count=96), keyed(3, key_record_count=98)],
        "records_readable": [keyed(4, unreadable_record_count=1)],
    },
    "arrival_counts_gate": {
        "arrivals_equal_data_records": [arrived("a", arrival_record_count=96), arrived("b", record_count=96)],
        "arrays_even": [arrived("c", uneven_row_count=1)],
        "keys_hold_what_arrived": [arrived("e", digest_difference=1), arrived("f", digest_difference=-(2**63))],
        "timestamps_in_line": [arrived("d", outlier_record_count=1)],
    },
    "replay_results_gate": {
        "ranges_sound": [placed(4, partition_count=9, record_count=8), placed(5, partition_count=9, size_bytes_low=-1)],
        "no_partition_beyond": [placed(6)],
        "batches_sound": [batched(0, batch_count=9), batched(1, log_size_bytes_low=-1), batched(2, log_share_high=1.5)],
    },
    "scenario_comparison_gate": {
        "replayed_equal_recorded": [
            scenario("a", "java", replayed_record_count=96),
            scenario("b", "java", replayed_size_bytes=None, broker_size_bytes=None, open_leader_count=1),
            lossy("m", 50, 56, replayed_record_count=40),
        ],
        "recorded_equal_batches": [
            scenario("c", "java", batch_record_count=98),
            scenario("d", "java", batch_record_count=None),
        ],
        "shares_sum_to_one": [
            scenario("e", "java", broker_size_bytes=499),
            scenario("n", "java", uneven_broker_count=1),
        ],
        "candidates_present": [scenario("f", "java", candidate_count=1)],
        "all_seeds_present": [simulated("h", seed_count=4)],
        "seeds_replay_all": [
            simulated("i", replayed_record_count_low=96, trust="not trustworthy: odd"),
            simulated("j", replayed_record_count_low=96, replayed_record_count_high=96),
        ],
        "delivered_records_stay": [lossy("o", 1, 1, is_baseline=True)],
        "peaks_follow_partitions": [
            simulated("p", **_UNEVEN, replayed_peak_to_mean_high=1.4),
            simulated("q", **_SPREAD, is_baseline=True),
            simulated("r", **{**_SPREAD, "peak_to_mean_low": 2.0, "peak_to_mean": 2.1}),
        ],
        "trust_told": [scenario("k", "java", trust=None), scenario("l", "java", trust="not trustworthy: ")],
        "baseline_exact": [scenario("g", "in-use", moved_record_count=1)],
    },
    "back_tests_gate": {
        "trust_follows": [back_tested("a", is_trusted=False), doubted("b", trust="trusted")],
        "shares_sound": [
            back_tested("c", observed_share=1.2, predicted_share=1.21, predicted_share_high=1.3),
            back_tested("d", predicted_share_low=0.75),
        ],
        "shares_within_bar": [doubted("e", share_error_points=1.6, observed_share=0.684)],
        "error_not_rising": [doubted("f", share_error_points=1.4, observed_share=0.686, history_share_error_points=0)],
        "trust_is_earned": [
            back_tested("g", range_points=9.0),
            back_tested("h", batches_trust="trusted", records_per_batch_ratio=0.5),
            back_tested("i", latency_trust="trusted", latency_avg_ratio=1.5),
        ],
    },
    "broker_metrics_gate": {
        "increases_not_negative": [of_broker("c:1", bytes_in=-1.0), of_broker("d:1", covered_ms=-1)],
        "idle_ratios_sound": [
            of_broker("e:1", request_handler_idle_ratio=1.11),
            of_broker("f:1", network_processor_idle_ratio=-0.1),
        ],
        "leaders_held": [of_broker("g:1", leader_count=4)],
        "broker_known": [of_broker("h:1", broker_id=None)],
    },
    "broker_topics_gate": {"increases_not_negative": [of_topic("a", bytes_in=-1.0), of_topic("b", log_size_bytes=-1)]},
    "broker_request_times_gate": {
        "times_not_negative": [timed("total", request_count=-1.0)],
        "percentiles_in_order": [timed("throttle", time_p50_ms=2.0)],
    },
    "hash_verdicts_gate": {
        "explained_within_judged": [
            verdict("a", explained_record_counts={"sarama-hash": 98}, explained_ratio=98 / 97),
            verdict("b", explained_key_counts={"sarama-hash": -1}, explained_ratio=90 / 97),
            verdict("c", unjudged_record_count=-1, traffic_record_count=96),
        ]
    },
    "quarantine_gate": {
        "severity_known": [refused("c", severity="grave")],
        "position_known": [refused("d", position=-2)],
    },
}
for _suite, _checks in FAILING.items():
    if _suite not in SUMS:
        _checks["key_unique"] = PASSING[_suite][1:2]
"""By suite and check, rows added to the passing ones, each breaking that check and no other."""

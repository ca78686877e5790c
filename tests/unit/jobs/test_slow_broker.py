"""A slow broker that load follows, over made-up tables: what is advised first, and what a mail then says.

Broker 1 of three answers late from the third window on, and gets three fifths of a topic without keys. Oracle: the windows as
written here.
"""

import polars as pl
import pytest

from pipeline.alerting.incident_mail import describe_broker_share
from pipeline.config.replay import DEFAULT_CANDIDATES, Candidate
from pipeline.evidence.incident import gather_evidence
from pipeline.jobs import recommend
from pipeline.jobs.recommend import promises
from pipeline.model.window import HOUR_MS, TimeWindow, instant_of
from pipeline.runs import plan_runs
from pipeline.storage.rows import load_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.gold import BROKER_SHARE
from pipeline.tables.health import RECOMMENDATIONS
from tests.incident_rows import new_change, new_verdict
from tests.report_tables import T0_MS, write_config, write_rows
from tests.table_rows import zero_row

WINDOWS, SLOW_FROM = 4, 2
LOADS = (200, 600, 200)
STAGES = {0: 3.0, 1: 480.0, 2: 4.0}
"""Mean milliseconds that a request spends in `local`, by broker."""


def write_tables(warehouse, *, placement, leaders_moved):
    ensure_tables(warehouse)
    for number in range(WINDOWS):
        is_slow = number >= SLOW_FROM
        start = pl.lit(instant_of(T0_MS + number * HOUR_MS))
        share = pl.Series(LOADS) / sum(LOADS)
        brokers = pl.DataFrame({"broker_id": range(3), "partition": range(3)}).with_columns(
            window_start=start, topic=pl.lit("orders"), size_bytes=pl.Series(LOADS) * 1_000_000, share=share,
            share_ratio=share * 3, remainder_term=share - 1 / 3, leaders_term=pl.lit(0.0), topic_mix_term=pl.lit(0.0),
            partition_skew_term=share - 1 / 3, heavy_keys_term=pl.lit(0.0), hash_luck_term=pl.lit(0.0),
            replica_position=pl.lit(0), is_in_sync=pl.lit(value=True), expected_share=pl.lit(1 / 3), capacity=pl.lit(1.0),
            chance_ratio=pl.lit(1.0), chance_p_value=pl.lit(0.0), excess_topic=pl.lit("orders"),
            leader_id=pl.Series([1, 0, 2] if leaders_moved and not is_slow else [0, 1, 2]),
        )  # fmt: skip  # fields of a value, several a line
        write_rows(warehouse, "gold.broker_share", brokers)
        write_rows(warehouse, "gold.partition_health", brokers)
        replicas = [
            brokers.with_columns(replica_id=(pl.col("partition") + at) % 3, replica_position=pl.lit(at))
            for at in range(2)
        ]
        write_rows(warehouse, "bronze.cluster_state", pl.concat(replicas))
        write_rows(
            warehouse,
            "gold.topic_health",
            pl.DataFrame({"topic": ["orders"], "placement": [placement]}).with_columns(window_start=start),
        )
        waits = pl.Series([13.0, 535.0 if is_slow else 14.0, 13.0])
        latency = brokers.with_columns(
            client_id=pl.lit("*"), request_latency_avg_ms=waits, ratio_to_peers=waits / 13.0, request_count=pl.lit(9.0)
        )
        write_rows(warehouse, "gold.latency", latency)
        idle = brokers.with_columns(request_handler_idle_ratio=pl.Series([0.9, 0.05, 0.9]), source=pl.lit("jmx"))
        write_rows(warehouse, "silver.broker_metrics", idle)
        spent = brokers.with_columns(stage=pl.lit("local"), time_mean_ms=pl.Series(list(STAGES.values())))
        write_rows(warehouse, "silver.broker_request_times", spent)


def write_replay(warehouse):
    """The replay without slow brokers puts `orders` evenly."""
    for number in range(WINDOWS):
        placed = pl.DataFrame({"broker_id": range(3), "recorded_share": pl.Series(LOADS) / sum(LOADS)}).with_columns(
            window_start=pl.lit(instant_of(T0_MS + number * HOUR_MS)), topic=pl.lit("orders"), trust=pl.lit("trusted"),
            candidate=pl.lit("no-slow-broker"), share=pl.lit(0.34), share_low=pl.lit(0.32), share_high=pl.lit(0.36),
        )  # fmt: skip
        write_rows(warehouse, "gold.replay_brokers", placed)
        write_rows(warehouse, "gold.scenario_comparison", placed.head(1))


def advise(folder, *, replayed=False, candidates=DEFAULT_CANDIDATES, **tables):
    config = write_config(folder).model_copy(update={"candidates": candidates})
    write_tables(config.warehouse, **tables)
    if replayed:
        write_replay(config.warehouse)
    span = TimeWindow(T0_MS, T0_MS + WINDOWS * HOUR_MS)
    (run,) = plan_runs(config, span, run_id="r", now_ms=span.end_ms)
    recommend.run(run, run.windows)
    rows = load_rows(config.warehouse, RECOMMENDATIONS).to_pylist()
    newest = [row for row in rows if row["window_start"] == instant_of(run.windows[-1].start_ms)]
    return run, sorted(newest, key=lambda row: row["rank"])


def test_the_broker_is_to_be_looked_at_first_with_what_its_metrics_show(tmp_path):
    _, (check, *plans) = advise(tmp_path, placement="batches", leaders_moved=False)
    assert (check["action"], check["rank"], check["predicted_ratio"]) == ("check_broker", 1, None)
    assert check["title"] == "broker 1 is slow: look at its disk, network, neighbours"
    for words in (
        "Producers wait 535 ms for broker 1, 13 ms for the others",
        "It has been slow since 2026-11-21 02:00 UTC.",
        "480 ms appending to its log (3.5 ms)",
        "Its request handlers are idle 5.0 % of the time.",
        "leaders and brokers were as before",
    ):
        assert words in check["text"]
    assert all(plan["predicted_ratio"] is None and not plan["is_enough"] for plan in plans)


@pytest.mark.parametrize(
    ("told_ms", "is_quota"),  # the other client's wait, the longest delay by the quota, the broker's own time
    [
        ((13.0, 4311.0, 4.0), True),
        ((535.0, 4311.0, 4.0), False),
        ((13.0, 90.0, 4.0), False),
        ((13.0, 4311.0, 480.0), False),
    ],
    ids=["by a quota alone", "another client waits, too", "the quota delays by less", "its disk takes the time"],
)
def test_a_broker_that_is_slow_by_a_quota_alone_is_not_to_be_looked_at(told_ms, is_quota, tmp_path, monkeypatch):
    """Real brokers under a client's quota: it waits 4.07 s for one and 4.2 ms for another, and is throttled by 404 ms on average."""
    config, start = write_config(tmp_path), pl.lit(instant_of(T0_MS + (WINDOWS - 1) * HOUR_MS))
    other_wait_ms, longest_ms, local_ms = told_ms
    waits = {"bulk": (13.0, 535.0, 13.0), "other": (13.0, other_wait_ms, 13.0)}
    for client_id, of in waits.items():
        rows = pl.DataFrame({"broker_id": range(3), "request_latency_avg_ms": of}).with_columns(
            window_start=start, client_id=pl.lit(client_id), ratio_to_peers=pl.col("request_latency_avg_ms") / 13.0
        )
        write_rows(config.warehouse, "gold.latency", rows)
        throttle = {"throttle_time_avg_ms": 54.0, "throttle_time_max_ms": longest_ms} if client_id == "bulk" else {}
        nodes = pl.DataFrame({"broker_id": [1], "client_id": [client_id], "instance": ["a"], **throttle})
        write_rows(config.warehouse, "silver.producer_nodes", nodes.with_columns(window_start=start))
    monkeypatch.setitem(STAGES, 1, local_ms)
    _, (check, *_) = advise(tmp_path, placement="batches", leaders_moved=False)
    assert (check["title"] == "broker 1 is slow to producers that a quota delays: raise it for client bulk") == is_quota
    said = (
        "A quota delays produce requests of client bulk by up to 4,311 ms, and the broker is slow to no other client."
    )
    assert (said in check["text"]) == is_quota
    assert ("its disk" in check["text"] + check["title"]) != is_quota


def test_where_the_replay_knows_a_mended_broker_its_share_is_promised(tmp_path):
    _, (check, *_) = advise(tmp_path, placement="batches", leaders_moved=False, replayed=True)
    ends = [check[name] for name in ("predicted_ratio_low", "predicted_ratio", "predicted_ratio_high")]
    assert (check["action"], check["rank"], check["is_enough"]) == ("check_broker", 1, True)
    assert ends == pytest.approx([0.96, 1.02, 1.08])


def test_a_candidate_that_changes_more_than_the_broker_promises_nothing_of_the_broker_alone(tmp_path):
    """The first with `brokers_alike` was taken, also one with another client or setting beside it."""
    both = (Candidate(name="no-slow-broker", brokers_alike=True, config={"linger.ms": "100"}),)
    _, (check, *_) = advise(tmp_path, placement="batches", leaders_moved=False, replayed=True, candidates=both)
    assert (check["action"], check["predicted_ratio"]) == ("check_broker", None)


def test_what_else_changed_when_it_began_is_said(tmp_path):
    _, (check, *_) = advise(tmp_path, placement="batches", leaders_moved=True)
    assert "When it began: leaders of 2 partitions changed." in check["text"]


@pytest.mark.parametrize(
    ("before", "since", "said"),
    [
        ({0: 10, 1: 10}, {0: 10, 2: 10}, ("broker 1 was gone", "broker 2 was new")),
        ({0: 100}, {0: 200}, ("100 % more bytes were produced",)),
        ({0: 100}, {0: 60}, ("40 % fewer bytes were produced",)),
        ({0: 100}, {0: 120}, ()),
    ],
)
def test_brokers_and_volumes_that_changed_are_said(tmp_path, before, since, said):
    config = write_config(tmp_path)
    ensure_tables(config.warehouse)
    (run,) = plan_runs(config, TimeWindow(T0_MS, T0_MS + 2 * HOUR_MS), run_id="r", now_ms=T0_MS + 3 * HOUR_MS)
    for window, sizes in zip(run.windows, (before, since), strict=True):
        of = {"cluster": run.cluster_name}
        rows = [zero_row(BROKER_SHARE, window.start_ms, broker_id=one, size_bytes=sizes[one], **of) for one in sizes]
        run.replace(BROKER_SHARE, rows, (window,))
    assert promises._find_changes(run, *(window.start_ms for window in run.windows)) == said


def test_a_topic_placed_by_keys_is_planned_with_a_prediction(tmp_path):
    _, found = advise(tmp_path, placement="keys", leaders_moved=False)
    assert found[0]["action"] == "check_broker"
    assert all(row["predicted_ratio"] is not None for row in found[1:])


@pytest.mark.parametrize("placement", ["batches", "keys"])
def test_its_mail_says_first_what_to_look_at(placement, tmp_path):
    run, found = advise(tmp_path, placement=placement, leaders_moved=False)
    start_ms = run.windows[-1].start_ms
    change = new_change("new", start_ms, since_ms=T0_MS, value=1.8, window_count=4)
    verdict = new_verdict(start_ms, above=4, value=1.8)
    content = describe_broker_share(gather_evidence(run, change, [verdict]))
    facts = dict(content.brief.facts)
    assert facts["Do first"] == "broker 1 is slow: look at its disk, network, neighbours"
    assert facts["Predicted"] == "no figure: it depends on what you find"
    assert ("Or" in facts) == any(row["predicted_ratio"] is not None for row in found)
    assert "Do first: broker 1 is slow: look at its disk, network, neighbours." in content.headline

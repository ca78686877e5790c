"""Which window an observation of a live cluster belongs to. Oracle: an outage as the laboratory had it, minute by minute."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.jobs.ingest.cluster import write_cluster
from pipeline.jobs.measure_rules import run as measure_rules
from pipeline.jobs.recommend import load_placement
from pipeline.jobs.score_health import measure_window
from pipeline.measures.outages import sum_known_ms
from pipeline.model.cluster import LIVE_CLUSTER, Broker, ClusterHistory, ConsumerGroupMember, PartitionState, Timeline
from pipeline.model.log import TopicPartition
from pipeline.model.window import DAY_MS, instant_of, milliseconds_of
from pipeline.sources.kinds.live_cluster import LiveCluster
from pipeline.sources.live.reading import LiveReading
from pipeline.sources.live.state import LiveState
from pipeline.sources.records.pieces import SUMMARY_SCHEMA, Kind
from pipeline.sources.source import ClusterReading
from pipeline.stages import Parts
from pipeline.storage.observations import load_outages
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.broker_metrics import BROKER_METRICS
from pipeline.tables.bronze import BROKERS, CLUSTER_STATE, CONSUMER_GROUPS, METRIC_SAMPLES
from pipeline.tables.gold import BROKER_SHARE, PARTITION_HEALTH
from pipeline.tables.health import RULE_MEASURES
from pipeline.tables.silver import PARTITION_TRAFFIC, RECORD_BATCHES
from tests.table_rows import zero_row
from tests.unit.jobs.test_ingest_windows import MINUTE_MS, START_MS, plan, window

KEY = TopicPartition("t", 0)
SOURCE = LiveCluster(kind="live_cluster", bootstrap_servers="b:9092")
LIVE = {"kind": "live_cluster", "bootstrap_servers": "b:9092"}
WHO = dict.fromkeys(("member_id", "client_host", "client_id"))
COUNTS = ("committed_offset", "log_end_offset", "lag_count")
DOWN_MS, UP_MS = START_MS + 2 * MINUTE_MS + 20_000, START_MS + 4 * MINUTE_MS + 52_000
"""Broker 2 is away from 2:20 to 4:52; broker 1 leads from then on."""


def ask(spark, run, at_ms, newest):
    """What a run finds that asks the brokers at a moment."""
    is_away = DOWN_MS <= at_ms < UP_MS
    leader, epoch = (1, 8) if at_ms >= DOWN_MS else (2, 7)
    of = {"topic": "t", "topic_id": "id", "partition": 0, "replicas": (2, 1)}
    now = PartitionState(leader_id=leader, leader_epoch=epoch, isr=(1,) if is_away else (2, 1), **of)
    terms = [(0, 2, 7), *([(DOWN_MS, 1, 8)] if at_ms >= DOWN_MS else [])]
    states = [PartitionState(leader_id=led_by, leader_epoch=term, isr=None, **of) for _, led_by, term in terms]
    brokers = {1: Broker(broker_id=1), 2: Broker(broker_id=2, is_fenced=is_away)}
    history = ClusterHistory(
        state_source=LIVE_CLUSTER,
        known_since_ms=at_ms,
        brokers={one: Timeline.always(broker) for one, broker in brokers.items()},
        partitions={KEY: Timeline((*(since for since, _, _ in terms), at_ms), (*states, now))},
    )
    state = LiveState(
        history=history, partitions={KEY: now}, in_scope=(KEY,), replicas=(), log_starts={}, high_watermarks={}
    )
    live = LiveReading(source=SOURCE, observed_at_ms=at_ms, state=state)
    member = ConsumerGroupMember(group_id="g", topic="t", partition=0, **WHO, **dict.fromkeys(COUNTS, at_ms))
    groups = ((at_ms, member),)
    reading = ClusterReading(record_source="live_cluster", history=history, live=live, newest=newest, groups_now=groups)
    nothing_read = Parts(spark, Path(), SUMMARY_SCHEMA, (), 0)
    return SimpleNamespace(reading=reading, parts={Kind.SUMMARIES: nothing_read}, staging=SimpleNamespace(spark=spark))


@pytest.fixture
def stored(tmp_path, spark):
    """Runs as a busy machine makes them: windows 0 to 6 in three goes, minutes after they are over."""
    for first, last, at_ms in (
        (0, 1, START_MS + 2 * MINUTE_MS + 40_000),
        (2, 4, START_MS + 5 * MINUTE_MS + 10_000),
        (5, 6, START_MS + 9 * MINUTE_MS),
    ):
        run = plan(tmp_path, first, last, at_ms)
        ensure_tables(run.warehouse)
        write_cluster(run, ask(spark, run, at_ms, window(last)), {})
    return plan(tmp_path, 0, 6, START_MS + 9 * MINUTE_MS)


@pytest.mark.parametrize("at_ms", [START_MS + 9 * MINUTE_MS, START_MS + 2 * DAY_MS])
def test_what_groups_consumed_stays_where_its_window_is_ingested_again(tmp_path, stored, spark, at_ms):
    """As after its DAG run was cleared: brokers tell only what groups consume now."""
    asked = {1: 2 * MINUTE_MS + 40_000, 4: 5 * MINUTE_MS + 10_000, 6: 9 * MINUTE_MS}
    again = plan(tmp_path, 0, 4, at_ms, sources=[LIVE])
    write_cluster(again, ask(spark, again, at_ms, None), {})
    told = minutes(stored.rows(CONSUMER_GROUPS, stored.windows), "committed_offset")
    assert told == {minute: START_MS + after_ms for minute, after_ms in asked.items()}


def test_what_groups_consume_now_is_that_of_the_newest_window_each_time_it_is_ingested(tmp_path, stored, spark):
    at_ms = START_MS + 10 * MINUTE_MS
    again = plan(tmp_path, 6, 6, at_ms, sources=[LIVE])
    write_cluster(again, ask(spark, again, at_ms, window(6)), {})
    assert minutes(stored.rows(CONSUMER_GROUPS, again.windows), "committed_offset") == {6: at_ms}


def write_batches(run, windows):
    """A batch a second: broker 2 leads up to 20 s into minute 2, broker 1 from two seconds later on."""
    led = [{"leader_id": leader_id, "leader_epoch": epoch} for leader_id, epoch in ((2, 7), (1, 8))]
    of = {"topic": "t", "topic_id": "id"}
    rows = [
        zero_row(
            RECORD_BATCHES,
            one.start_ms,
            base_offset=at_ms,
            max_timestamp=instant_of(at_ms),
            **of,
            **led[at_ms >= DOWN_MS],
        )
        for one in windows
        for at_ms in range(one.start_ms, one.end_ms, 1_000)
        if not DOWN_MS <= at_ms < DOWN_MS + 2_000
    ]
    run.replace(RECORD_BATCHES, rows, windows)


def minutes(rows, name, **wanted):
    return {
        (milliseconds_of(row["window_start"]) - START_MS) // MINUTE_MS: row[name]
        for row in rows
        if all(row[key] == value for key, value in wanted.items())
    }


def test_a_broker_was_away_in_the_window_that_holds_the_moment_and_in_no_other(stored):
    fenced = minutes(stored.rows(BROKERS, stored.windows), "is_fenced", broker_id=2)
    assert fenced == {0: None, 1: None, 2: True, 3: None, 4: None, 5: False, 6: None}
    measure_rules(stored, stored.windows)
    away = minutes(stored.rows(RULE_MEASURES), "value", rule="broker_away", subject="broker 2")
    assert away == {2: 20.0, 5: 0.0}  # from the answer to the window's end


def test_leader_epochs_date_an_outage(stored):
    write_batches(stored, stored.windows)
    measure_rules(stored, stored.windows)
    rows = [row for row in stored.rows(RULE_MEASURES) if row["rule"] == "broker_away" and row["value"]]
    assert minutes(rows, "value") == {2: 38.0}
    assert rows[0]["detail"] == (
        "away since 2026-11-21 09:02:22 UTC (38 s of the window); "
        "others lead its partitions since then, away when asked at 2026-11-21 09:02:40 UTC"
    )


def test_a_broker_that_is_away_for_several_windows_is_told_in_each(tmp_path, spark):
    """Asked after each window, as a schedule does; and fair share and in-sync sets rest on the same."""
    for minute in range(6):
        at_ms = window(minute).end_ms + 5_000
        run = plan(tmp_path, minute, minute, at_ms)
        ensure_tables(run.warehouse)
        write_cluster(run, ask(spark, run, at_ms, window(minute)), {})
        write_batches(run, run.windows)
    run = plan(tmp_path, 0, 5, at_ms)
    measure_rules(run, run.windows)
    away = minutes(run.rows(RULE_MEASURES), "value", rule="broker_away", subject="broker 2")
    # asked at 3:05 and 4:05 it was away, at 5:05 back; who came back in between nobody saw
    assert away == {1: 0.0, 2: 38.0, 3: 60.0, 4: 60.0, 5: 0.0}
    stood = {}
    for one in run.windows:
        outages = load_outages(run.warehouse, "lab", (one,), MINUTE_MS)
        stood |= {(one.start_ms - START_MS) // MINUTE_MS: sum_known_ms(outages, one.start_ms, one.end_ms)}
    assert stood == {0: {}, 1: {}, 2: {2: 38_000}, 3: {2: 60_000}, 4: {2: 5_000}, 5: {}}


def write_samples(run, windows, *, down=True, every_ms=10_000, other=1):
    """Both brokers are scraped now and then; broker 2 answers nothing while it is away."""
    for one in windows:
        counts, samples = {}, []
        for broker_id in (other, 2):
            times = [
                at_ms + 3_000 + 2_000 * (broker_id == 2)
                for at_ms in range(one.start_ms, one.end_ms, every_ms)
                if broker_id == other or not down or not DOWN_MS <= at_ms + 5_000 < UP_MS
            ]
            counts[broker_id] = len(times)
            named = {"source": "prometheus", "instance": f"host-{broker_id}"}
            samples += [
                zero_row(METRIC_SAMPLES, one.start_ms, name=f"kafka_server_{name}", observed_at=instant_of(at), **named)
                for at in times
                for name in ("app_info_id", "brokertopicmetrics_bytesin")
            ]
        rows = [
            zero_row(
                BROKER_METRICS, one.start_ms, source="prometheus", broker_id=of, instance=f"host-{of}", sample_count=n
            )
            for of, n in counts.items()
            if n
        ]
        run.replace(BROKER_METRICS, rows, (one,))
        run.replace(METRIC_SAMPLES, samples, (one,))


def write_seven_minutes(tmp_path, spark, **samples):
    """A run over windows 0 to 6 with batches and samples; the cluster was asked once, at 9:00."""
    at_ms = START_MS + 9 * MINUTE_MS
    run = plan(tmp_path, 0, 6, at_ms)
    ensure_tables(run.warehouse)
    write_cluster(run, ask(spark, run, at_ms, window(6)), {})
    write_batches(run, run.windows)
    write_samples(run, run.windows, **samples)
    return run


@pytest.mark.parametrize("down", [True, False])
def test_metrics_that_stay_away_show_an_outage_that_falls_between_two_observations(tmp_path, spark, down):
    """The cluster is asked at 9:00 alone, broker 2 back since 4:52; without the gap others merely lead its partitions."""
    run = write_seven_minutes(tmp_path, spark, down=down)
    measure_rules(run, run.windows)
    rows = [row for row in run.rows(RULE_MEASURES) if row["rule"] == "broker_away" and row["value"]]
    assert minutes(rows, "value") == ({2: 38.0, 3: 60.0, 4: 55.0} if down else {})  # up to the next sample
    if down:
        assert min(rows, key=lambda row: row["window_start"])["detail"] == (
            "away since 2026-11-21 09:02:22 UTC (38 s of the window); others lead its partitions since then, "
            "its metrics stayed away up to 2026-11-21 09:04:53 UTC at least"
        )


@pytest.mark.parametrize("late_ms", [0, 60_000])
def test_what_is_not_of_a_moment_in_its_window_is_no_answer(tmp_path, late_ms):
    """Such as the state at a window's end by a metadata log, which knows outages itself, or rows of older versions."""
    run = plan(tmp_path, 0, 0, START_MS)
    ensure_tables(run.warehouse)
    observed_at = instant_of(window(0).end_ms + late_ms)
    run.replace(
        BROKERS, [zero_row(BROKERS, START_MS, is_fenced=True, observed_at=observed_at, configs={})], run.windows
    )
    assert load_outages(run.warehouse, "lab", run.windows, MINUTE_MS) == []
    inside = zero_row(BROKERS, START_MS, is_fenced=True, observed_at=instant_of(START_MS + 1), configs={})
    run.replace(BROKERS, [inside], run.windows)
    assert len(load_outages(run.warehouse, "lab", run.windows, MINUTE_MS)) == 1


def test_who_is_in_sync_likewise(stored):
    rows = stored.rows(CLUSTER_STATE, stored.windows)
    in_sync = minutes(rows, "is_in_sync", replica_id=2)
    assert in_sync == {0: None, 1: None, 2: False, 3: None, 4: None, 5: True, 6: None}


def test_leaders_are_those_at_the_ends_of_windows(stored):
    rows = stored.rows(CLUSTER_STATE, stored.windows)
    assert minutes(rows, "leader_id", replica_id=1) == {0: 2, 1: 2, **dict.fromkeys(range(2, 7), 1)}
    assert minutes(rows, "is_leader", replica_id=1) == {0: False, 1: False, **dict.fromkeys(range(2, 7), True)}


def test_a_window_that_is_run_again_keeps_what_was_observed_in_it(stored, tmp_path, spark):
    again = plan(tmp_path, 2, 2, START_MS + 9 * MINUTE_MS)
    write_cluster(again, ask(spark, again, START_MS + 9 * MINUTE_MS, None), {})
    assert minutes(stored.rows(BROKERS, (window(2),)), "is_fenced", broker_id=2) == {2: True}


@pytest.mark.parametrize(("minute", "is_away"), [(1, True), (2, False), (4, False)])
def test_plans_know_who_was_away_when_the_cluster_was_asked_next(stored, minute, is_away):
    """Window 1 is judged while broker 2 is dead: no plan of it may name broker 2; after window 2 it is back."""
    start = instant_of(window(minute).start_ms)
    shares = [{"window_start": start, "broker_id": one} for one in (1, 2)]
    carried = [{"window_start": start, "topic": "t", "topic_id": "id"}]
    for table, rows in ((BROKER_SHARE, shares), (PARTITION_HEALTH, carried)):
        filled = [zero_row(table, window(minute).start_ms, **row) for row in rows]
        stored.replace(table, filled, (window(minute),))
    partitions, brokers = load_placement(stored, window(minute))
    assert [(one.broker_id, one.is_fenced) for one in brokers] == [(1, False), (2, is_away)]
    assert [one.in_sync for one in partitions] == [(1,) if is_away else (2, 1)]


def test_a_broker_that_is_away_before_a_pause_and_after_it_is_away_within_it(tmp_path):
    """Windows of the pause were taken up later, and the living brokers were blamed for what the dead one did not carry."""
    run = plan(tmp_path, 0, 0, START_MS)
    ensure_tables(run.warehouse)
    for minute in (-40, 40):
        asked = {"observed_at": instant_of(window(minute).start_ms + 1), "configs": {}}
        rows = [
            zero_row(BROKERS, window(minute).start_ms, broker_id=one, is_fenced=one == 2, **asked) for one in (1, 2)
        ]
        run.replace(BROKERS, rows, (window(minute),))
    (outage,) = load_outages(run.warehouse, "lab", (window(0),), MINUTE_MS)
    assert (outage.broker_id, outage.known_ms(window(0).start_ms, window(0).end_ms)) == (2, MINUTE_MS)
    late = window(-2_000), window(2_000)  # answers are 33 hours away
    assert [load_outages(run.warehouse, "lab", (one,), MINUTE_MS) for one in late] == [[], []]


def test_a_broker_that_is_away_before_and_after_a_window_of_days_ago_is_away_in_it(tmp_path):
    """It is taken up by hand, later than answers count, and the dead broker had its fair share."""
    run = plan(tmp_path, 0, 0, START_MS)
    ensure_tables(run.warehouse)
    for minute in (-2_000, 2_000):
        asked = {"observed_at": instant_of(window(minute).start_ms + 1), "configs": {}}
        row = zero_row(BROKERS, window(minute).start_ms, broker_id=2, is_fenced=True, **asked)
        run.replace(BROKERS, [row], (window(minute),))
    now_ms = window(2_001).start_ms
    (outage,) = load_outages(run.warehouse, "lab", (window(0),), MINUTE_MS, as_of_ms=now_ms)
    assert outage.known_ms(window(0).start_ms, window(0).end_ms) == MINUTE_MS


def test_plans_know_who_was_away_when_the_cluster_was_asked_within_a_day(tmp_path):
    """Of windows of a minute it was within 24 minutes."""
    run = plan(tmp_path, 0, 0, START_MS)
    ensure_tables(run.warehouse)
    for minute, is_fenced in ((0, None), (1, None), (90, True), (91, False)):
        rows = [zero_row(BROKERS, window(minute).start_ms, broker_id=2, is_fenced=is_fenced, configs={})]
        run.replace(BROKERS, rows, (window(minute),))
    run.replace(BROKER_SHARE, [zero_row(BROKER_SHARE, START_MS, broker_id=2)], (window(0),))
    _, (broker,) = load_placement(run, window(0))
    assert broker.is_fenced


@pytest.mark.parametrize("other", [1, 9])
def test_brokers_of_which_only_metrics_tell_are_compared_with_none(tmp_path, spark, other):
    """A server of metrics may name thousands."""
    run = write_seven_minutes(tmp_path, spark, other=other)
    assert len(load_outages(run.warehouse, "lab", run.windows, MINUTE_MS)) == (other == 1)


def test_a_window_with_two_points_of_each_metric_is_looked_at_where_one_broker_has_none(tmp_path, spark):
    run = write_seven_minutes(tmp_path, spark, every_ms=30_000)
    (outage,) = load_outages(run.warehouse, "lab", run.windows, MINUTE_MS)
    assert (outage.broker_id, outage.by_samples, outage.since_ms - START_MS) == (2, True, 142_000)


@pytest.mark.parametrize(("told_ms", "part"), [(None, 22 / 82), (0, 1 / 2)])
def test_the_metadata_log_outweighs_samples_that_stay_away(tmp_path, spark, told_ms, part):
    """A broker that hands over all it leads, and whose exporter stops, stays in the cluster where the metadata log says so."""
    run = write_seven_minutes(tmp_path, spark)
    told = [row | {"away_ms": told_ms} for row in run.rows(BROKERS, run.windows)]
    run.replace(BROKERS, told, run.windows)
    shares = measure_window(run, window(2))[BROKER_SHARE.name].to_pylist()
    assert {row["broker_id"]: row["expected_share"] for row in shares}[2] == pytest.approx(part)


@pytest.mark.parametrize(
    ("others", "capacity", "shares", "gone"),
    [
        ([], {}, {1: 0.5, 2: 0.5}, set()),
        ([(3, "log_directories", None)], {}, {1: 0.5, 2: 0.5, 3: 0.0}, {3}),  # its disk is still there
        ([(3, "log_directories", 30_000)], {}, {1: 0.4, 2: 0.4, 3: 0.2}, {3}),  # it was unregistered within the window
        ([(3, "cluster_metadata", MINUTE_MS)], {}, {1: 0.5, 2: 0.5, 3: 0.0}, {3}),  # dead, and nobody unregistered it
        ([], {1: 3, 4: 2}, {1: 0.75, 2: 0.25, 4: 0.0}, {4}),  # it joins later, or has left
    ],
)
def test_a_broker_that_is_not_in_the_cluster_takes_no_fair_share_from_the_others(
    tmp_path, others, capacity, shares, gone
):
    """All living brokers were blamed for the part that one which is gone did not carry."""
    run = plan(tmp_path, 0, 0, window(1).end_ms, capacity=capacity)
    ensure_tables(run.warehouse)
    told = [(1, "cluster_metadata", 0), (2, "cluster_metadata", 0), *others]
    rows = [
        zero_row(BROKERS, START_MS, broker_id=broker_id, state_source=source, away_ms=away_ms, is_fenced=bool(away_ms))
        for broker_id, source, away_ms in told
    ]
    run.replace(BROKERS, rows, run.windows)
    measured = measure_window(run, window(0))[BROKER_SHARE.name].to_pylist()
    assert {row["broker_id"]: row["expected_share"] for row in measured} == pytest.approx(shares)
    run.replace(BROKER_SHARE, [zero_row(BROKER_SHARE, START_MS, **row) for row in measured], run.windows)
    _, placed = load_placement(run, window(0))
    assert {one.broker_id for one in placed if one.is_fenced} == gone


@pytest.mark.parametrize(
    ("answers", "taken_over", "third"),
    [
        ({-40: (1, 2), 40: (1, 2, 3)}, False, 0.0),  # it joined while Airflow was paused
        ({-40: (1, 2), 0: (1, 2), 1: (1, 2, 3)}, False, 0.0),  # it joins after the window
        ({-40: (1, 2, 3), 40: (1, 2, 3)}, False, 1 / 3),
        ({0: (1, 2, 3), 40: (1, 2, 3)}, False, 1 / 3),
        ({40: (1, 2, -3)}, False, 0.0),  # it was dead when the cluster was asked for the first time
        ({40: (1, 2, -3)}, True, 1 / 3),  # it led until after the window
        ({-40: (1, 2, 3), 40: (1, 2, -3)}, False, 1 / 3),
        ({40: (1, 2, 3)}, False, 1 / 3),
        ({}, False, 1 / 3),
    ],
)
def test_a_broker_that_answers_do_not_place_in_the_cluster_takes_no_fair_share(tmp_path, answers, taken_over, third):
    """Windows that a pause left are described as the cluster is now: the living brokers were blamed, each with 1.5 times its share."""
    run = plan(tmp_path, 0, 0, window(41).end_ms)
    ensure_tables(run.warehouse)
    of = {"state_source": "live_cluster", "away_ms": None, "configs": {}}
    told = {0: [(one, None) for one in (1, 2, 3)]} | {
        minute: [(abs(one), one < 0) for one in named] for minute, named in answers.items()
    }
    for minute, states in told.items():
        start_ms = window(minute).start_ms
        rows = [
            zero_row(BROKERS, start_ms, broker_id=one, is_fenced=away, observed_at=instant_of(start_ms + 1), **of)
            for one, away in states
        ]
        run.replace(BROKERS, rows, (window(minute),))
    if taken_over:
        led = [(5, 3), (6, 1)]
        rows = [
            zero_row(
                RECORD_BATCHES, window(20).start_ms, base_offset=epoch, max_timestamp=instant_of(window(20).start_ms + epoch),
                topic="t", topic_id="id", leader_epoch=epoch, leader_id=leader_id,
            )
            for epoch, leader_id in led
        ]  # fmt: skip  # fields of a row, several a line
        run.replace(RECORD_BATCHES, rows, (window(20),))
    measured = measure_window(run, window(0))[BROKER_SHARE.name].to_pylist()
    assert {row["broker_id"]: row["expected_share"] for row in measured}.get(3, 0.0) == pytest.approx(third)


def test_a_record_that_is_stamped_ahead_gives_a_broker_that_was_unregistered_no_fair_share(tmp_path):
    run = plan(tmp_path, 0, 0, window(1).end_ms)
    ensure_tables(run.warehouse)
    told = [zero_row(BROKERS, START_MS, broker_id=one, state_source="live_cluster", away_ms=None) for one in (1, 2)]
    run.replace(BROKERS, told, run.windows)
    sizes = {1: 1_000_000, 2: 1_000_000, 3: 100}
    traffic = [
        zero_row(PARTITION_TRAFFIC, START_MS, topic="t", partition=broker_id, leader_id=broker_id, size_bytes=size)
        for broker_id, size in sizes.items()
    ]
    run.replace(PARTITION_TRAFFIC, traffic, run.windows)
    measured = measure_window(run, window(0))[BROKER_SHARE.name].to_pylist()
    assert {row["broker_id"]: row["share_ratio"] for row in measured[:2]} == pytest.approx({1: 1.0, 2: 1.0}, abs=1e-3)

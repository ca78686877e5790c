"""Load that records' times do not show. Oracle: sums by hand over two logs that grow between runs."""

import pytest

from pipeline.jobs.measure_rules import run as measure_rules
from pipeline.model.window import instant_of, milliseconds_of
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.bronze import CLUSTER_STATE, WINDOW_STATUS
from pipeline.tables.gold import BROKER_SHARE
from pipeline.tables.health import RULE_MEASURES
from pipeline.tables.silver import PARTITION_TRAFFIC
from tests.table_rows import zero_row
from tests.unit.jobs.test_ingest_windows import MINUTE_MS, START_MS, plan, window

SEEN_MS = 30_000
"""Each minute's run takes place so long after its end."""
TIMELY = 600


def log(minute, broker, size_bytes, *, leader=None, first=0, source="live_cluster", seen_ms=SEEN_MS, epoch=7, **more):
    """The row of a log when the run of a minute looked at it; a record is a byte."""
    led = {"leader_id": broker if leader is None else leader, "leader_epoch": epoch}
    seen = {f"observed_{name}": value if source == "live_cluster" else None for name, value in led.items()}
    return zero_row(
        CLUSTER_STATE, window(minute).start_ms, partition=broker, replica_id=broker, size_bytes=size_bytes, configs={},
        observed_at=instant_of(window(minute).end_ms + seen_ms), state_source=source,
        log_start_offset=first, log_end_offset=first + size_bytes, **{"topic": "t", "topic_id": "id", **led, **seen, **more},
    )  # fmt: skip  # columns of a row, several a line


@pytest.fixture
def run(tmp_path):
    run = plan(tmp_path, 0, 5, window(6).start_ms)
    ensure_tables(run.warehouse)
    return run


def measured(
    run, logs, rule="late_load", *, missing=(), count_kind="exact", units=1_000, gone=0, besides=(), **of_brokers
):
    """Value, text and chance of the rule's measures from minute 3 on; brokers lead a partition each with as much timely load."""
    brokers = of_brokers.get("brokers", 2)
    of = {one: of_brokers.get("timely", {}).get(one, TIMELY) for one in range(brokers)}
    all_rows = [(number, broker) for number in range(6) for broker in range(brokers)]
    rows = {
        CLUSTER_STATE: logs,
        PARTITION_TRAFFIC: [
            zero_row(
                PARTITION_TRAFFIC, window(number).start_ms, topic=topic, topic_id="id", partition=broker, leader_id=broker,
                size_bytes=size_bytes, covered_offset_count=offset_count - gone_count, missing_offset_count=gone_count,
                count_kind=count_kind,
            )
            for number in range(6)
            for topic, broker, size_bytes, offset_count, gone_count in (
                *(("t", one, of[one], of[one], gone) for one in range(brokers)), *besides,
            )
        ],
        BROKER_SHARE: [
            zero_row(BROKER_SHARE, window(number).start_ms, broker_id=broker, expected_share=1 / brokers, effective_unit_count=units)
            for number, broker in all_rows
        ],
        WINDOW_STATUS: [
            zero_row(
                WINDOW_STATUS, window(number).start_ms, window_end=instant_of(window(number).end_ms),
                source="live_cluster", is_trusted=True, expected_count=2, arrived_count=2 - (number in missing),
                missing="t-1" if number in missing else None, as_of=instant_of(window(number).end_ms + SEEN_MS),
                newest_at=instant_of(window(number).end_ms + SEEN_MS),
            )
            for number in range(6)
        ],
    }  # fmt: skip  # columns of a row, several a line
    for table, of_table in rows.items():
        run.replace(table, of_table, [window(number) for number in range(6)])
    measure_rules(run, [window(number) for number in range(3, 6)])
    found = [row for row in run.rows(RULE_MEASURES) if row["rule"] == rule]
    places = [((milliseconds_of(row["window_start"]) - START_MS) // MINUTE_MS, row["subject"][-1]) for row in found]
    told = [(round(row["value"], 3), row["detail"], row["p_value"]) for row in found]
    by_minute = dict(zip(places, told, strict=True))
    assert len(by_minute) == len(found)
    return by_minute


def grown(late, *, minutes=range(5), **more):
    """Logs of two brokers: both grow by their timely bytes in each minute, that of broker 1 by `late` besides."""
    return [
        log(minute, broker, (minute + 1) * (TIMELY + late * broker), **more) for minute in minutes for broker in (0, 1)
    ]


@pytest.mark.parametrize("source", ["live_cluster", "cluster_metadata"])
def test_a_broker_that_takes_late_records_is_measured_by_them(run, source):
    found = measured(run, grown(1_200, source=source))
    # 1,800 of 2,400 bytes where a half is fair: 1.5 times it, and once by times
    assert {key: value for key, (value, *_) in found.items()} == {
        (3, "0"): 0.0, (3, "1"): 0.5, (4, "0"): 0.0, (4, "1"): 0.5, (5, "0"): 0.0, (5, "1"): 0.5,
    }  # fmt: skip
    assert found[4, "1"][1].startswith("took 1.50x its fair share of the bytes appended from ")
    assert found[4, "1"][1].endswith(", and 1.00x by record timestamps; most of the difference is in t-1")


def test_what_compaction_takes_of_one_topic_does_not_pay_for_late_load_of_another(run):
    """A cleaner keeps the log of one topic as long as it is, and another of the same broker takes as many late bytes."""
    cleaned = [
        log(minute, 1, 60_000, topic="changes")
        | {"log_end_offset": 1_200 * minute, "configs": {"cleanup.policy": "compact"}}
        for minute in range(5)
    ]
    found = measured(run, [*grown(1_200), *cleaned], besides=[("changes", 1, 1_200, 1_200, 0)])
    # 3,000 of 3,600 bytes and, by times, 1,800 of 2,400 where a half is fair
    assert [found[minute, "1"][0] for minute in (3, 4, 5)] == [round(3_000 / 1_800 - 1.5, 3)] * 3


def test_late_load_that_lifts_a_broker_over_the_limit_of_shares_counts_with_what_it_has_by_times(run):
    """Of 1,800 timely bytes broker 0 took 700, by times 1.17 times its share; 100 late ones make it 800 of 1,900, 1.26."""
    timely = {0: 700, 1: 550, 2: 550}
    for late, value in ((100, round(800 / 1_900 * 3 - 1, 3)), (30, 0.0), (0, 0.0)):
        logs = [
            log(minute, broker, (minute + 1) * (size + late * (broker == 0)))
            for minute in range(5) for broker, size in timely.items()
        ]  # fmt: skip
        found = measured(run, logs, brokers=3, timely=timely, units=10_000)
        assert [found[minute, "0"][0] for minute in (3, 4, 5)] == [
            pytest.approx(value, abs=0.05 if late == 30 else 1e-9)
        ] * 3


@pytest.mark.parametrize(("units", "is_chance"), [(1_000, False), (12, True)])
def test_a_difference_of_a_few_batches_may_be_chance(run, units, is_chance):
    """Runs take place between windows: what was appended is not the same sample as what windows hold."""
    assert (measured(run, grown(600), units=units)[4, "1"][2] > 0.001) == is_chance


@pytest.mark.parametrize(("late", "value"), [(1_200, 0.5), (0, 0.0)])
def test_a_broker_that_claims_to_have_grown_without_end_hides_no_late_load_of_others(run, late, value):
    liar = [log(minute, 2, (minute + 1) * 10**12) for minute in range(5)]
    found = measured(run, [*grown(late), *liar], brokers=3)
    assert [found[minute, "1"][0] for minute in (3, 4, 5)] == [value] * 3
    assert [found[minute, "0"][0] for minute in (3, 4, 5)] == [0.0] * 3
    assert [found[minute, "2"][0] for minute in (3, 4, 5)] == [2.0] * 3
    assert ("without brokers that claim more late load than all timely load (2)" in found[4, "1"][1]) == bool(late)


def test_late_records_of_many_times_the_load_that_all_brokers_take_alike_are_late_load_of_none(run):
    logs = [log(minute, broker, (minute + 1) * 9_000) for minute in range(5) for broker in range(3)]
    assert {value for value, *_ in measured(run, logs, brokers=3).values()} == {0.0}


def test_timely_load_is_no_late_load(run):
    assert {value for value, *_ in measured(run, grown(0)).values()} == {0.0}


def test_what_retention_deletes_leaves_the_measure(run):
    """The log's start moves, and its size stays: the offsets count, at the bytes that a record takes now."""
    cut = ({"size_bytes": 600, "log_start_offset": row["log_end_offset"] - 600} for row in grown(1_200)[4:])
    logs = [*grown(1_200)[:4], *(row | change for row, change in zip(grown(1_200)[4:], cut, strict=True))]
    assert {value for (_, broker), (value, *_) in measured(run, logs).items() if broker == "1"} == {0.5}


@pytest.mark.parametrize("size_bytes", [60_000, 60])
def test_a_topic_whose_records_are_larger_or_smaller_than_they_were_has_no_late_load(run, size_bytes):
    """Compression is turned on or off, and retention deletes: the mean over the log says nothing about new records."""
    logs = [*grown(0, minutes=range(6))]
    for row in logs[1::2]:
        row |= {"log_start_offset": row["log_end_offset"] - 600, "size_bytes": size_bytes}
    assert {value for value, *_ in measured(run, logs).values()} == {0.0}


def test_what_a_log_grew_by_is_the_least_it_took(run):
    """A few records that are large among many small ones, of which retention takes some."""
    large = [
        log(minute, 1, 10_000 + 1_200 * minute, topic="own", first=minute)
        | {"log_end_offset": 10_000_000 + 10 * minute}
        for minute in range(5)
    ]
    assert measured(run, [*grown(0), *large])[4, "1"][0] == 0.5


def test_records_that_are_deleted_before_a_run_sees_them_are_told(run):
    """Kafka deletes records older than the retention at once: how many bytes they had, nobody knows."""
    gone = [log(minute, 1, 0, topic="old", first=1_000 * minute) for minute in range(5)]
    found = measured(run, [*grown(0), *gone], rule="unread_records")
    assert {key: value for key, (value, *_) in found.items()} == {
        (3, "0"): 0, (3, "1"): 0.625, (4, "0"): 0, (4, "1"): 0.625, (5, "0"): 0, (5, "1"): 0.625,
    }  # fmt: skip
    assert found[4, "1"][1].startswith("1,000 of 1,600 records were deleted or compacted before a run saw them, from ")
    assert found[4, "1"][1].endswith("; most are of old-1")
    assert "most" not in found[4, "0"][1]


@pytest.mark.parametrize("first", [0, 600])
def test_records_that_a_run_saw_or_that_still_lie_there_are_not_unread(run, first):
    logs = [log(minute, 1, 600, topic="old", first=first * minute) for minute in range(5)]
    assert {value for value, *_ in measured(run, [*grown(0), *logs], rule="unread_records").values()} == {0}


def test_records_that_compaction_took_before_a_run_read_them_are_told(run):
    """Compaction leaves the log's start where it is; the gaps between the batches that are left show what is gone."""
    found = measured(run, grown(0), rule="unread_records", gone=150)
    assert {value for value, *_ in found.values()} == {0.25}


@pytest.mark.parametrize(("policy", "values"), [("compact,delete", {0.0, 0.566}), ("delete", {0.0})])
def test_late_records_that_compaction_takes_are_told(run, policy, values):
    """Offsets were given, and the log holds next to none of their bytes."""
    changes = [
        log(minute, 1, 0, topic="changes") | {"log_end_offset": 1_000 * minute, "configs": {"cleanup.policy": policy}}
        for minute in range(5)
    ]
    found = measured(run, [*grown(0), *changes], rule="unread_records")
    assert {value for value, *_ in found.values()} == values


@pytest.mark.parametrize(
    ("topic", "size_bytes", "told"),
    [
        ("__consumer_offsets", 1, True),
        ("__consumer_offsets", 0.01, False),  # ten bytes an hour in all, of 600: what compaction takes is little load
        ("__consumer_offsets", 0, True),  # nobody knows how large they were
        ("__commits", 0.01, True),  # any client's name
    ],
)
def test_records_of_kafkas_own_topics_that_compaction_takes_are_told_where_they_are_much(run, topic, size_bytes, told):
    """Each minute brings 1,000 records, of which compaction leaves 100."""
    own = [
        log(minute, 1, int(100 * size_bytes * (minute + 1)), topic=topic)
        | {"log_end_offset": 1_000 * (minute + 1), "configs": {"cleanup.policy": "compact"}}
        for minute in range(5)
    ]
    found = measured(
        run, [*grown(0), *own], rule="unread_records", besides=[(topic, 1, int(100 * size_bytes), 1_000, 900)]
    )
    assert {key: value for key, (value, *_) in found.items() if value} == (
        dict.fromkeys(((3, "1"), (4, "1"), (5, "1")), 0.562) if told else {}
    )


def test_records_of_a_topic_made_meanwhile_that_are_deleted_at_once_are_told(run):
    found = measured(run, [*grown(0), log(3, 1, 0, topic_id="new", first=1_000)], rule="unread_records")
    assert {key: value for key, (value, *_) in found.items() if value} == {(4, "1"): 0.625}


def test_a_topic_that_did_not_answer_once_is_no_new_one(run):
    """All that its log ever held would be load of one window."""
    logs = [*grown(0), *(log(minute, 1, 100_000, topic="own") for minute in (1, 3))]
    assert {value for value, *_ in measured(run, logs).values()} == {0.0}


def test_logs_that_were_cut_or_moved_count_by_times(run):
    """A follower's copy is as long as its leader's: a new leader took little of it."""
    moved = [*grown(0, minutes=range(3)), log(3, 0, 2_400), log(3, 1, 99_000, leader=0)]
    back = [*moved[:6], log(3, 0, 2_400), log(3, 1, 99_000, epoch=9)]  # others led it meanwhile
    cut = [*moved[:6], log(3, 0, 2_400), log(3, 1, 100)]
    assert {value for value, *_ in measured(run, moved).values()} == {0.0}
    assert {value for value, *_ in measured(run, back).values()} == {0.0}
    assert {value for value, *_ in measured(run, cut).values()} == {0.0}


@pytest.mark.parametrize("size_bytes", [600, 10**15])
def test_a_log_that_grows_less_than_records_say_makes_no_other_broker_late(run, size_bytes):
    """A broker may tell any size, and a client may have sent records ahead of their times."""
    logs = [*grown(0)]
    for row in logs[1::2]:
        row |= {"size_bytes": size_bytes}
    assert {value for value, *_ in measured(run, logs).values()} == {0.0}


def test_a_topic_made_meanwhile_began_empty(run):
    logs = [*grown(0), log(3, 1, 1_200, topic_id="new")]
    assert {key: value for key, (value, *_) in measured(run, logs).items() if value} == {(4, "1"): 0.5}


@pytest.mark.parametrize(
    ("before", "late", "source"),
    [
        ([], 0.5, "live_cluster"),
        ([log(2, 1, 0)], 0.5, "live_cluster"),  # seen, and empty
        ([log(2, 1, 0) | {"size_bytes": None}], None, "live_cluster"),  # it was there, and its leader did not answer
        ([], None, "only_replica"),  # the host that holds it may have been away
    ],
)
def test_a_partition_added_to_a_topic_began_empty(run, before, late, source):
    added = [row | {"partition": 2} for row in (*before, log(3, 1, 1_200))]
    logs = [row | {"state_source": source} for row in (*grown(0), *added)]
    assert {key: value for key, (value, *_) in measured(run, logs).items() if value} == (
        {(4, "1"): late} if late else {}
    )


def test_records_of_a_partition_added_to_a_topic_that_are_deleted_at_once_are_told(run):
    added = log(3, 1, 0, first=1_000) | {"partition": 2}
    found = measured(run, [*grown(0), added], rule="unread_records")
    assert {key: value for key, (value, *_) in found.items() if value} == {(4, "1"): 0.625}


def test_a_leader_epoch_that_follows_at_once_is_of_the_same_leader(run):
    """A controller begins one, too, where the in-sync set changes; of two, another broker may have had the first."""
    logs = [
        row | {"leader_epoch": 8, "observed_leader_epoch": 8} if at >= 6 else row for at, row in enumerate(grown(1_200))
    ]
    assert {key: value for key, (value, *_) in measured(run, logs).items() if value} == {
        (3, "1"): 0.5, (4, "1"): 0.5, (5, "1"): 0.5,
    }  # fmt: skip


def test_topics_that_are_not_read_do_not_count(run):
    """A live cluster's state has Kafka's own topics, too."""
    own = [log(minute, 1, 9_000 * minute, topic="__consumer_offsets") for minute in range(5)]
    assert {value for value, *_ in measured(run, [*grown(0), *own]).values()} == {0.0}


@pytest.mark.parametrize(("more", "minutes"), [({"missing": (3,)}, {5}), ({"count_kind": "sampled"}, set())])
def test_nothing_is_compared_with_windows_that_were_not_read_whole(run, more, minutes):
    assert {minute for minute, _ in measured(run, grown(1_200), **more)} == minutes


def test_of_two_runs_in_a_window_the_later_one_counts(run):
    logs = [*grown(1_200, minutes=(0, 1, 2, 4)), *(log(3, n, 2_100 + 4_200 * n, seen_ms=-1_000) for n in (0, 1))]
    assert {minute for minute, _ in measured(run, logs)} == {3, 5}


def test_two_runs_within_seconds_give_no_measure(run):
    logs = [*grown(1_200, minutes=(0, 1)), *(log(n, 1, 2_100 * n, seen_ms=ms) for n, ms in ((3, -1_000), (4, -55_000)))]
    assert {minute for minute, _ in measured(run, logs)} == {3}

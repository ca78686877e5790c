"""Advice that left in a mail is watched until it is done, undone or its incident ends, over made-up tables.

Every hour another partition of `orders` is the hot one of broker 1, so each window's plan is another. The plan that was mailed
in the second window is carried out 30 windows later, when newer ones have long come. Oracle: the windows as written here.
"""

import json

import polars as pl
import pytest

from pipeline.jobs import recommend
from pipeline.model.incident import AlertMessage
from pipeline.model.window import HOUR_MS, TimeWindow, instant_of, milliseconds_of
from pipeline.runs import plan_runs
from pipeline.storage.outbox import mark_delivered
from pipeline.storage.rows import insert_rows, load_rows
from pipeline.storage.tables_on_disk import ensure_tables
from pipeline.tables.gold import BROKER_SHARE
from pipeline.tables.health import PROMISES, RECOMMENDATIONS
from pipeline.tables.incidents import ALERT_OUTBOX, INCIDENTS
from tests.incident_rows import new_change
from tests.report_tables import T0_MS, write_config, write_rows

MAILED, DONE, LAST = 1, 31, 33


def at(number):
    return T0_MS + number * HOUR_MS


def write_window(warehouse, number, *, leader_of_0):
    """Partitions 0 to 3 of `orders`; broker 1 leads 2 of 3 of the bytes until partition 0 leads elsewhere."""
    hot = 0 if number == MAILED else 1 + number % 2
    leaders = [leader_of_0, 1, 1, 2]
    loads = [300 if partition == hot else 150 for partition in range(3)] + [300]
    frame = pl.DataFrame({"partition": range(4), "leader_id": leaders, "size_bytes": [size * 1_000 for size in loads]})
    frame = frame.with_columns(window_start=pl.lit(instant_of(at(number))), topic=pl.lit("orders"))
    write_rows(warehouse, "gold.partition_health", frame)
    replicas = [
        frame.with_columns(
            replica_id=pl.Series([(leader + place) % 3 for leader in leaders]), replica_position=pl.lit(place),
            is_in_sync=pl.lit(value=True),
        )
        for place in range(3)
    ]  # fmt: skip  # fields of a value, several a line
    write_rows(warehouse, "bronze.cluster_state", pl.concat(replicas))
    carried = [
        sum(size for size, leader in zip(loads, leaders, strict=True) if leader == broker) for broker in range(3)
    ]
    share = pl.Series(carried) / sum(carried)
    brokers = pl.DataFrame({"broker_id": range(3), "size_bytes": [size * 1_000 for size in carried]}).with_columns(
        window_start=pl.lit(instant_of(at(number))), share=share, share_ratio=share * 3, expected_share=pl.lit(1 / 3),
        capacity=pl.lit(1.0), chance_ratio=pl.lit(1.0), chance_p_value=pl.lit(0.0), excess_topic=pl.lit("orders"),
    )  # fmt: skip
    write_rows(warehouse, "gold.broker_share", brokers)
    write_rows(
        warehouse,
        "gold.topic_health",
        pl.DataFrame({"topic": ["orders"], "placement": ["keys"]}).with_columns(
            window_start=pl.lit(instant_of(at(number)))
        ),
    )


def change(state, number):
    return new_change(state, at(number), since_ms=at(0), value=1.8, window_count=2)


def tell(run, number, *, after=1):
    """The incident opens in a window, and its mail is delivered so many windows later."""
    run.replace(INCIDENTS, [change("new", number)], [run.window_at(at(number))])
    message = AlertMessage(
        message_id="K-1-new.x@y", cluster="demo", incident_id="K-1", state="new", window_start_ms=at(number), channel=None,
        tells="K-1-new", subject_line="", recipients="", payload=b"", queued_at_ms=at(number),
    )  # fmt: skip
    insert_rows(run.table_of(ALERT_OUTBOX, [message]), run.warehouse, ALERT_OUTBOX)
    mark_delivered(run.warehouse, message.message_id, delivered_to="x", now_ms=at(number + after))


def advise(config, first, end):
    span = TimeWindow(at(first), at(end))
    (run,) = plan_runs(config, span, run_id="r", now_ms=span.end_ms)
    recommend.run(run, run.windows)
    return run


def promises(config, number):
    rows = load_rows(config.warehouse, PROMISES).to_pylist()
    return {
        (milliseconds_of(row["promised_at"]) - T0_MS) // HOUR_MS: row
        for row in rows
        if row["window_start"] == instant_of(at(number)) and row["action"] == "move_leaders"
    }


@pytest.fixture
def config(tmp_path):
    config = write_config(tmp_path)
    ensure_tables(config.warehouse)
    for number in range(LAST + 1):
        write_window(config.warehouse, number, leader_of_0=1 if number < DONE else 0)
    run = advise(config, 0, MAILED + 1)
    tell(run, MAILED)
    return config


def moved(config, number):
    rows = load_rows(config.warehouse, RECOMMENDATIONS).to_pylist()
    plan = next(
        row for row in rows if row["window_start"] == instant_of(at(number)) and row["action"] == "move_leaders"
    )
    return {one["partition"] for one in json.loads(plan["election_json"])["partitions"]}


def test_the_plan_in_the_mail_is_watched_and_judged_however_many_came_after_it(config):
    advise(config, MAILED + 1, LAST + 1)
    assert moved(config, MAILED) == {0} != moved(config, MAILED + 1)
    assert promises(config, MAILED + 5)[MAILED]["outcome"] == "not_carried_out"
    judged = promises(config, LAST)[MAILED]
    assert (judged["outcome"], judged["is_mailed"]) == ("kept", True)
    assert milliseconds_of(judged["carried_out_at"]) == at(DONE)
    assert {row["is_mailed"] for row in promises(config, LAST).values()} <= {True, False}


def test_it_is_watched_no_more_once_the_incident_is_over(config):
    run = advise(config, MAILED + 1, 5)
    run.replace(INCIDENTS, [change("resolved", 4)], [run.window_at(at(4))])
    advise(config, 5, LAST + 1)
    assert MAILED in promises(config, 4)
    assert MAILED not in promises(config, LAST)


def test_advice_that_left_in_a_mail_stays_as_it_was_sent(config):
    before = load_rows(config.warehouse, RECOMMENDATIONS).to_pylist()
    sent = [row for row in before if row["window_start"] == instant_of(at(MAILED))]
    write_window(config.warehouse, MAILED, leader_of_0=2)  # the window comes again with another leader
    advise(config, 0, MAILED + 1)
    after = load_rows(config.warehouse, RECOMMENDATIONS).to_pylist()
    assert sent
    assert [row for row in after if row["window_start"] == instant_of(at(MAILED))] == sent


def test_a_window_that_came_again_without_its_broker_stops_no_judging(config):
    """Each later run of the cluster ended with a `KeyError`, and judged nothing, until the incident was over."""
    run = advise(config, MAILED + 1, 4)
    run.replace(BROKER_SHARE, [], [run.window_at(at(MAILED))])
    advise(config, 4, 5)
    assert MAILED in promises(config, 3).keys() - promises(config, 4).keys()


def test_a_window_judged_again_is_judged_as_before_the_mail_left(tmp_path):
    """As after a killed run: the mail about one of the windows has left meanwhile, too late for all of them."""
    config = write_config(tmp_path)
    ensure_tables(config.warehouse)
    for number in range(5):
        write_window(config.warehouse, number, leader_of_0=1)
    run = advise(config, 0, 5)
    before = load_rows(config.warehouse, PROMISES).to_pylist()
    tell(run, MAILED, after=5)
    advise(config, 0, 5)
    assert before
    assert load_rows(config.warehouse, PROMISES).to_pylist() == before

"""Small examples of the nouns, of declared tables and of their SQL."""

from datetime import timedelta

import pyarrow as pa
import pytest

from pipeline.model.cluster import Timeline
from pipeline.model.incident import IncidentChange, incident_of
from pipeline.model.log import fits_topics
from pipeline.model.promise import PromiseScore, Trust, format_trust
from pipeline.model.window import (
    TimeWindow,
    format_instant,
    instant_of,
    milliseconds_of,
    parse_duration,
    parse_instant,
    spanning,
    stretches_of,
)
from pipeline.storage.java import parse_java_version
from pipeline.storage.predicates import format_datafusion_text, sql_instant, sql_text
from pipeline.tables.arrow_types import format_sql_schema
from pipeline.tables.table import Check

NINE = "2026-11-21T09:00:00"
NINE_MS = 1795251600000


def test_instants_and_durations():
    assert parse_duration("P1DT30M") == timedelta(days=1, minutes=30)
    assert parse_instant("2026-11-21T10:00:00+01:00").isoformat() == f"{NINE}+00:00"
    assert (format_instant(NINE_MS), instant_of(NINE_MS).isoformat()) == (f"{NINE}Z", f"{NINE}+00:00")
    assert (milliseconds_of(timedelta(minutes=1)), milliseconds_of(instant_of(5))) == (60_000, 5)
    assert str(TimeWindow.parse(f"{NINE}Z/PT1M")) == f"{NINE}Z/2026-11-21T09:01:00Z"


def test_windows_put_together_and_cut():
    assert spanning([TimeWindow(5, 9), TimeWindow(1, 3)]) == TimeWindow(1, 9)
    assert stretches_of([TimeWindow(5, 9), TimeWindow(1, 3), TimeWindow(3, 4)]) == (TimeWindow(1, 4), TimeWindow(5, 9))
    assert [window.start_ms for window in TimeWindow(0, 180).split(60)] == [0, 60, 120]


def test_a_value_holds_until_the_next():
    assert Timeline((10, 20), ("a", "b")).at(19) == "a"


@pytest.mark.parametrize(("topic", "fits"), [("orders-eu", True), ("orders-repartition", False), ("clicks", False)])
def test_topics_wanted_and_left_out(topic, fits):
    assert fits_topics(topic, ("orders-*", "!*-repartition")) is fits


def test_a_change_of_an_incident_has_its_window_in_its_key_where_the_state_can_recur():
    of_window = {"since_ms": 0, "window_start_ms": NINE_MS, "window_count": 3}
    values = {"value": 1.9, "peak_value": 1.9, "limit_value": 1.2}
    change = IncidentChange(incident_id="K-1", state="worse", rule="r", subject="s", **of_window, **values)
    assert change.key == "K-1-worse-20261121T090000Z"
    assert incident_of(change.key) == incident_of("K-1-resolved") == "K-1"


def test_two_broken_promises_are_bad_if_they_are_more_than_the_kept():
    bad = [PromiseScore(kept, broken).is_bad for kept, broken in ((0, 1), (0, 2), (2, 2), (2, 3))]
    assert bad == [False, True, False, True]


def test_stored_trust():
    assert (format_trust(""), format_trust("no arrivals")) == ("trusted", "not trustworthy: no arrivals")
    assert Trust.of("not trustworthy: no arrivals") is Trust.DOUBTED


def test_sql():
    assert (sql_text("it's"), sql_text("a\\b\n")) == ("'it\\'s'", "'a\\\\b\\u000a'")
    assert (sql_instant(NINE_MS), format_datafusion_text("it's")) == (f"TIMESTAMP'{NINE}Z'", "'it''s'")
    assert format_sql_schema(pa.schema([("partition", pa.int64()), ("topic", pa.string())])) == (
        "`partition` bigint, `topic` string"
    )
    assert Check("share", least=0, most=1).sql == "share IS NULL OR share >= 0 AND share <= 1"


def test_versions_of_java():
    versions = map(parse_java_version, ('openjdk version "17.0.15" 2025-04-15', 'java version "1.8.0_402"', "none"))
    assert list(versions) == [17, 8, None]

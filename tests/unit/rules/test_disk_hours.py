"""Hours until disks are full. Oracle: worked out by hand on a few rows."""

import math
import time
from datetime import timedelta

import pytest

from pipeline.alerting.incidents import IncidentPolicy, fold_verdicts
from pipeline.config.rules import RuleSettings, fill_rules
from pipeline.measures.disks import NO_END_HOURS
from pipeline.rules import RULES, format_measure
from pipeline.rules.rule import RuleInput
from pipeline.storage.frames import arrow_schema
from pipeline.verdicts.rules import judge_rules
from tests.unit.rules.measured import HOUR_MS, T0, T0_MS, hour, measured, values


def broker_row(window, broker_id, held=(), total=(), usable=()):
    """Maps come from tables as pairs."""
    maps = {"log_dir_bytes": list(held), "log_dir_total_bytes": list(total), "log_dir_usable_bytes": list(usable)}
    return {"window_start": hour(window), "broker_id": broker_id, **maps}


def test_hours_to_full_follow_the_median_growth_of_all_replicas_of_a_broker():
    rows = [
        broker_row(n, broker, [("/a", 50 + 5 * n), ("/b", 50 + 5 * n)])
        | ({"log_dir_total_bytes": None} if broker else {})
        for n in range(4)
        for broker in (0, 7)
    ]
    found = measured("disk_hours_to_full", {"bronze.brokers": rows}, hours=range(4), disk_bytes={0: 230})
    # 100, 110, 120, 130 of 230: ten an hour; two windows are too few to tell
    assert values(found) == {(2 * HOUR_MS, "broker 0"): 11.0, (3 * HOUR_MS, "broker 0"): 10.0}


def test_hours_to_full_are_those_of_the_volume_that_is_full_first_where_brokers_tell():
    """/a: 400 of 1,000 left, ten less each hour; /b: 90 of 100 left, six less each hour; what replicas hold is no matter."""
    rows = [
        broker_row(n, 3, [("/a", 1)], [("/a", 1_000), ("/b", 100)], [("/a", 430 - 10 * n), ("/b", 90 - 6 * n)])
        for n in range(4)
    ]
    found = measured("disk_hours_to_full", {"bronze.brokers": rows}, hours=[3])
    assert values(found) == {(3 * HOUR_MS, "broker 3"): 12.0}
    assert found[0].detail == "/b is 28% full, and at this pace all of it in 12 h"
    assert measured("disk_hours_to_full", {"bronze.brokers": [broker_row(0, 3)]}, hours=range(4)) == []


@pytest.mark.parametrize(("minutes", "hours"), [(3, None), (60, None), (61, 10.0), (90, 10.0)])
def test_a_trend_needs_an_hour_whatever_the_windows(minutes, hours):
    """A minute takes one of so many bytes that ten hours are left at the end: told after an hour, not after three minutes."""
    usable = 600 + minutes - 1
    rows = [
        broker_row(0, 0, (), [("/a", 10_000)], [("/a", usable - n)]) | {"window_start": T0 + timedelta(minutes=n)}
        for n in range(minutes)
    ]
    found = measured("disk_hours_to_full", {"bronze.brokers": rows}, hours=[minutes - 1], window_ms=60_000)
    assert [m.value for m in found] == ([] if hours is None else [hours])


def test_an_incident_of_a_disk_ends_when_it_fills_no_more():
    """Of windows of five minutes two hours are known, so 48 at most, the limit: no window was ever well, and none had a row."""
    rows = [
        broker_row(0, 0, (), [("/a", 10_000)], [("/a", 9_000 - 100 * min(n, 36))])
        | {"window_start": T0 + timedelta(minutes=5 * n)}
        for n in range(80)
    ]
    found = measured("disk_hours_to_full", {"bronze.brokers": rows}, hours=range(80), window_ms=300_000)
    rules = {name: RuleSettings(**rule) for name, rule in fill_rules({}).items()}
    verdicts = judge_rules(found, rules, chance_level=0.001)
    policy = IncidentPolicy(resolves_at=math.inf, k=2)
    changes = fold_verdicts(verdicts, cluster="c", policy_of=lambda _: policy)
    assert [change.state for change in changes if change.state != "worse"] == ["new", "resolved"]
    assert changes[-1].value == NO_END_HOURS
    assert format_measure("disk_hours_to_full", changes[-1].value) == "no end in sight"
    assert found[-1].detail == "/a is 46% full"


@pytest.mark.parametrize(("left", "known"), [(4_790, 47.9), (4_810, NO_END_HOURS)])
def test_further_than_a_trend_is_followed_no_end_is_in_sight(left, known):
    """A hundred an hour for two hours: 48 hours can be seen ahead."""
    rows = [broker_row(n, 0, (), [("/a", 10_000)], [("/a", left + 100 * (2 - n))]) for n in range(3)]
    (found,) = measured("disk_hours_to_full", {"bronze.brokers": rows}, hours=[2])
    assert found.value == pytest.approx(known)


def test_a_volume_of_which_no_end_is_in_sight_is_judged_for_each_broker_that_reports_it():
    """One may have an incident of its own, from when another claimed its volume; a row that is not judged would never end it."""
    rows = [broker_row(n, broker, (), [("/a", 1_000)], [("/a", 500)]) for n in range(4) for broker in range(2)]
    found = measured("disk_hours_to_full", {"bronze.brokers": rows}, hours=[3])
    assert [(one.subject, one.value, one.is_enough) for one in found] == [
        ("broker 0", NO_END_HOURS, True),
        ("broker 1", NO_END_HOURS, True),
    ]


def test_short_windows_are_read_for_two_hours():
    asked = []
    given = RuleInput(
        load=lambda table, count: asked.append((table.name, count)) or arrow_schema(table).empty_table(),
        starts_ms=[T0_MS],
        window_ms=60_000,
        disk_bytes={},
    )
    assert list(RULES["disk_hours_to_full"].measure("disk_hours_to_full", given)) == []
    assert asked == [("bronze.brokers", 120)]


@pytest.mark.parametrize(
    ("count", "who"), [(2, "broker 1 reports"), (3, "brokers 1 and 2 report"), (4, "brokers 1, 2 and 3 report")]
)
def test_a_volume_that_several_brokers_report_is_judged_once(count, who):
    """The first brokers see one volume, a few bytes apart; the last has another one of that size."""
    rows = [
        broker_row(n, broker, (), [("/a", 100_000)], [("/a", 50_000 + 10_000 * (broker == count) - 1_000 * n + broker)])
        for n in range(4)
        for broker in range(count + 1)
    ]
    found = {m.subject: m for m in measured("disk_hours_to_full", {"bronze.brokers": rows}, hours=[3])}
    assert [found[f"broker {one}"].is_enough for one in range(count + 1)] == [True, *[False] * (count - 1), True]
    assert found["broker 0"].detail.endswith(f"in 47 h; {who} the same volume")
    assert found["broker 1"].detail.endswith("in 47 h, the volume of broker 0")
    assert "volume" not in found[f"broker {count}"].detail


def test_a_broker_that_says_it_has_anothers_volume_silences_no_alarm():
    """It names a log directory of its own in each window, with the room that the other has left: no trend is known of it."""
    rows = [
        broker_row(n, broker, (), [(path, 100_000)], [(path, 50_000 - 1_000 * n)])
        for n in range(4)
        for broker, path in ((0, f"/{n}"), (1, "/a"))
    ]
    (found,) = measured("disk_hours_to_full", {"bronze.brokers": rows}, hours=[3])
    assert (found.subject, found.is_enough) == ("broker 1", True)
    assert found.detail.endswith("in 47 h")


def test_directories_that_brokers_name_anew_in_each_window_are_not_compared_with_each():
    """Brokers 0 and 2 name a hundred each in each minute of two hours, as large as another's: 24,000 by 24,000 take minutes."""
    rows = [
        broker_row(0, broker, (), [(path, 100_000) for path in paths], [(path, 5_000 - 10 * n) for path in paths])
        | {"window_start": T0 + timedelta(minutes=n)}
        for n in range(121)
        for made_up in [[f"/{n}/{one}" for one in range(100)]]
        for broker, paths in ((0, made_up), (1, ["/a"]), (2, made_up))
    ]
    began_s = time.process_time()
    (found,) = measured("disk_hours_to_full", {"bronze.brokers": rows}, hours=[120], window_ms=60_000)
    assert time.process_time() - began_s < 10
    assert (found.subject, found.is_enough) == ("broker 1", True)


def test_hours_to_full_are_the_same_however_many_windows_a_run_measures():
    """Ten an hour for three days, then a hundred: a run over all windows looks back no further than one over the last."""
    rows = [broker_row(n, 0, (), [("/a", 10_000)], [("/a", 9_000 - 10 * n - 90 * max(0, n - 72))]) for n in range(100)]
    (alone,) = measured("disk_hours_to_full", {"bronze.brokers": rows[75:]}, hours=[99])
    assert alone.value == pytest.approx(55.8)
    assert alone in measured("disk_hours_to_full", {"bronze.brokers": rows}, hours=range(100))


def test_a_disk_that_is_full_stays_so_whether_or_not_it_ever_grew():
    rows = [broker_row(n, 0, (), [("/a", 10_000)], [("/a", max(0, 2_000 - 500 * n))]) for n in range(60)]
    found = measured("disk_hours_to_full", {"bronze.brokers": rows}, hours=range(4, 60))
    assert [(m.value, m.detail) for m in found] == 56 * [(0.0, "/a is 100% full")]
    (first,) = measured("disk_hours_to_full", {"bronze.brokers": rows[4:5]}, hours=[4])
    assert first.value == 0.0

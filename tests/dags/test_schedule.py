"""When runs fire and what they are keyed by; oracle: Airflow's own timetable, asked for its next runs."""

from datetime import timedelta

import pytest

from pipeline.config.sections import plan_schedule
from pipeline.errors import ConfigError
from tests.dags.conftest import FIRST_RUNS


@pytest.fixture(scope="module")
def scheduled(described):
    return dict(zip(FIRST_RUNS, described["scheduled"], strict=True))


@pytest.mark.parametrize("case", FIRST_RUNS)
def test_a_run_fires_after_its_window_and_the_grace_time_and_is_keyed_by_the_window(scheduled, case):
    assert tuple(scheduled[case]["runs"][0]) == FIRST_RUNS[case]


@pytest.mark.parametrize("case", FIRST_RUNS)
def test_every_window_gets_one_run_and_backfills_have_the_same_keys(scheduled, case):
    keys = [key for _, key in scheduled[case]["runs"]]
    assert len(set(keys)) == 3
    backfilled = scheduled[case]["backfill"]
    assert len(set(backfilled)) == 3
    assert backfilled[0] == "2026-11-21T00:00:00Z"


@pytest.mark.parametrize("minutes", [7, 90, 5 * 60, 48 * 60, 0.5])
def test_a_window_no_cron_can_say_is_refused(minutes):
    with pytest.raises(ConfigError, match=r"^window: Airflow cannot schedule windows of .* divide an hour.*$"):
        plan_schedule(timedelta(minutes=minutes), timedelta(minutes=1))

"""Delays within spans whose means alone are known, against delays that are known at every instant."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.calibration.service.model import assume_service, fluctuate
from pipeline.calibration.service.trial import SessionTopic, simulate_answers
from pipeline.calibration.session_traffic import SessionBatches
from pipeline.replay.simulated.arrivals import prepare_arrivals
from tests.simulated_sessions import delayed
from tests.unit.replay.session_groups import START_MS, lay_out, make_baseline, make_group, make_traffic

SPAN_MS, SPANS, STREAMS = 5_000, 400, range(20)


def changing(draw_lengths_s, seed=1):
    """Delays of such lengths at every millisecond."""
    chance = np.random.default_rng(seed)
    count = 4 * SPANS
    ends_ms = np.cumsum(1000 * draw_lengths_s(chance, count))
    return chance.lognormal(2.5, 0.8, count)[np.searchsorted(ends_ms, np.arange(SPANS * SPAN_MS), side="right")]


def follow(means):
    """A broker whose delays are known from scrape to scrape."""
    series = tuple((START_MS + number * SPAN_MS, float(mean)) for number, mean in enumerate(means))
    return replace(delayed(1, float(np.mean(means))), delay_series=series, is_followed=True)


def test_delays_that_no_request_ever_had_are_bounded():
    model = fluctuate(follow([3.0, 3.0, 3.0, 3.0, 4e153] * 48), 5)
    assert np.isfinite([delay_ms for _, delay_ms in model.delay_series]).all()


def spell_out(model):
    """Its delay at every millisecond."""
    at_ms, delays = (np.array(column) for column in zip(*model.delay_series, strict=True))
    lengths = np.diff(at_ms, append=START_MS + SPANS * SPAN_MS)  # the last one's is 0
    return np.repeat(delays, lengths)


def vary(values):
    return np.std(values) / np.mean(values)


def between(least_s, most_s):
    return lambda chance, count: chance.uniform(least_s, most_s, count)


def about(mean_s):
    return lambda chance, count: chance.exponential(mean_s, count)


@pytest.mark.parametrize("lengths", [about(2), about(3), about(10), about(40), between(1, 5), between(3, 12)])
def test_delays_within_spans_vary_as_they_did(lengths):
    """Whatever the law of their lengths; the means alone vary by a third less where delays last for 2 s."""
    real = changing(lengths)
    model = follow(real.reshape(SPANS, SPAN_MS).mean(axis=1))
    drawn = np.mean([vary(spell_out(fluctuate(model, stream))) for stream in STREAMS])
    assert drawn == pytest.approx(vary(real), rel=0.25)


def test_each_span_keeps_its_mean():
    means = changing(between(1, 5)).reshape(SPANS, SPAN_MS).mean(axis=1)
    assert spell_out(fluctuate(follow(means), 7)).reshape(SPANS, SPAN_MS).mean(axis=1) == pytest.approx(means)


def test_after_the_last_scrape_a_broker_is_as_slow_as_it_was_on_average_before():
    """Not as slow as it was at one moment: what waits then would wait for it without an end."""
    means = changing(between(1, 5)).reshape(SPANS, SPAN_MS).mean(axis=1)
    assert fluctuate(follow(means), 7).delay_series[-1] == (START_MS + SPANS * SPAN_MS, means[-1])


def test_delays_follow_each_other_however_long_spans_are():
    starts_ms = START_MS + np.cumsum([10, 11] * 49 + [10])
    model = replace(
        follow([1.0]), delay_series=tuple(zip(starts_ms.tolist(), changing(between(1, 5))[:99_000:1_000], strict=True))
    )
    for stream in range(200):
        assert np.diff([at_ms for at_ms, _ in fluctuate(model, stream).delay_series]).min() > 0


def test_a_delay_that_stays_for_minutes_hardly_changes_within_a_span():
    real = np.repeat([5.0, 60.0, 5.0, 60.0], SPANS * SPAN_MS // 4)
    drawn = spell_out(fluctuate(follow(real.reshape(SPANS, SPAN_MS).mean(axis=1)), 7))
    assert np.median(np.abs(drawn - real)) == 0


def test_a_delay_that_is_steady_or_not_followed_stays_as_it_is():
    unfollowed = replace(follow([3.0, 9.0, 4.0, 8.0]), is_followed=False)
    for model in (assume_service(1), follow([7.0] * 30), follow([0.0] * 30), unfollowed):
        assert fluctuate(model, 7) is model


def test_candidates_of_a_seed_meet_the_same_delays_and_other_seeds_meet_others():
    traffic = make_traffic(span_ms=SPAN_MS)
    model = follow(changing(between(1, 5)).reshape(SPANS, SPAN_MS).mean(axis=1)[:12])
    group = replace(make_group(traffic), services={0: delayed(0, 0.0), 1: model, 2: delayed(2, 0.0)})
    planned = lay_out(group, prepare_arrivals(group, [traffic]))
    schedules = [planned.build(seed).brokers[1].delay_ns for seed in (1, 1, 2)]
    assert schedules[0] == schedules[1] != schedules[2]
    assert len(schedules[0].starts_ns) > 12


def test_steps_of_a_search_meet_other_delays_and_the_same_step_the_same():
    """What one draw of them adds to latencies is nobody's delay: it evens out over the steps."""
    traffic = make_traffic(span_ms=6 * SPAN_MS)
    batches = SessionBatches(*(np.zeros(0, np.int64) for _ in range(6)), codec="none")
    topic = SessionTopic(traffic, batches, (0, 1, 2), make_baseline())
    model = follow(changing(between(1, 5)).reshape(SPANS, SPAN_MS).mean(axis=1)[:6])
    models = [delayed(0, 0.0), model, delayed(2, 0.0)]

    def answer(seed, step):
        return simulate_answers([topic], models, [START_MS + 6 * SPAN_MS], seed, step)[0, 1].tolist()

    assert answer(1, 1) == answer(1, 1)
    assert answer(1, 1) != answer(1, 2)

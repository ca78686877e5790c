"""In the log all producers without ids are one session. If clients' metrics tell several, each is simulated by itself."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.calibration.session_traffic import SessionTraffic
from pipeline.replay.simulated.arrivals import prepare_arrivals
from pipeline.replay.simulated.runs import CELL_BATCHES, CELL_RECORDS, run_group
from tests.unit.replay.session_groups import lay_out, make_baseline, make_group, make_traffic

WEIGHTS = (6.0, 3.0, 1.0)


def pool(traffic: SessionTraffic) -> SessionTraffic:
    return replace(traffic, producer_id=-1, producer_epoch=-1)


def group_of(traffic, weights=()):
    group = make_group(traffic, baseline=make_baseline(linger_ms=5))
    (session,) = group.sessions
    pooled = replace(session, producer_id=-1, producer_epoch=-1)
    return replace(group, sessions=tuple(pooled.deal(weights)))


@pytest.fixture(scope="module")
def traffic():
    return pool(make_traffic(20_000))


def test_records_are_dealt_by_weight_each_once_and_always_alike(traffic):
    dealt = traffic.deal(WEIGHTS)
    assert np.array([len(part) for part in dealt]) / len(traffic) == pytest.approx([0.6, 0.3, 0.1], abs=0.01)
    together = np.sort(np.concatenate([part.elapsed_ms * 1_000 + part.body_bytes for part in dealt]))
    assert (together == np.sort(traffic.elapsed_ms * 1_000 + traffic.body_bytes)).all()
    for part, again in zip(dealt, traffic.deal(WEIGHTS), strict=True):
        assert (np.diff(part.elapsed_ms) >= 0).all()
        assert (part.body_bytes == again.body_bytes).all()


def test_a_burst_is_of_one_producer(traffic):
    bursts = replace(traffic, elapsed_ms=np.repeat(np.arange(0, 60_000, 60), 20).astype(np.int32))
    owners = np.full(60_000, -1)
    for number, part in enumerate(bursts.deal(WEIGHTS)):
        moments = np.unique(part.elapsed_ms)
        assert (owners[moments] == -1).all()
        owners[moments] = number
    assert set(owners[::60].tolist()) == {0, 1, 2}


def test_each_pooled_producer_is_simulated_by_itself(traffic):
    """Records that wait for 5 ms share a batch with those of their own producer alone."""
    (alone,), (dealt,) = (
        run_group(lay_out(group, arrivals := prepare_arrivals(group, [traffic])), arrivals, 1)
        for group in (group_of(traffic), group_of(traffic, WEIGHTS))
    )
    assert dealt.sent_count == alone.sent_count == dealt.cells[:, CELL_RECORDS].sum() == len(traffic)
    assert dealt.cells[:, CELL_BATCHES].sum() > 1.5 * alone.cells[:, CELL_BATCHES].sum()


def test_one_client_or_none_is_one_session(traffic):
    (session,) = group_of(traffic).sessions
    assert session.deal([]) == session.deal([7.0]) == [session]
    assert [part.record_count for part in session.deal([3.0, 1.0])] == [15_000, 5_000]
    parts = session.deal(WEIGHTS)
    assert not any(part.is_keyed for part in parts)
    assert all(part.is_keyed for part in replace(session, keyless_count=session.record_count - 1).deal(WEIGHTS))
    assert [(part.number, part.weights, part.record_count) for part in parts] == [
        (0, WEIGHTS, 12_000),
        (1, WEIGHTS, 6_000),
        (2, WEIGHTS, 2_000),
    ]

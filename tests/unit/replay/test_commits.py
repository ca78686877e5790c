"""Transactions in a replay: commits as recorded or as the candidate says, and a doubt where nobody says."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from pipeline.calibration import session_traffic
from pipeline.calibration.caveats import Caveat
from pipeline.config.replay import Candidate
from pipeline.errors import ConfigError
from pipeline.replay import sessions
from pipeline.replay.recorded import Recording
from pipeline.replay.simulated import plan
from pipeline.replay.simulated.arrivals import prepare_arrivals
from pipeline.replay.simulated.producers import KEEP, check_producer, resolve_candidate
from pipeline.replay.simulated.runs import CELL_BATCHES, run_group
from pipeline.simulator.scenario.scenario import COMMIT
from tests.unit.calibration.test_session_traffic import START, as_table, make_rows
from tests.unit.replay.session_groups import lay_out, make_baseline, make_group, make_traffic

PLAIN = make_baseline(version="3.2.3", linger_ms=1000)
TRANSACTIONAL = make_baseline(version="3.2.3", linger_ms=1000, transactional_id="in the log")
ON = {"transactional.id": "orders"}


def lay_out_commits(candidate, baseline, commits=()):
    """The places of commits among the rows of a thread with 2,000 records, and the batches that came of it."""
    traffic = make_traffic(2_000)
    group = make_group(traffic, baseline=baseline)
    session = dataclasses.replace(group.sessions[0], commits_ms=traffic.at_ms[list(commits)].astype(np.int64))
    group = dataclasses.replace(group, sessions=(session,))
    arrivals = prepare_arrivals(group, [traffic])
    planned = lay_out(group, arrivals, candidate)
    [run] = run_group(planned, arrivals, 1)
    assert run.sent_count == run.done_count == 2_000
    target = planned.producers[0].traffic[0].arrivals.target
    return np.flatnonzero(target == COMMIT).tolist(), int(run.cells[:, CELL_BATCHES].sum())


def test_recorded_commits_close_batches():
    places, batches = lay_out_commits(KEEP, TRANSACTIONAL, range(99, 2_000, 100))
    assert len(places) == 20
    assert batches >= 20
    assert batches > lay_out_commits(KEEP, PLAIN)[1]


def test_a_candidate_says_how_often_the_application_commits():
    by_records = Candidate(name="a", config=ON, commit_every="200 records")
    places, _ = lay_out_commits(by_records, PLAIN)
    assert places == [200 + 201 * number for number in range(10)]
    by_time, _ = lay_out_commits(Candidate(name="b", config=ON, commit_every="100 ms"), PLAIN)
    assert len(by_time) > 10
    check_producer(by_records)


def test_a_candidate_without_transactional_id_does_not_commit():
    off = Candidate(name="off", config={"transactional.id": None})
    assert lay_out_commits(off, TRANSACTIONAL, (500, 900))[0] == []
    assert lay_out_commits(Candidate(name="newer", client="4.1.1"), TRANSACTIONAL, (500, 900))[0] != []


@pytest.mark.parametrize(
    ("candidate", "baseline", "is_doubted"),
    [
        (Candidate(name="on", config=ON), PLAIN, True),
        (Candidate(name="on, told", config=ON, commit_every="100 ms"), PLAIN, False),
        (Candidate(name="as recorded", client="4.1.1"), TRANSACTIONAL, False),
        (Candidate(name="off", config={"transactional.id": None}), TRANSACTIONAL, False),
    ],
)
def test_commits_that_nobody_names_are_a_doubt(candidate, baseline, is_doubted):
    kinds = [one.kind for one in resolve_candidate(candidate, baseline, None).assumptions]
    assert (Caveat.COMMITS_UNKNOWN in kinds) is is_doubted


@pytest.mark.parametrize("version", ["3.2.3", "4.1.1"])
def test_a_candidate_that_sets_transactional_id_drops_what_kafka_refuses_beside_it(version):
    """The producer's own `enable.idempotence=false` and `acks=1`, not the candidate's."""
    own = make_baseline(version="3.2.3", linger_ms=1000, enable_idempotence="false", acks="1")
    resolved = resolve_candidate(Candidate(name="on", client=version, config=ON), own, None).resolved
    assert (resolved.settings.is_transactional, resolved.settings.is_idempotent) == (True, True)
    with pytest.raises(ConfigError, match="idempotence is off"):
        resolve_candidate(Candidate(name="on", config={**ON, "enable.idempotence": "false"}), own, None)


def test_an_interval_without_transactions_has_no_effect_and_says_so():
    candidate = Candidate(name="every", commit_every="100 ms")
    assert lay_out_commits(candidate, PLAIN)[0] == []
    told = [one.text for one in resolve_candidate(candidate, PLAIN, None).assumptions]
    assert told == ["commit_every: without effect, as transactional.id is not set"]
    assert lay_out_commits(candidate, TRANSACTIONAL)[0] != []


@pytest.mark.parametrize(("version", "adds"), [("3.9.1", True), ("4.0.0", False)])
def test_clients_before_4_0_add_partitions_by_a_request(version, adds):
    candidate = Candidate(name="on", client=version, config=ON, commit_every="100 ms")
    assert resolve_candidate(candidate, PLAIN, None).resolved.settings.adds_partitions is adds


@pytest.mark.parametrize(("leader", "told"), [(1, [5, 0, 5]), (-1, [5, 5, 5])])
def test_a_producers_commits_are_found_once_and_handed_on_once(monkeypatch, leader, told):
    """A producer that mirrors a thousand topics would have them sorted, and sent to the driver, a thousand times."""
    asked = []
    monkeypatch.setattr(
        session_traffic, "find_commits", lambda _, producer_id: asked.append(producer_id) or np.arange(5)
    )
    monkeypatch.setattr(sessions, "deal_tasks", lambda _, pieces, __: [pieces])
    monkeypatch.setattr(sessions, "run_values", lambda _, tasks, work: [one for task in tasks for one in work(task)])
    monkeypatch.setattr(sessions, "identify_baseline", lambda *_, **__: PLAIN)
    start_ms = int(START.timestamp() * 1000)
    kinds = {"base_timestamp": pa.timestamp("us", "UTC"), "max_timestamp": pa.timestamp("us", "UTC")}
    rows = [
        {"topic": topic, "topic_id": "", "partition": 0, "leader_id": 1, "producer_id": producer_id, "producer_epoch": 0,
         "record_count": 7, "size_bytes": 700, "codec": "none", "is_control": False, "base_timestamp": START,
         "max_timestamp": START, "base_offset": 0}
        for topic, producer_id in (("orders", 7), ("orders", 9), ("returns", 7))
    ]  # fmt: skip
    batches = pa.table({name: pa.array([row[name] for row in rows], kinds.get(name)) for name in rows[0]})
    recording = Recording(
        windows=(),
        window_ms=120_000,
        leaders={(start_ms, "orders", ""): {0: leader}, (start_ms, "returns", ""): {0: 1}},
        sessions={(start_ms, 7, 0): 14, (start_ms, 9, 0): 7},
    )
    found = sessions.find_sessions(
        None, recording, {}, sessions.SessionReaders(lambda *_: as_table(make_rows()), lambda *_: batches)
    )
    assert [(one.producer_id, one.topic) for one in found] == [(7, "orders"), (7, "returns"), (9, "orders")]
    assert [len(one.commits_ms) for one in found] == told
    assert asked == [7, 9]
    assert len(plan._join_topics(found[:2]).commits_ms) == len(plan._join_topics(found[1::-1]).commits_ms) == 5


@pytest.mark.parametrize("every", ["200", "0 ms", "ms", "1 s"])
def test_a_wrong_interval_is_refused(every):
    with pytest.raises(ValidationError):
        Candidate(name="on", config=ON, commit_every=every)

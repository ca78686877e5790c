"""Units simulated: nothing is lost, keys lie where they lay, and where keyless records lay says nothing."""

import dataclasses

import numpy as np
import pytest

from pipeline.calibration.caveats import Origin
from pipeline.calibration.service.model import Parameter, assume_service
from pipeline.config.replay import DEFAULT_CANDIDATES, Candidate, CandidateBroker
from pipeline.errors import ConfigError
from pipeline.replay.recorded import find_too_large
from pipeline.replay.simulated.arrivals import NO_HASHES, KeyHashes, prepare_arrivals
from pipeline.replay.simulated.plan import plan_simulations
from pipeline.replay.simulated.runs import (
    CELL_BATCHES,
    CELL_BYTES,
    CELL_LEADER,
    CELL_LOG_BYTES,
    CELL_RECORDS,
    add_runs,
    run_group,
)
from pipeline.simulator.scenario.measured import MEASURED_COSTS
from pipeline.stages import deal
from tests.simulated_sessions import delayed
from tests.unit.replay.session_groups import lay_out, make_baseline, make_group, make_traffic

STICKY = Candidate(name="sticky", partitioner="java-sticky-2.4")
UNIFORM = Candidate(name="uniform", partitioner="java-builtin-uniform")


def simulate(traffics, candidate=None, *, seed=1, hashes=NO_HASHES, **unit):
    made = make_group(*traffics, **unit)
    arrivals = prepare_arrivals(made, traffics)
    return run_group(lay_out(made, arrivals, candidate, hashes), arrivals, seed)


def told(run):
    return run.cells.tolist(), run.sent_count, run.last_done_ns, run.latencies.counts.tolist(), run.latencies.sum_ns


@pytest.mark.parametrize("candidate", [None, *(one for one in DEFAULT_CANDIDATES if one.name != "sarama")])
def test_every_candidate_sends_every_record_once(candidate):
    traffics = [make_traffic(key_count=30, keyed_ratio=0.4), make_traffic(2_000, topic="returns", seed=2)]
    runs = simulate(traffics, candidate)
    for run, traffic in zip(runs, traffics, strict=True):
        assert run.sent_count == len(traffic) == run.cells[:, CELL_RECORDS].sum()
        assert run.failed_count == run.refused_count == 0
        assert run.latencies.count == len(traffic)
        encoded = int(traffic.body_bytes.sum()) + 2 * len(
            traffic
        )  # a length of two bytes each; larger deltas take more
        assert encoded <= run.cells[:, CELL_BYTES].sum() <= encoded * 1.02
        assert (run.cells[:, CELL_LOG_BYTES] - run.cells[:, CELL_BYTES] == 61 * run.cells[:, CELL_BATCHES]).all()


@pytest.mark.parametrize("candidate", [None, STICKY, UNIFORM, Candidate(name="x2", partitions="x2")])
def test_the_recorded_partition_of_keyless_records_is_no_input(candidate):
    """The law: shuffled among the keyless records, or all set to one value, it changes nothing at all."""
    traffic = make_traffic(key_count=30, keyed_ratio=0.3)
    rng, keyless = np.random.default_rng(3), ~traffic.is_keyed
    shuffled, constant = traffic.partition.copy(), traffic.partition.copy()
    shuffled[keyless] = rng.permutation(shuffled[keyless])
    constant[keyless] = 2
    assert (shuffled != traffic.partition).any()
    first = told(simulate([traffic], candidate)[0])
    for partition in (shuffled, constant):
        assert told(simulate([dataclasses.replace(traffic, partition=partition)], candidate)[0]) == first


def test_keys_in_use_lie_where_they_lay():
    traffic = make_traffic(key_count=30, keyed_ratio=1.0)
    cells = simulate([traffic])[0].cells
    assert cells[:, CELL_RECORDS].tolist() == np.bincount(traffic.partition, minlength=3).tolist()


@pytest.mark.parametrize("is_empty", [False, True])
def test_keys_go_by_their_hashes_to_more_partitions(is_empty):
    """murmur2 of a Java client: the sign bit off, modulo the count; an empty key has a hash like any."""
    traffic = make_traffic(key_count=50, keyed_ratio=1.0)
    hashes = np.random.default_rng(6).integers(0, 2**32, 50)  # the first key moves, too
    stored = KeyHashes(np.arange(50), np.full(50, is_empty), {"murmur2": hashes})
    cells = simulate([traffic], Candidate(name="x4", partitions=12), hashes=stored)[0].cells
    expected = np.bincount((hashes[traffic.key_index] & 0x7FFFFFFF) % 12, minlength=12)
    assert cells[:, CELL_RECORDS].tolist() == expected.tolist()


def test_keys_without_a_hash_stay():
    traffic = make_traffic(key_count=50, keyed_ratio=1.0)
    cells = simulate([traffic], Candidate(name="x4", partitions=12))[0].cells
    assert cells[:, CELL_RECORDS].tolist() == np.bincount(traffic.partition, minlength=12).tolist()


def test_a_slow_broker_draws_the_old_partitioner_and_not_the_new_one():
    """KIP-480 fills the batches of a broker that answers late; KIP-794 hardly does."""
    traffic = make_traffic(60_000)
    old, new = (simulate([traffic], one, delays={1: 20.0})[0].cells[:, CELL_LOG_BYTES] for one in (None, UNIFORM))
    assert old[1] / old.sum() > 0.6
    assert 0.25 < new[1] / new.sum() < 0.5


def test_a_candidate_changes_brokers():
    traffic = make_traffic(20_000)
    slow = Candidate(name="slow", brokers={2: CandidateBroker(delay_ms=30.0)})
    run, slower = simulate([traffic])[0], simulate([traffic], slow)[0]
    assert slower.latencies.find_quantile_ns(0.9) > run.latencies.find_quantile_ns(0.9) + 20_000_000
    assert run.cells[:, CELL_LEADER].tolist() == slower.cells[:, CELL_LEADER].tolist() == [0, 1, 2]


ALIKE = Candidate(name="alike", brokers_alike=True)


def test_a_slow_broker_that_answers_like_the_others_gets_its_part():
    traffic = make_traffic(60_000)
    now, then = (simulate([traffic], one, delays={1: 20.0})[0].cells[:, CELL_LOG_BYTES] for one in (None, ALIKE))
    assert now[1] / now.sum() > 0.6
    assert 0.3 < then[1] / then.sum() < 0.37


def test_brokers_that_answer_alike_are_replayed_as_they_are():
    unit = make_group(make_traffic())
    slow = dataclasses.replace(unit, services={**unit.services, 1: delayed(1, 20.0)})
    near = dataclasses.replace(unit, services={**unit.services, 1: delayed(1, 4.0)})
    assert [sorted(one.healed) for one in (unit, slow, near)] == [[], [1], []]
    plans = [plan_simulations([one], (ALIKE,), (1,)) for one in (unit, slow, near)]
    assert [plan.variants[0][1].same_as for plan in plans] == [0, 1, 0]


def brokers_by_seed(model, candidate=None):
    """A unit's brokers by seed, with another service model of broker 1."""
    traffic = make_traffic(10)
    made = make_group(traffic)
    made = dataclasses.replace(made, services={**made.services, 1: model})
    planned = lay_out(made, prepare_arrivals(made, [traffic]), candidate, NO_HASHES)
    return [planned.build(seed).brokers for seed in range(200)]


def test_every_seed_draws_a_delay_from_its_range():
    """The same under every candidate; half of them on either side of the fitted one, and none beyond the ends."""
    fitted = dataclasses.replace(assume_service(1), delay_ms=Parameter(20.0, 18.0, 22.0, Origin.INFERRED))
    drawn, others = brokers_by_seed(fitted), brokers_by_seed(fitted, UNIFORM)
    delays = np.array([brokers[1].delay_ns.values[0] for brokers in drawn]) / 1e6
    assert delays.min() > 18
    assert delays.max() < 22
    assert len(set(delays.tolist())) == 200
    assert abs(np.median(delays) - 20) < 0.3
    assert delays.std() == pytest.approx(4 / np.sqrt(24), rel=0.15)
    assert [brokers[1] for brokers in others] == [brokers[1] for brokers in drawn]
    assert {brokers[0].delay_ns.values for brokers in drawn} == {(0,)}


def test_what_a_clients_threads_cost_is_open():
    """Nobody timed them on the producer's machine: half to three times what was measured elsewhere, under any candidate."""
    traffic = make_traffic(10)
    made = make_group(traffic)
    arrivals = prepare_arrivals(made, [traffic])
    planned = [lay_out(made, arrivals, candidate, NO_HASHES) for candidate in (None, UNIFORM)]
    costs = [[one.build(seed).producers[0].costs for seed in range(400)] for one in planned]
    assert costs[0] == costs[1]
    ratios = np.array([one.loop_ns for one in costs[0]]) / MEASURED_COSTS.loop_ns
    assert 0.5 <= ratios.min() < 0.55
    assert 2.9 < ratios.max() <= 3
    assert all(0.85 < np.median(ratios[first : first + 10]) < 1.4 for first in range(390))


@pytest.mark.parametrize(
    ("model", "candidate"),
    [
        (delayed(1, 20.0), None),
        (assume_service(1), Candidate(name="slow", brokers={1: CandidateBroker(delay_ms=20)})),
        (
            dataclasses.replace(assume_service(1), delay_ms=Parameter(5.0, 1.0, 9.0, Origin.INFERRED)),
            Candidate(name="slow", brokers={1: CandidateBroker(delay_ms=20)}),
        ),
    ],
)
def test_a_delay_that_somebody_named_is_not_drawn(model, candidate):
    assert {brokers[1].delay_ns.values for brokers in brokers_by_seed(model, candidate)} == {(20_000_000,)}


def test_seeds_differ_and_repeat():
    traffic = make_traffic()
    assert told(simulate([traffic], seed=1)[0]) == told(simulate([traffic], seed=1)[0])
    assert told(simulate([traffic], seed=1)[0]) != told(simulate([traffic], seed=2)[0])


def test_a_units_chance_does_not_depend_on_what_else_is_replayed():
    traffic = make_traffic()
    unit, moved = make_group(traffic), make_group(traffic, number=5)
    arrivals = prepare_arrivals(unit, [traffic])
    runs = [run_group(lay_out(one, arrivals, None, NO_HASHES), arrivals, 3)[0] for one in (unit, moved)]
    assert told(runs[0]) == told(runs[1])


def test_topics_of_one_session_share_its_requests_and_add_up():
    traffics = [
        make_traffic(topic="a"),
        make_traffic(topic="b", seed=2),
        make_traffic(topic="b", producer_id=9, seed=3),
    ]
    runs = simulate(traffics)
    assert [run.sent_count for run in runs] == [6_000, 12_000]
    together = add_runs(runs)
    assert together.sent_count == 18_000
    assert together.latencies.count == 18_000
    assert together.cells[:, CELL_RECORDS].sum() == 18_000


def test_candidates_that_make_the_same_run_are_run_once():
    unit = make_group(make_traffic(), baseline=make_baseline(linger_ms=5))
    plan = plan_simulations([unit], DEFAULT_CANDIDATES, (1, 2))
    same = {one.name: plan.variants[0][number].same_as for number, one in enumerate(DEFAULT_CANDIDATES, 1)}
    assert same["java-sticky-2.4"] == same["java-sticky-2.4, linger 5"] == 0  # what is in use
    assert same["java-builtin"] == same["java-builtin, linger 5"] != 0
    assert same["keys-ignored"] == same["java-builtin"]  # without keys there is nothing to ignore
    assert len({run[1] for run in plan.list_runs()}) == len(plan.list_runs()) / 2


def test_runs_are_dealt_whole_however_many_tasks():
    units = [make_group(make_traffic(count), number=number) for number, count in enumerate((100, 90_000, 5_000))]
    plan = plan_simulations(units, DEFAULT_CANDIDATES, range(1, 4))
    for task_count in (1, 2, 7, 1000):
        dealt = deal(plan.list_runs(), lambda run: units[run.group].record_count, task_count)
        assert [run for task in dealt for run in task] == plan.list_runs()


@pytest.mark.parametrize(("count", "reason"), [(1_500, ""), (1_501, "3,001 partitions in all, too many to simulate")])
def test_topics_of_too_many_partitions_are_not_simulated(count, reason):
    unit = make_group(make_traffic(), make_traffic(topic="returns"))
    topics = [
        dataclasses.replace(topic, leaders=(1,) * size) for topic, size in zip(unit.topics, (1_500, count), strict=True)
    ]
    plan = plan_simulations([dataclasses.replace(unit, topics=tuple(topics))], (STICKY,), (1,))
    assert [bool(variant.producers) for variant in plan.variants[0]] == [not reason] * 2
    assert all(variant.reason.endswith(reason) for variant in plan.variants[0])


@pytest.mark.parametrize(("count", "is_simulated"), [(20, True), (21, False)])
def test_producers_that_wait_on_one_broker_have_no_more_queues_than_memory_holds(count, is_simulated):
    """Each has one for each partition."""
    unit = make_group(*(make_traffic(1, producer_id=number) for number in range(count)))
    topics = tuple(dataclasses.replace(topic, leaders=(1,) * 1_000) for topic in unit.topics)
    plan = plan_simulations([dataclasses.replace(unit, topics=topics)], (STICKY,), (1,))
    assert [bool(variant.producers) for variant in plan.variants[0]] == [is_simulated] * 2


@pytest.mark.parametrize(
    ("partitions", "count", "is_simulated"),
    [("x2", 1, True), ("x7", 1, False), ("6000", 1, True), ("6001", 1, False), ("2000", 20, True), ("2001", 20, False)],
)
def test_a_candidate_with_too_many_partitions_is_not_simulated(partitions, count, is_simulated):
    """Memory goes with the partitions that it asks for."""
    unit = make_group(*(make_traffic(1, producer_id=number) for number in range(count)))
    topics = tuple(dataclasses.replace(topic, leaders=(1,) * 1_000) for topic in unit.topics)
    more = Candidate(name="more", partitions=partitions)
    plan = plan_simulations([dataclasses.replace(unit, topics=topics)], (more,), (1,))
    assert [bool(variant.producers) for variant in plan.variants[0]] == [True, is_simulated]


def test_a_topic_of_too_many_partitions_is_not_replayed():
    """One folder of a large number makes a topic large."""
    leaders = {(0, "small", ""): {0: 1, 2_999: 1}, (0, "large", ""): {0: 1, 3_000: 1}}
    assert find_too_large(leaders) == {(0, "large", ""): 3_001}


def test_what_is_not_known_is_not_simulated():
    unit = make_group(make_traffic(), baseline=make_baseline(strategy=None))
    plan = plan_simulations([unit], (STICKY, Candidate(name="sarama", partitioner="sarama-hash")), (1,))
    in_use, sticky, sarama = plan.variants[0]
    assert (in_use.producers, in_use.reason) == ((), "made up")
    assert sticky.producers
    assert not sarama.producers
    assert "sarama-hash" in sarama.reason
    arrivals = prepare_arrivals(unit, [make_traffic()])
    with pytest.raises(ConfigError):
        lay_out(unit, arrivals, None, NO_HASHES)

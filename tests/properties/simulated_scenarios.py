"""Small scenarios made by Hypothesis, with everything in them that the simulator knows."""

import numpy as np
from hypothesis import strategies as st

from pipeline.simulator.clients.client import MS, SECOND, ClientFamily, Compression, Settings, ThreadCosts
from pipeline.simulator.distributions import ALIKE, Distribution, Steps
from pipeline.simulator.engine.batches import measure_body_bytes
from pipeline.simulator.engine.partitioners import Placement
from pipeline.simulator.scenario.scenario import (
    ErrorWindow,
    Gaps,
    OnOff,
    PerfTest,
    Producer,
    Recorded,
    Scenario,
    Service,
    SimulatedBroker,
    Target,
    Topic,
    Traffic,
)

LIBRDKAFKA_PLACEMENTS = ["TIMED_STICKY", "RANDOM"]
JAVA_PLACEMENTS = [placement.name for placement in Placement if placement.name != "TIMED_STICKY"]


@st.composite
def distributions(draw, low, high):
    """Whole numbers from a range: one value, a few quantiles, or exponential."""
    kind = draw(st.sampled_from(["constant", "quantiles", "exponential"]))
    if kind == "constant":
        return Distribution.constant(draw(st.integers(low, high)))
    if kind == "exponential":
        return Distribution.exponential(draw(st.integers(max(low, 1), max(high // 4, low, 1))))
    values = sorted(draw(st.lists(st.integers(low, high), min_size=3, max_size=3)))
    return Distribution(tuple(zip((0.0, draw(st.sampled_from([0.5, 0.9, 0.99])), 1.0), values, strict=True)))


def factors():
    """By which one run differs from another."""
    return st.sampled_from([ALIKE, ALIKE, Distribution(((0.0, 500_000), (1.0, 2_000_000)))])


@st.composite
def brokers(draw, broker_id):
    service = Service(
        request_ns=draw(distributions(0, 3 * MS)),
        idle=draw(st.sampled_from([(), ((0, Distribution.constant(MS)),), ((MS, Distribution.exponential(MS)),)])),
        partition_ns=draw(st.integers(0, 100_000)),
        kib_ns=draw(st.integers(0, 20_000)),
        warm_up_percent=draw(st.sampled_from([100, 300])),
        warm_up_ns=draw(st.sampled_from([0, 50 * MS])),
        run_to_run_ppm=draw(factors()),
    )
    errors = draw(st.sampled_from([(), (), (ErrorWindow(0, 30 * MS), ErrorWindow(40 * MS, 80 * MS, 300_000))]))
    return SimulatedBroker(
        broker_id=broker_id,
        service=service,
        rack=draw(st.sampled_from(["", "a", "a", "b"])),
        handler_count=draw(st.sampled_from([0, 0, 1, 2])),
        delay_ns=draw(st.sampled_from([Steps(), Steps.constant(20 * MS), Steps((0, 30 * MS), (25 * MS, 0))])),
        oversleep_ns=draw(distributions(0, MS)),
        replica_wait_ns=draw(distributions(0, 2 * MS)),
        quota_bytes_per_s=draw(st.sampled_from([0, 0, 2000])),
        errors=errors,
    )


@st.composite
def topics(draw, broker_count, name):
    leaders = draw(st.lists(st.integers(0, broker_count - 1), min_size=1, max_size=6))
    if len(leaders) > 1 and draw(st.integers(0, 5)) == 0:
        leaders[draw(st.integers(0, len(leaders) - 1))] = -1
    available = [partition for partition, leader in enumerate(leaders) if leader >= 0]
    listed = tuple(draw(st.permutations(available))) if draw(st.booleans()) else ()
    return Topic(name, tuple(leaders), listed)


@st.composite
def targets(draw, all_topics):
    topic = draw(st.integers(0, len(all_topics) - 1))
    partition = draw(st.sampled_from([-1, -1, *range(len(all_topics[topic].leaders))]))
    return Target(
        topic=topic,
        weight=draw(st.integers(1, 5)),
        partition=partition,
        key_bytes=draw(st.sampled_from([-1, 0, 8])),
        is_explicit=partition >= 0 and draw(st.booleans()),
    )


@st.composite
def traffics(draw, all_topics):
    kind = draw(st.sampled_from(["perf test", "gaps", "on and off", "recorded"]))
    chosen = tuple(draw(st.lists(targets(all_topics), min_size=1, max_size=3)))
    record_count = draw(st.integers(1, 150))
    if kind == "perf test":
        arrivals = PerfTest(draw(st.sampled_from([0, 300, 2048, 20_000])), draw(distributions(0, 300_000)))
    elif kind == "gaps":
        arrivals = Gaps(draw(distributions(0, 3 * MS)))
    elif kind == "on and off":
        arrivals = OnOff(
            draw(distributions(1000, MS // 2)), draw(distributions(MS, 10 * MS)), draw(distributions(0, 10 * MS))
        )
    else:
        rng = np.random.default_rng(draw(st.integers(0, 1000)))
        target = rng.integers(0, len(chosen), record_count)
        partition_counts = np.array([len(all_topics[one.topic].leaders) for one in chosen])
        arrivals = Recorded(
            due_ns=np.sort(rng.integers(0, 60 * MS, record_count)),
            body_bytes=np.array([measure_body_bytes(-1, int(size)) for size in rng.integers(0, 900, record_count)]),
            partition=rng.integers(-1, partition_counts[target]),
            target=target,
        )
    return Traffic(
        arrivals=arrivals,
        value_bytes=draw(distributions(0, draw(st.sampled_from([10, 600, 2500])))),
        targets=chosen,
        record_count=record_count,
        start_ns=draw(st.sampled_from([0, 5 * MS + 300])),
        end_ns=draw(st.sampled_from([0, 0, 40 * MS])),
    )


@st.composite
def settings(draw, family):
    is_java = family is ClientFamily.JAVA
    batch_bytes = draw(st.sampled_from([0, 1, 300, 2000, 16_384]))
    smallest = max(batch_bytes, 3000)
    return Settings(
        placement=draw(st.sampled_from(JAVA_PLACEMENTS if is_java else LIBRDKAFKA_PLACEMENTS)),
        is_adaptive=draw(st.booleans()),
        availability_timeout_ns=draw(st.sampled_from([0, 0, MS, 5 * MS])),
        client_rack=draw(st.sampled_from(["", "a", "a", "b", "nowhere"])) if is_java else "",
        ignores_keys=draw(st.booleans()),
        sticky_linger_ns=draw(st.sampled_from([0, MS, 10 * MS])),
        batch_bytes=batch_bytes,
        batch_record_count=0 if is_java else draw(st.sampled_from([0, 1, 7])),
        linger_ns=draw(st.sampled_from([0, 0, MS, 5 * MS])),
        buffer_memory_bytes=draw(st.sampled_from([smallest, 3 * smallest, 33_554_432])),
        max_block_ns=draw(st.sampled_from([0, 7 * MS, 60 * SECOND])),
        max_request_bytes=draw(st.sampled_from([2000, 20_000, 1_048_576])),
        max_in_flight_count=draw(st.sampled_from([1, 2, 5])),
        acks=draw(st.sampled_from([-1, 0, 1])),
        is_idempotent=draw(st.booleans()),
        retry_count=draw(st.sampled_from([0, 2, 2_147_483_647])),
        backoff_ns=draw(st.sampled_from([0, 10 * MS])),
        backoff_max_ns=draw(st.sampled_from([10 * MS, 50 * MS])),
        backoff_jitter_ppm=draw(st.sampled_from([0, 200_000])),
        request_timeout_ns=draw(st.sampled_from([15 * MS, 30 * SECOND])),
        delivery_timeout_ns=draw(
            st.sampled_from([45 * MS, 300 * MS])
        ),  # a head that must wait is looked at all the time
        reconnect_backoff_ns=draw(st.sampled_from([0, 10 * MS])),
        drains_from_shared_index=draw(st.booleans()),
        mutes_partitions=draw(st.booleans()),
        drains_ready_only=draw(st.booleans()),
        throttles_itself=draw(st.booleans()),
        compression=draw(st.sampled_from([None, None, Compression(300_000, 10), Compression(1_100_000, 20)])),
    )


@st.composite
def producers(draw, all_topics, name):
    family = draw(st.sampled_from(list(ClientFamily)))
    costs = ThreadCosts(
        append_ns=draw(st.sampled_from([1, 1000, 20_000])),
        wake_call_ns=draw(distributions(0, 40_000)),
        wake_ns=draw(distributions(0, 200_000)),
        response_wake_ns=draw(distributions(0, 200_000)),
        loop_ns=draw(st.sampled_from([9_999, 30_000])),
        request_ns=draw(st.sampled_from([0, 20_000])),
        timer_ns=draw(st.sampled_from([0, 100_000])),
        metadata_ns=draw(st.sampled_from([0, 3 * MS])),
        connect_ns=draw(st.sampled_from([0, MS])),
        transit_ns=draw(st.sampled_from([0, 50_000])),
        run_to_run_ppm=draw(factors()),
    )
    return Producer(
        name=name,
        traffic=tuple(draw(st.lists(traffics(all_topics), min_size=0 if draw(st.booleans()) else 1, max_size=3))),
        family=family,
        settings=draw(settings(family)),
        costs=costs,
    )


@st.composite
def scenarios(draw):
    """A scenario of up to three brokers, two topics, three producers and some hundred records."""
    broker_count = draw(st.integers(1, 3))
    all_topics = tuple(draw(topics(broker_count, f"topic-{n}")) for n in range(draw(st.integers(1, 2))))
    return Scenario(
        name="made",
        brokers=tuple(draw(brokers(n)) for n in range(broker_count)),
        topics=all_topics,
        producers=tuple(draw(producers(all_topics, f"producer-{n}")) for n in range(draw(st.integers(1, 3)))),
    )

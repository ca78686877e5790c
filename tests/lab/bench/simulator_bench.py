"""The simulator's kernel against its reference model in the same run: `python -m tests.lab.bench.simulator_bench`.

Records per second are those of one core: processor time of the one thread. Record latencies are counted throughout; traces
are off. Both sides lay the scenario out and read the result.
"""

import time
from dataclasses import replace

from pipeline.environment import count_cores
from pipeline.simulator.engine.result import QueueCounter
from pipeline.simulator.engine.simulate import simulate
from pipeline.simulator.scenario.scenario import Topic
from pipeline.simulator.scenario.scenario_file import load_scenario
from pipeline.simulator.summary import summarise_variants
from tests.lab.bench.figures import make_parser, print_figures
from tests.oracles.simulator.run import simulate_reference

EXPERIMENTS = ("kip-794-1mb", "kip-794-2mb")
WIDTHS = ((3, 3), (12, 3), (30, 30), (100, 3), (100, 30))
SEED_COUNT = 20


def with_records(scenario, record_count):
    """The scenario with so many records from each thread."""
    producers = tuple(
        replace(producer, traffic=tuple(replace(traffic, record_count=record_count) for traffic in producer.traffic))
        for producer in scenario.producers
    )
    return replace(scenario, producers=producers)


def with_width(scenario, partition_count, broker_count):
    """The scenario with partitions dealt out over more brokers, all but the first as fast as its second one."""
    brokers = tuple(replace(scenario.brokers[min(index, 1)], broker_id=index) for index in range(broker_count))
    leaders = tuple(partition % broker_count for partition in range(partition_count))
    topics = (Topic(scenario.topics[0].name, leaders),)
    return replace(scenario, brokers=brokers, topics=topics)


def time_records(run, scenario, seeds):
    """Records per second of processor time, of the least disturbed seed."""
    rates = []
    for seed in seeds:
        started = time.thread_time()
        result = run(scenario, seed)
        seconds = time.thread_time() - started
        rates.append(int(result.queues[:, QueueCounter.DONE_RECORDS].sum()) / seconds)
    return max(rates)


def measure_variants(name, *, quick):
    """Kernel and reference on each variant of an experiment; the reference on a tenth of the records."""
    for variant in load_scenario(name).variants:
        record_count = variant.scenario.producers[0].traffic[0].record_count
        few = with_records(variant.scenario, record_count // (40 if quick else 10))
        kernel = time_records(simulate, variant.scenario, range(2 if quick else 5))
        reference = time_records(simulate_reference, few, range(1))
        yield (
            f"{name} {variant.name}",
            {"million_records_per_s": kernel / 1e6, "reference_records_per_s": reference, "ratio": kernel / reference},
        )


def measure_widths(*, quick):
    """The kernel on more partitions and brokers, over three on three; adaptive, which looks at all queues."""
    variant = next(v for v in load_scenario(EXPERIMENTS[0]).variants if v.name == "adaptive")
    base = None
    for partition_count, broker_count in WIDTHS:
        # ten times the records: what is laid out once weighs less
        scenario = with_width(
            with_records(variant.scenario, 300_000 if quick else 1_200_000), partition_count, broker_count
        )
        rate = time_records(simulate, scenario, range(1 if quick else 3))
        base = base or rate
        yield (
            f"{partition_count} on {broker_count}",
            {"million_records_per_s": rate / 1e6, "slower_than_3_on_3": base / rate},
        )


def measure_seeds():
    """All variants of an experiment with twenty seeds, over the cores there are."""
    variants = load_scenario(EXPERIMENTS[0]).variants
    started = time.perf_counter()
    summarise_variants(variants, range(SEED_COUNT))
    seconds = time.perf_counter() - started
    return {"variants": len(variants), "seeds": SEED_COUNT, "cores": count_cores(), "wall_s": seconds}


def measure(*, quick):
    """Every figure of the simulator's speed, as {name: {figure: value}}."""
    for name in EXPERIMENTS:
        yield from measure_variants(name, quick=quick)
    yield from measure_widths(quick=quick)
    yield f"{EXPERIMENTS[0]} all", measure_seeds()


def main():
    arguments = make_parser(__doc__, quick="fewer rounds, shorter runs").parse_args()
    print_figures(measure(quick=arguments.quick), as_json=arguments.json)


if __name__ == "__main__":
    main()

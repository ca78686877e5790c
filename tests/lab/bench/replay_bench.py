"""An hour of keyless traffic through candidates and seeds, from `silver.arrivals`: `python -m tests.lab.bench.replay_bench`.

The arrivals are synthetic and labelled so: one producer without keys, records at independent random times, as nobody
recorded them; the layout is that of the table. The baseline is the simulator alone: each candidate with one seed, in this
process, without Spark, files or sums.
"""

import shutil
import time
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from pipeline.calibration.caveats import Origin
from pipeline.calibration.partitioner.baseline import Baseline
from pipeline.calibration.partitioner.settings import Setting
from pipeline.calibration.session_traffic import iter_sessions
from pipeline.calibration.within_ms import Pattern
from pipeline.config.pipeline_config import PipelineConfig, Spark
from pipeline.config.replay import Candidate
from pipeline.jobs.replay.load import make_readers
from pipeline.model.window import TimeWindow
from pipeline.replay.metrics import SessionMetrics
from pipeline.replay.recorded import SLOTS, ProducerSession, Recording
from pipeline.replay.simulated.arrivals import NO_HASHES, prepare_arrivals
from pipeline.replay.simulated.plan import make_groups, plan_simulations
from pipeline.replay.simulated.runs import run_group, simulate_runs
from pipeline.replay.simulated.scenario import lay_out_group
from pipeline.replay.topics import list_topics
from pipeline.runs import plan_runs
from pipeline.sources import kinds  # noqa: F401  (makes them known to the configuration)
from pipeline.stages import Staging, unpack_value
from pipeline.storage.locks import open_staging_folder
from pipeline.storage.session import create_session, stop_session
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.tables.keys import KEY_HASHES
from pipeline.tables.silver import ARRIVALS, RECORD_BATCHES
from tests.lab.artifacts import cache_directory
from tests.lab.bench.figures import make_parser, print_figures
from tests.lab.bench.processes import PeakMemory
from tests.simulated_sessions import delayed

CLUSTER, TOPIC, TOPIC_ID = "synthetic", "orders", "AAAAAAAAAAAAAAAAAAAAAA"
FIRST_MS = 1_767_225_600_000  # 2026-01-01
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
PARTITIONS, BROKERS = 12, 3
CORES, ALONE_MINUTES = 2, 6
SLOW_BROKER, DELAY_MS = 1, 20.0
CANDIDATES = (
    Candidate(name="java-builtin-uniform", partitioner="java-builtin-uniform"),
    Candidate(name="java-builtin", partitioner="java-builtin"),
    Candidate(name="java-builtin, linger 5", partitioner="java-builtin", config={"linger.ms": 5}),
    Candidate(name="java-round-robin-3.9.2", partitioner="java-round-robin-3.9.2"),
)
"""And what is in use."""


def make_arrivals(warehouse, rate_per_s):
    """Writes an hour of arrivals, a row per minute, unless they are there."""
    done = warehouse / "done"
    if done.exists():
        return
    shutil.rmtree(warehouse, ignore_errors=True)
    ensure_tables(warehouse, [ARRIVALS, RECORD_BATCHES, KEY_HASHES])
    count = 60 * rate_per_s
    rows = []
    for minute in range(HOUR_MS // MINUTE_MS):
        rng = np.random.default_rng(minute)
        at_ms = np.sort(rng.integers(0, MINUTE_MS, count)).astype(np.int32)
        rows.append(
            {
                "minute_start": datetime.fromtimestamp((FIRST_MS + minute * MINUTE_MS) / 1000, UTC),
                "gap_ms": np.diff(at_ms, prepend=np.int32(0)),
                "body_bytes": rng.integers(200, 400, count).astype(np.int32),
                "partition": rng.integers(0, PARTITIONS, count).astype(np.int32),
                "key_index": np.full(count, -1, np.int32),
            }
        )
    shared = {
        "cluster": CLUSTER,
        "window_date": date(2026, 1, 1),
        "topic": TOPIC,
        "topic_id": TOPIC_ID,
        "keys": [],
        "window_start": datetime.fromtimestamp(FIRST_MS / 1000, UTC),
        "producer_id": 1,
        "producer_epoch": 0,
        "timestamp_type": "CreateTime",
        "part": 0,
        "record_count": count,
        "count_kind": "exact",
        "sampling_rate": 1.0,
        **dict.fromkeys(("unreadable_record_count", "aborted_record_count"), 0),
        **dict.fromkeys(("outlier_record_count", "late_record_count"), 0),
        "run_id": "synthetic",
    }
    lists = {"gap_ms": pa.int32(), "body_bytes": pa.int32(), "partition": pa.int32(), "key_index": pa.int32()}
    for row in rows:
        columns = {
            name: pa.array([value], pa.list_(lists[name])) if name in lists else [value] for name, value in row.items()
        }
        columns |= {
            name: pa.array([value], pa.list_(pa.int64())) if name == "keys" else [value]
            for name, value in shared.items()
        }
        write_deltalake(table_path(warehouse, ARRIVALS), pa.table(columns).select(ARRIVALS.column_names), mode="append")
    done.touch()


def describe_session(record_count):
    baseline = Baseline(
        *("java-sticky-2.4", "kafka-clients", "3.2.3", "3.0.1 to 3.2"),
        {"linger.ms": Setting("0", Origin.INFERRED)}, 1.0, "", Origin.INFERRED, "made up",
    )  # fmt: skip  # fields of a value, several a line
    return ProducerSession(
        start_ms=FIRST_MS, topic=TOPIC, topic_id=TOPIC_ID, producer_id=1, producer_epoch=0, record_count=record_count,
        keyless_count=record_count, pattern=Pattern.STEADY, bytes_by_broker={}, bytes_by_slot=np.zeros(SLOTS, np.int64), batch_count=0, baseline=baseline, compression=None,
        timestamp_type="CreateTime", counts={}, sampling_rate=1.0,
    )  # fmt: skip  # fields of a value, several a line


def simulate(staging, run, record_count):
    """What the job does from `silver.arrivals` on: the plan, and its runs by candidate and seed."""
    session = describe_session(record_count)
    models = {broker: delayed(broker, DELAY_MS if broker == SLOW_BROKER else 0.0) for broker in range(BROKERS)}
    leaders = {partition: partition % BROKERS for partition in range(PARTITIONS)}
    recording = Recording(windows=run.windows, window_ms=HOUR_MS, leaders={session.topic_window: leaders})
    groups = make_groups(recording, [session], {session.key: SessionMetrics(models)}, {})
    plan = plan_simulations(groups, run.config.candidates, run_seeds(run.config.replay.seeds))
    readers = make_readers(run, run.windows)
    parts = simulate_runs(staging, plan, read_arrivals=readers.sessions.arrivals, read_hashes=readers.read_hashes)
    (topic,) = list_topics(
        recording, keyed={}, sessions=[session], metrics={session.key: SessionMetrics(models)}, plan=plan
    )
    rows = parts.load().to_pylist()
    return plan, topic.merge_runs(
        (row["group"], row["candidate"], row["seed"], unpack_value(row["value"])) for row in rows
    )


def plan_run(warehouse, seeds):
    config = PipelineConfig.model_validate(
        {
            "warehouse": warehouse,
            "outbox": warehouse / "outbox",
            "candidates": [one.model_dump() for one in CANDIDATES],
            "replay": {"seeds": seeds},
            "clusters": {CLUSTER: {"sources": [{"kind": "log_directories", "paths": ["/nowhere"]}]}},
        }
    )
    (run,) = plan_runs(config, TimeWindow(FIRST_MS, FIRST_MS + HOUR_MS), run_id="bench", now_ms=FIRST_MS)
    return run


def simulate_alone(run, plan):
    """The simulator by itself on the first minutes, each candidate with one seed: records a second."""
    (traffic,) = iter_sessions(make_readers(run, run.windows).sessions.arrivals(FIRST_MS, [(1, 0)]))
    traffic = traffic.choose(traffic.elapsed_ms < ALONE_MINUTES * MINUTE_MS)
    group, variants = plan.groups[0], plan.variants[0]
    arrivals = prepare_arrivals(group, [traffic])
    started = time.perf_counter()
    for candidate, variant in zip(plan.candidates, variants, strict=True):
        run_group(lay_out_group(group, arrivals, candidate, variant.producers, NO_HASHES), arrivals, 1)
    return len(traffic) * len(variants) / (time.perf_counter() - started)


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--rate", type=int, default=10_000, help="records a second, for an hour")
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    warehouse = cache_directory().parent / f"bench/replay-{arguments.rate}"
    make_arrivals(warehouse, arguments.rate)
    record_count = arguments.rate * HOUR_MS // 1000
    run = plan_run(warehouse, arguments.seeds)
    spark = create_session(Spark(master=f"local[{CORES}]"), app_name="replay_bench")
    spark.range(10).mapInArrow(lambda batches: batches, "id long").count()  # the session is up, workers included
    with PeakMemory() as memory:
        started = time.perf_counter()
        with open_staging_folder(warehouse) as folder:
            plan, runs = simulate(Staging(spark, folder), run, record_count)
        seconds = time.perf_counter() - started
    stop_session(spark)
    assert {number: sorted(found) for number, found in runs.items()} == {
        number: list(run_seeds(arguments.seeds)) for number in range(1 + len(CANDIDATES))
    }
    assert all(one.sent_count == record_count for found in runs.values() for one in found.values())
    rate = record_count * len(runs) * arguments.seeds / seconds
    alone = simulate_alone(run, plan)
    figures = {
        "records": record_count, "candidates": len(runs), "seeds": arguments.seeds, "seconds": seconds, "simulated_records_per_s": rate,
        "alone_records_per_s": alone, "ratio_per_core": rate / CORES / alone, "peak_memory_mib": memory.most >> 20,
    }  # fmt: skip  # fields of a value, several a line
    print_figures([("replay of synthetic arrivals", figures)], as_json=arguments.json)


def run_seeds(count):
    return range(1, count + 1)


if __name__ == "__main__":
    main()

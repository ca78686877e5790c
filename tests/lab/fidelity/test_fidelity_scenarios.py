"""From a setting of the fidelity harness to the simulator's scenario."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pipeline.simulator.scenario.scenario import KEYLESS
from tests.lab.fidelity.arrivals import Series
from tests.lab.fidelity.compare import find_latency_bars
from tests.lab.fidelity.misses import KNOWN, explain
from tests.lab.fidelity.profile import LAB
from tests.lab.fidelity.recordings import Recordings, read_recordings, write_recordings
from tests.lab.fidelity.run import PartitionFigures, RealRun
from tests.lab.fidelity.settings import MIDDLE, NEW, OLD, Delay, PerfLoad, SeriesLoad, Setting
from tests.lab.fidelity.simulated import find_compressed_ppm, make_scenario

MS = 1_000_000


def make_run(setting, *, first_record_ms=0, batches=1400, rate=2000.0, foreign_cpu_s=0.0):
    """A real run that was not: broker 0 got half of the records."""
    count = sum(load.seconds for load in setting.loads) * 2048
    partitions = tuple(
        PartitionFigures(number, leader, int(count * (0.5 if number == 0 else 0.25)), batches, int(count * 300))
        for number, leader in enumerate(setting.leaders)
    )
    tools = tuple({"record_count": load.seconds * 2048, "throughput_records_per_s": rate} for load in setting.loads)
    return RealRun(setting.name, 0, first_record_ms, foreign_cpu_s, 30.0, partitions, tools, ({},))


def test_delays_keep_the_time_of_the_bed():
    """The tool's first record came 700 ms after the start, 150 of them for metadata: delays begin so much earlier."""
    setting = Setting("schedule", (PerfLoad(MIDDLE, 2048, 61440),), (Delay(0, 30, 6, 14), Delay(0, 5, 14, 20)))
    profile = replace(LAB, costs={"": replace(LAB.costs[""], metadata_ns=150 * MS)})

    slow, *others = make_scenario(setting, profile, make_run(setting, first_record_ms=700)).brokers

    assert slow.delay_ns.starts_ns == (0, 5450 * MS, 13450 * MS, 19450 * MS)
    assert slow.delay_ns.values == (0, 30 * MS, 5 * MS, 0)
    assert all(broker.delay_ns.values == (0,) for broker in others)


def test_versions_bring_their_partitioner_and_linger():
    """3.2.3 is KIP-480 without linger, 4.1.1 KIP-794 with 5 ms."""
    setting = Setting("two", (PerfLoad(OLD, 1024, 30720), PerfLoad(NEW, 1024, 30720)))

    old, new = (each.settings for each in make_scenario(setting, LAB, make_run(setting)).producers)

    assert (old.placement, old.linger_ns) == ("STICKY", 0)
    assert (new.placement, new.linger_ns) == ("BUILT_IN", 5 * MS)


def test_keyed_records_of_a_series_are_placed_and_the_others_not():
    """The key's hash names the partition, the same for every record of the key."""
    series = Series("poisson", 500, 4, keyed_percent=40)
    setting = Setting("keyed", (SeriesLoad(NEW, series),))

    arrivals = make_scenario(setting, LAB, make_run(setting)).producers[0].traffic[0].arrivals
    keys = series.make()["key"]

    assert ((arrivals.partition == KEYLESS) == (keys < 0)).all()
    assert len(set(zip(keys[keys >= 0], arrivals.partition[keys >= 0], strict=True))) == len(np.unique(keys[keys >= 0]))
    assert set(arrivals.partition) == {KEYLESS, 0, 1, 2}


def test_compression_is_what_the_real_batches_show():
    """Without a codec nothing is left out."""
    plain = Setting("plain", (PerfLoad(NEW, 2048, 61440),))
    packed = Setting("packed", (PerfLoad(NEW, 2048, 61440, config={"compression.type": "lz4"}),))

    assert find_compressed_ppm(plain, make_run(plain)) == 1_000_000
    run = replace(make_run(packed), partitions=(PartitionFigures(0, 0, 1000, 10, 10 * 61 + 260_500),))
    assert find_compressed_ppm(packed, run) == 500_000


@pytest.mark.parametrize(
    ("batches", "rate", "foreign_cpu_s", "percents"),
    [
        (1400, 2040.0, 0.0, {"latency_avg_ms": 8, "latency_p95_ms": 8, "latency_p99_ms": 12}),
        (1400, 1900.0, 0.0, {"latency_avg_ms": 20, "latency_p95_ms": 20, "latency_p99_ms": 20}),
        (300, 2048.0, 0.0, {}),
        (1400, 2040.0, 5.0, {}),
    ],
    ids=["congested", "saturated", "idle", "not quiet"],
)
def test_latencies_have_bars_where_a_broker_is_congested_and_the_run_was_quiet(batches, rate, foreign_cpu_s, percents):
    """Saturated: more than a second of work was left when the last record had been sent."""
    setting = Setting("one", (PerfLoad(MIDDLE, 2048, 61440),))

    assert (
        find_latency_bars(setting, make_run(setting, batches=batches, rate=rate, foreign_cpu_s=foreign_cpu_s))
        == percents
    )


def test_recordings_are_read_as_they_were_written(tmp_path):
    """Settings with both kinds of load, delays and figures."""
    setting = Setting("both", (PerfLoad(OLD, 100, 3000), SeriesLoad(NEW, Series("steady", 10, 3))))
    recordings = Recordings({"date": "2026-01-01"}, {OLD: {"quantiles": [0, 1]}}, ((setting, make_run(setting)),))

    write_recordings(recordings, tmp_path / "recordings.json")

    assert read_recordings(tmp_path / "recordings.json") == recordings
    assert json.loads((tmp_path / "recordings.json").read_text())["runs"][0]["run"]["is_quiet"] is True


def test_a_miss_is_known_by_its_table_and_figure_only():
    """Another figure of the table is a new miss."""
    known = KNOWN[0]

    assert explain(known.table, f"{known.figure}, %", "-2.2 %") == known.reason
    assert explain(known.table, "latency avg, ms", "-2.2 %") is None
    assert explain("another table", known.figure, "-2.2 %") is None


@pytest.mark.parametrize("known", KNOWN, ids=[f"{known.table} {known.figure}" for known in KNOWN])
def test_a_known_miss_that_grows_is_a_new_one(known):
    assert explain(known.table, known.figure, f"{-known.most:+.1f} %") == known.reason
    assert explain(known.table, known.figure, f"{known.most + 0.1:+.1f} %") is None

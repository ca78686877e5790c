"""A log collected in any number of runs, that die at any write, gives what its files give when they are read once.

Oracle: `scan_file` over the whole files, as a run on the disks reads them.
"""

import json
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.config_file import load_config
from pipeline.errors import ConfigError, InputError
from pipeline.model.cluster import CLUSTER_METADATA, NO_LEADER, ClusterHistory, Timeline
from pipeline.model.log import Record, TopicPartition
from pipeline.model.window import TimeWindow, format_instant
from pipeline.sources.collected import collector, partition_scan
from pipeline.sources.collected.collector import RateLimit, collector_settings
from pipeline.sources.collected.host import read_hosts
from pipeline.sources.collected.manifest import MANIFEST, read_manifest
from pipeline.sources.collected.partition_scan import read_partition
from pipeline.sources.collected.stored_folder import StoredFolder
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.files.segment_plan import plan_reads
from pipeline.sources.records.pieces import Kind
from tests.batches import make_batch, make_records
from tests.unit.sources.collected.disks import (
    CONFIG,
    DAY_MS,
    FIRST_MS,
    HOUR_MS,
    NOW_MS,
    SPAN,
    add_up,
    collected,
    make_batches,
    manifest_of,
    plan_tasks,
    read_landing,
    read_once,
    run_collector,
    state_of,
    tell,
    weigh,
)


@dataclass(frozen=True)
class DyingFolder(StoredFolder):
    """Dies before or after a write, as a process that is killed there."""

    dies_at: int = 0
    is_after: bool = False
    writes: count = field(default_factory=count)

    def write(self, name, content):
        if self.dies_at == next(self.writes):
            if self.is_after:
                super().write(name, content)
            raise KeyboardInterrupt
        super().write(name, content)


@pytest.mark.parametrize("seed", range(3))
def test_a_log_that_grows_and_rolls_between_runs_gives_what_its_files_give(config, disk, landing, seed):
    """Files are cut anywhere, mostly in the middle of a batch; offsets above the high watermark wait for a later run."""
    chance = random.Random(seed)
    base_offset = 0
    for number in (40, 40, 12):
        batches, end = make_batches(base_offset, number)
        data = b"".join(batches)
        for written in sorted(chance.sample(range(len(data)), 3)):
            disk.write(base_offset, data[:written], chance.randint(base_offset, end))
            run_collector(config, disk, landing)
        disk.write(base_offset, data, end)
        base_offset = end
    run_collector(config, disk, landing)
    assert add_up(collected(config, landing)) == add_up(read_once(config, disk))


def test_a_collector_that_dies_at_any_write_loses_and_doubles_nothing(config, disk, tmp_path):
    disk.write(0, b"".join(make_batches(0, 45)[0]))
    wanted = add_up(read_once(config, disk))
    for is_after in (False, True):
        for dies_at in count():
            dying = DyingFolder(str(tmp_path / f"{is_after}-{dies_at}"), dies_at=dies_at, is_after=is_after)
            try:
                run_collector(config, disk, dying, commit_bytes=4096)
            except KeyboardInterrupt:
                landing = StoredFolder(dying.location)
                run_collector(config, disk, landing)
                assert add_up(collected(config, landing)) == wanted
            else:
                break
        assert dies_at > 6  # two commits


def test_a_killed_process_is_gone_on_with(config, disk, landing, tmp_path):
    """The kernel kills the collector in the middle of its second commit."""
    batches, _ = make_batches(0, 120)
    disk.write(0, b"".join(batches))
    program = f"""
import os, signal
from pathlib import Path
from pipeline.config_file import load_config
from pipeline.sources.collected.collector import CollectRequest, RateLimit, collect, collector_settings
from pipeline.sources.collected.partition_scan import read_partition
from pipeline.sources.collected.stored_folder import StoredFolder
class Killed(StoredFolder):
    def write(self, name, content):
        is_begun = self.read("manifest.json.zst") is not None
        super().write(name, content)
        if is_begun:
            os.kill(os.getpid(), signal.SIGKILL)
request = CollectRequest(paths=[Path({str(disk.root)!r})], config=load_config(Path({str(tmp_path / "partition-health.yaml")!r})),
    cluster="demo", host="", keep_ms={DAY_MS}, as_of_ms={NOW_MS}, run_id="killed", unit_bytes=2048, commit_bytes=2048)
collect(request, Killed({landing.location!r}), RateLimit(bytes_per_s=10**12, clock=lambda: 0.0, pause=lambda _: None))
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    assert 0 < sum(add_up(collected(config, landing))["batches"].values()) < len(batches)
    run_collector(config, disk, landing)
    assert add_up(collected(config, landing)) == add_up(read_once(config, disk))


@pytest.mark.parametrize("unit_bytes", [64, 1500])
def test_a_batch_longer_than_what_is_read_at_once_is_read(config, disk, landing, unit_bytes):
    """Its log was read no further, for good, and nothing said so."""
    sizes = (10, 2000, 2000, 10, 2000)
    records = [Record(offset=n, timestamp_ms=FIRST_MS, key=b"k", value=bytes(size)) for n, size in enumerate(sizes)]
    disk.write(0, b"".join(make_batch([one]) for one in records), len(sizes))
    run_collector(config, disk, landing, unit_bytes=unit_bytes)
    assert add_up(collected(config, landing)) == add_up(read_once(config, disk))


def test_what_retention_takes_later_stays_collected(config, disk, landing):
    first, middle = make_batches(0, 20)
    later, end = make_batches(middle, 20)
    disk.write(0, b"".join(first), end)
    disk.write(middle, b"".join(later[:5]), end)
    run_collector(config, disk, landing)
    disk.write(middle, b"".join(later), end)
    wanted = add_up(read_once(config, disk))
    (disk.log / f"{0:020d}.log").unlink()
    run_collector(config, disk, landing)
    assert add_up(collected(config, landing)) == wanted


def test_producer_ids_without_end_do_not_fill_the_manifest(config, disk, landing, monkeypatch):
    """Anyone who may write can use any id: the manifest grew until the collector could not read its own."""
    monkeypatch.setattr(partition_scan, "MOST_PRODUCERS", 3)
    batches = [make_batch(make_records(1, base_offset=at), producer_id=at, base_sequence=0) for at in range(8)]
    disk.write(0, b"".join(batches[:5]))
    run_collector(config, disk, landing)
    disk.write(0, b"".join(batches))
    run_collector(config, disk, landing)
    (progress,) = read_manifest(StoredFolder(f"{landing.location}/broker-1")).progress
    assert progress.totals.producer_ids == (0, 1, 2)
    assert progress.totals.row["producer_id_count"] == 6  # at least: three that are kept, three more


def test_what_retention_took_before_it_was_collected_is_missing(config, disk, landing):
    hours = [TimeWindow(FIRST_MS + hour * HOUR_MS, FIRST_MS + (hour + 1) * HOUR_MS) for hour in range(4)]
    logs = []
    for number, hour in enumerate(hours):
        records = make_records(10, base_offset=1000 + 10 * number, start_ms=hour.start_ms + HOUR_MS // 2)
        logs.append((records[0].offset, make_batch(records)))
    disk.write(*logs[0])
    run_collector(config, disk, landing)

    def list_missing():
        tell(landing, "broker-1", (FIRST_MS - HOUR_MS, state_of(1, 0)), brokers=(1,))
        reading = read_landing(landing)
        return [bool(weigh(landing, reading, hour).missing) for hour in hours]

    assert list_missing() == [True, False, False, False]  # the log begins at half past
    (disk.log / f"{1000:020d}.log").unlink()
    disk.write(*logs[1])
    (disk.log / f"{logs[1][0]:020d}.log").unlink()  # the collector was down meanwhile
    disk.write(*logs[2])
    run_collector(config, disk, landing)
    assert list_missing() == [True, True, True, False]
    disk.write(*logs[3])
    run_collector(config, disk, landing)
    assert list_missing() == [True, True, True, False]
    assert weigh(landing, read_landing(landing), hours[1]).missing.startswith("records were gone before they were read")
    assert read_landing(landing, topics=("!orders",)).gaps == {}


def test_a_log_that_retention_emptied_before_it_was_collected_is_missing_until_then(config, disk, landing):
    key = TopicPartition("orders", 0)
    disk.write(0, make_batch(make_records(10, start_ms=FIRST_MS)))
    run_collector(config, disk, landing)
    (disk.log / f"{0:020d}.log").unlink()
    disk.write(50, b"")
    run_collector(config, disk, landing, as_of_ms=NOW_MS - HOUR_MS)
    tell(landing, "broker-1", (FIRST_MS - HOUR_MS, state_of(1, 0)), brokers=(1,))
    assert read_landing(landing).gaps == {key: TimeWindow(FIRST_MS + 9, NOW_MS - HOUR_MS)}
    # its only in-sync broker died since
    tell(landing, "broker-1", (FIRST_MS - HOUR_MS, state_of(1, 0)), (NOW_MS - 9, state_of(NO_LEADER, 1)), brokers=(1,))
    assert read_landing(landing).gaps == {key: TimeWindow(FIRST_MS + 9, NOW_MS - HOUR_MS)}
    disk.write(50, make_batch(make_records(10, base_offset=50, start_ms=FIRST_MS + HOUR_MS)))
    run_collector(config, disk, landing)
    tell(landing, "broker-1", (FIRST_MS - HOUR_MS, state_of(1, 0)), brokers=(1,))
    assert read_landing(landing).gaps == {key: TimeWindow(FIRST_MS + 9, FIRST_MS + HOUR_MS + 9)}


@pytest.mark.parametrize(
    ("ahead_ms", "late_ms"), [(0, 0), (12 * HOUR_MS, 0), (0, 12 * HOUR_MS)], ids=["in-time", "ahead", "late"]
)
def test_no_clock_of_a_client_hides_what_retention_took(config, disk, landing, ahead_ms, late_ms):
    """One batch of a client that was offline, or whose clock was ahead, made the gap none."""
    read_ms, lost_until_ms = FIRST_MS + HOUR_MS, FIRST_MS + 2 * HOUR_MS
    disk.write(0, make_batch(make_records(1, start_ms=read_ms - 1 + ahead_ms)))
    run_collector(config, disk, landing, as_of_ms=read_ms)
    (disk.log / f"{0:020d}.log").unlink()
    left = [make_records(1, base_offset=50 + at, start_ms=lost_until_ms + at) for at in range(5)]
    left[1] = make_records(1, base_offset=51, start_ms=lost_until_ms - late_ms)
    disk.write(50, b"".join(map(make_batch, left)))
    run_collector(config, disk, landing)
    tell(landing, "broker-1", (FIRST_MS - HOUR_MS, state_of(1, 0)), brokers=(1,))
    (gap,) = read_landing(landing).gaps.values()
    assert read_ms - 1 <= gap.start_ms <= read_ms
    assert lost_until_ms <= gap.end_ms <= lost_until_ms + 5


@pytest.mark.parametrize("ahead_ms", [0, 3 * DAY_MS])
def test_what_a_broker_led_since_the_last_reading_is_read_though_another_leads_now(
    config, disk, landing, monkeypatch, ahead_ms
):
    """The leader moved between the readings of two hosts: each left the end of the window to the other, and it was complete.

    So it was where the host's clock was days ahead at the first reading.
    """
    moved_ms, batches = FIRST_MS + HOUR_MS, make_batches(0, 30)[0]
    led = Timeline((FIRST_MS - HOUR_MS, moved_ms), (state_of(1, 0), state_of(2, 1)))
    known = {"known_since_ms": FIRST_MS - HOUR_MS, "partitions": {TopicPartition("orders", 0): led}}
    newest = {"newest_ms": moved_ms - 1, "quiet_ms": 1000}
    history = ClusterHistory(state_source=CLUSTER_METADATA, **known, **newest)
    monkeypatch.setattr(collector, "read_cluster_history", lambda _: (history, ()))
    disk.write(0, b"".join(batches[:10]))
    run_collector(config, disk, landing, as_of_ms=moved_ms - 1 + ahead_ms)
    history = replace(history, newest_ms=moved_ms + 1)
    disk.write(0, b"".join(batches))
    run_collector(config, disk, landing, as_of_ms=moved_ms + 1)
    (progress,) = manifest_of(landing, "broker-1").progress
    assert progress.position == len(b"".join(batches[:-1]))
    disk.write(0, b"".join(make_batches(0, 40)[0]))  # of a time when another led
    assert run_collector(config, disk, landing, as_of_ms=moved_ms + 2).read_bytes == 0


@pytest.mark.parametrize("end", [90, 130])
def test_what_a_log_got_after_an_unclean_election_cut_it_is_read(config, disk, landing, end):
    """As many offsets as the election dropped were skipped: that broker's load was missing, silently, and the window complete."""

    def write(first, last, epoch):
        records = [
            make_records(1, base_offset=at, start_ms=FIRST_MS + epoch * HOUR_MS + at) for at in range(first, last)
        ]
        return [make_batch(own, leader_epoch=epoch) for own in records]

    def collect_and_list():
        run_collector(config, disk, landing)
        rows = [
            row for piece in collected(config, landing) if piece.kind is Kind.BATCHES for row in piece.rows.to_pylist()
        ]
        return sorted((row["leader_epoch"], row["base_offset"]) for row in rows)

    old = write(0, 100, 0)
    disk.write(0, b"".join(old), 100)
    (disk.log / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    read = [(0, at) for at in range(100)]
    assert collect_and_list() == read
    disk.write(0, b"".join([*old[:40], *write(40, end, 2)]), end)
    (disk.log / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n2 40\n")
    read += [(2, at) for at in range(40, end)]
    assert collect_and_list() == read
    assert run_collector(config, disk, landing).read_bytes == 0
    disk.write(0, b"".join([*old[:40], *write(40, end + 5, 2)]), end + 5)
    assert collect_and_list() == [*read, *((2, at) for at in range(end, end + 5))]
    windows = [TimeWindow(FIRST_MS + hour * HOUR_MS, FIRST_MS + (hour + 1) * HOUR_MS) for hour in (0, 2)]
    assert [len(read_landing(landing, one).collected.doubts) for one in windows] == [0, 0]


def test_a_host_whose_clock_is_days_behind_the_controllers_loses_no_record(config, disk, landing, monkeypatch):
    """They were of the future for it, and so of no window: the windows were complete without them once its clock was right."""
    history = ClusterHistory(state_source=CLUSTER_METADATA, known_since_ms=FIRST_MS, newest_ms=NOW_MS)
    monkeypatch.setattr(collector, "read_cluster_history", lambda _: (history, ()))
    disk.write(0, b"".join(make_batches(0, 30)[0]))
    run_collector(config, disk, landing, as_of_ms=FIRST_MS - 3 * DAY_MS)
    run_collector(config, disk, landing)
    assert add_up(collected(config, landing)) == add_up(read_once(config, disk))


def test_a_file_that_the_cleaner_rewrote_doubles_nothing(config, disk, landing):
    batches, end = make_batches(0, 30)
    disk.write(0, b"".join(batches[:20]), end)
    run_collector(config, disk, landing)
    disk.write(0, b"".join(batches[i] for i in range(len(batches)) if i >= 20 or i % 2), end)
    disk.write(end, b"", end)
    run_collector(config, disk, landing)

    def list_offsets(pieces):
        return sorted(
            at for piece in pieces if piece.kind is Kind.BATCHES for at in piece.rows["base_offset"].to_pylist()
        )

    found = list_offsets(collected(config, landing))
    disk.write(0, b"".join(batches), end)
    assert found == list_offsets(read_once(config, disk))


@pytest.mark.parametrize("is_merged", [True, False], ids=["into the segment before", "in its place"])
def test_a_segment_that_the_cleaner_rewrites_while_it_is_read_is_whole(is_merged, config, disk, landing, monkeypatch):
    """Of a real broker a minute's batches had 137 records and its keys 128, so that this window was in doubt for good."""
    batches, end = make_batches(0, 30)
    second = int.from_bytes(batches[20][:8])
    disk.write(0, b"".join(batches[:20]), second)
    run_collector(config, disk, landing)
    disk.write(second, b"".join(batches[20:]), end)
    disk.write(end, b"", end)
    scan, rewritten = partition_scan.scan_file_records, []

    def rewrite_and_scan(read, *given):
        if read.base_offset == second and not rewritten:
            Path(read.path).rename(f"{read.path}.deleted")
            base_offset, held = (0, batches) if is_merged else (second, batches[20:22] + batches[23:])
            disk.write(base_offset, b"".join(held), end)
            rewritten.append(read)
        yield from scan(read, *given)

    monkeypatch.setattr(partition_scan, "scan_file_records", rewrite_and_scan)
    run_collector(config, disk, landing)
    found, whole = add_up(collected(config, landing)), add_up(read_once(config, disk))
    assert rewritten
    assert not read_landing(landing).gaps
    assert found["batches"].total() == whole["batches"].total()
    assert [found[kind] for kind in (Kind.KEYS, Kind.ARRIVALS)] == [whole[kind] for kind in (Kind.KEYS, Kind.ARRIVALS)]


def test_a_log_that_is_deleted_before_it_is_read_is_no_problem(disk):
    batches, end = make_batches(0, 30)
    disk.write(0, b"".join(batches), end)
    reads = plan_reads(discover_logs([disk.root]).iter_partitions())
    for read in reads:
        shutil.rmtree(Path(read.path).parent)
    assert not [*read_partition(reads, None, None, name=str)]


def test_parts_go_when_their_time_is_over_and_what_a_dead_collector_left_after_a_day(config, disk, landing):
    disk.write(0, b"".join(make_batches(0, 30)[0]))
    run_collector(config, disk, landing)
    host = StoredFolder(f"{landing.location}/broker-1")
    host.write("parts/left-over.parquet", b"")
    ((_, written_at_ms, _),) = [file for file in host.files("parts") if file[0] == "parts/left-over.parquet"]
    assert len(host.files("parts")) == len(read_manifest(host).parts) + 1 > 4
    run_collector(config, disk, landing, as_of_ms=written_at_ms + 2 * DAY_MS)
    assert host.files("parts") == []
    assert read_manifest(host).parts == ()
    assert run_collector(config, disk, landing, as_of_ms=written_at_ms + 2 * DAY_MS).read_bytes < 4096


def test_other_settings_are_refused_where_they_would_be_mixed(config, disk, landing, tmp_path):
    disk.write(0, b"".join(make_batches(0, 5)[0]))
    run_collector(config, disk, landing)
    (tmp_path / "secret").write_text("b8" * 32)
    with pytest.raises(ConfigError, match="other settings"):
        run_collector(config, disk, landing)
    with pytest.raises(ConfigError, match="one configuration"):
        list(collected(config, landing))
    (tmp_path / "partition-health.yaml").write_text(CONFIG.replace("keys: {", "keys: {mode: counts_only, "))
    with pytest.raises(ConfigError, match="pseudonyms"):
        run_collector(load_config(tmp_path / "partition-health.yaml"), disk, landing)


def test_a_host_of_another_cluster_writes_nothing_into_the_folder(config, disk, landing):
    disk.write(0, b"".join(make_batches(0, 5)[0]))
    run_collector(config, disk, landing)
    before = manifest_of(landing, "broker-1")
    properties = disk.root / "meta.properties"
    properties.write_text(properties.read_text().replace("cluster.id=c", "cluster.id=d"))
    with pytest.raises(ConfigError, match="another Kafka cluster"):
        run_collector(config, disk, landing)
    assert manifest_of(landing, "broker-1") == before


def test_a_damaged_manifest_is_a_problem_of_its_host_and_stops_its_collector(config, disk, landing):
    disk.write(0, b"".join(make_batches(0, 5)[0]))
    run_collector(config, disk, landing)
    StoredFolder(f"{landing.location}/broker-1").write(MANIFEST, b"{}")
    problems = []
    assert read_hosts(landing, SPAN, problems) == []
    assert [problem.path for problem in problems] == [f"{landing.location}/broker-1"]
    with pytest.raises(InputError, match="not a manifest"):
        run_collector(config, disk, landing)


@pytest.fixture
def parts(config, disk, landing):
    """Those that one host brought."""
    disk.write(0, b"".join(make_batches(0, 5)[0]))
    run_collector(config, disk, landing)
    return sorted(Path(landing.location).rglob("*.parquet"))


@pytest.mark.parametrize("damage", [Path.unlink, lambda part: part.write_bytes(part.read_bytes()[:-1])])
def test_a_host_that_lost_a_part_is_left_out_of_the_windows_of_that_part(landing, parts, damage):
    damage(part := parts[0])
    problems = []
    assert read_hosts(landing, SPAN, problems) == []
    (problem,) = problems
    assert part.name in problem.reason
    later = TimeWindow(NOW_MS, NOW_MS + HOUR_MS)
    assert [host.manifest.host for host in read_hosts(landing, later, [])] == ["broker-1"]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" * 9, pytest.param(None, id="of another kind")])
def test_a_damaged_part_is_one_problem_that_names_it_and_says_what_to_do(config, landing, parts, content):
    """Damaged after the tasks were planned: else the length gives it away."""
    tasks = plan_tasks(config, landing)
    other = pa.BufferOutputStream()
    pq.write_table(pa.table({"topic": ["orders"]}), other)
    for part in parts:
        part.write_bytes(other.getvalue().to_pybytes() if content is None else content)
    rows = [row for task in tasks for piece in task.run() for row in piece.rows.to_pylist()]
    assert [row["row_kind"] for row in rows] == ["problem", "shortfall"] * len(parts)
    assert {row["path"] for row in rows} == {str(part) for part in parts}
    assert all("collector" in row["reason"] and "delete it" in row["reason"] for row in rows)


def test_reading_keeps_to_its_rate(config, disk, landing):
    disk.write(0, b"".join(make_batches(0, 120)[0]))
    waited = []
    rate = RateLimit(bytes_per_s=1000, clock=lambda: sum(waited), pause=waited.append)
    done = run_collector(config, disk, landing, rate=rate, unit_bytes=2048)
    assert sum(waited) == pytest.approx(done.read_bytes / 1000)


def test_no_key_leaves_the_host(config, disk, landing):
    disk.write(0, make_batch(make_records(9, start_ms=FIRST_MS, key=b"secret-key-%d", value=b"secret-value")))
    run_collector(config, disk, landing)
    tables = [piece.rows for piece in collected(config, landing)]
    manifest = read_manifest(StoredFolder(f"{landing.location}/broker-1"))
    assert {"keys", "arrivals"} <= {part.kind for part in manifest.parts}
    assert not any("secret-" in str(value) for rows in tables for row in rows.to_pylist() for value in row.values())


def test_the_command_collects_without_spark_once_and_then_only_what_is_new(config, disk, landing, tmp_path):
    disk.write(0, b"".join(make_batches(0, 30)[0]))
    command = ["collect", str(disk.root), "--to", landing.location, "--config", str(tmp_path / "partition-health.yaml")]
    command += ["--as-of", format_instant(NOW_MS), "--json"]
    program = f"""
import sys
from pipeline.cli import main
assert main({command!r}) == main({command!r}) == 0
assert not {{'pyspark', 'py4j', 'delta', 'airflow'}} & {{*sys.modules}}
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    first, second = json.loads("[" + done.stdout.replace("}\n{", "},{") + "]")
    assert (first["host"], first["partition_count"]) == ("broker-1", 1)
    assert first["read_bytes"] > second["read_bytes"] == 0
    assert add_up(collected(config, landing)) == add_up(read_once(config, disk))


def test_a_unit_has_one_piece_of_a_kind_however_many_windows_a_client_chooses(config, disk):
    """A table of one row takes 10 to 20 KiB."""
    stamps = [FIRST_MS - hour * HOUR_MS for hour in range(20)]
    records = [Record(offset=i, timestamp_ms=at_ms, key=b"k", value=b"v") for i, at_ms in enumerate(stamps)]
    disk.write(0, b"".join(make_batch([record]) for record in records), 20)
    reads = plan_reads(discover_logs([disk.root]).iter_partitions())
    (unit,) = read_partition(reads, None, collector_settings(config, "demo", NOW_MS), name=str)
    assert {piece.kind: piece.rows.num_rows for piece in unit.pieces}[Kind.KEYS] == 20
    assert len(unit.pieces) == len({piece.kind for piece in unit.pieces})

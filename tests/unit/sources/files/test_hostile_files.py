"""FIFOs and giants among the segments cost a quarantine row each, and neither a hang nor memory. Oracle: what was put there."""

import os
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from pipeline.codec.log.batch_headers import HEADER_ROW, HeaderScan
from pipeline.codec.log.index_files import OFFSET_ENTRY, TXN_ENTRY, read_offset_index, read_transaction_index
from pipeline.codec.log.segment import scan_headers
from pipeline.codec.metrics.exposition import ExpositionReader
from pipeline.errors import InputError
from pipeline.files import MOST_SMALL_BYTES, read_small
from pipeline.sources.files.cluster_state import read_metadata_ends, read_replica_states
from pipeline.sources.files.directory_walk import DirectoryWalk
from pipeline.sources.files.log_directories import discover_logs, read_partition_directory, refuse_doubles
from pipeline.sources.kinds.metrics import ProducerMetrics
from pipeline.sources.kinds.tool_texts import TopicsDescribe
from pipeline.sources.metrics.metric_pages import MetricPage, read_page
from pipeline.sources.records.record_scan import find_aborted
from pipeline.sources.records.segment_scan import place_batches
from pipeline.sources.source import Described
from tests.batches import START_MS, make_batch, make_marker, make_records
from tests.unit.sources.trees import log_directory


@pytest.fixture
def partition(tmp_path):
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / f"{0:020d}.log").write_bytes(make_batch(make_records(2)))
    return folder


def problems_of(folder):
    tree = discover_logs([folder.parent])
    assert [segment.base_offset for _, partition in tree.iter_partitions() for segment in partition.segments] == [0]
    return [(problem.path, problem.reason) for problem in tree.problems if problem.severity == "refused"]


@pytest.mark.parametrize("name", [f"{9:020d}.log", "leader-epoch-checkpoint", "partition.metadata"])
def test_a_fifo_is_a_problem_and_no_wait(partition, name):
    os.mkfifo(partition / name)
    assert problems_of(partition) == [(str(partition / name), "cannot be read: not a regular file")]


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata"])
def test_a_giant_is_not_read_whole(partition, name):
    with (partition / name).open("wb") as file:
        file.truncate(1 << 40)
    ((path, reason),) = problems_of(partition)
    assert path == str(partition / name)
    assert "more than 16 MiB" in reason


@pytest.mark.parametrize(
    "read", [read_transaction_index, read_small, scan_headers, lambda path: read_offset_index(path, 0)]
)
def test_no_reader_waits_for_a_fifo(tmp_path, read):
    os.mkfifo(tmp_path / "x.log")
    with pytest.raises(OSError, match="not a regular file"):
        read(tmp_path / "x.log")


def test_an_index_has_a_bound(tmp_path):
    (tmp_path / "x.index").write_bytes(b"\1" * 8 * ((8 << 20) + 1))
    with pytest.raises(InputError, match="more than 8,388,608 entries"):
        read_offset_index(tmp_path / "x.index", 0)


def test_texts_have_a_bound(tmp_path):
    for name in ("topics.txt", "producer/1700000000000.prom"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        with (tmp_path / name).open("wb") as file:
            file.truncate((1 << 30) + 1)
    described = Described()
    TopicsDescribe(kind="topics_describe", path=tmp_path / "topics.txt").describe(described)
    path = str(tmp_path / "producer/1700000000000.prom")
    page = MetricPage(source="s", instance="i", observed_at_ms=0, path=path, kind=ProducerMetrics)
    rows = pa.Table.from_batches([*read_page(page, ExpositionReader())]).to_pylist()
    reasons = [problem.reason for problem in described.problems["topics_describe"]]
    reasons += [row["reason"] for row in rows]
    assert ["MiB, far more than it ever has" in reason for reason in reasons] == [True] * 2


def test_a_segment_truncated_under_the_reader_has_no_markers_there(tmp_path):
    path = tmp_path / f"{0:020d}.log"
    batch = make_batch(make_records(2), attributes=0x10, producer_id=1000, producer_epoch=0)
    path.write_bytes(batch + make_marker(2, commit=False))
    headers = scan_headers(path)
    assert find_aborted(path, headers).tolist() == [True, False]
    os.truncate(path, len(batch))
    assert find_aborted(path, headers).tolist() == [False, False]


def find_open(folder, producers, offsets, aborted):
    """Which batches of open transactions the indexes say were aborted; `aborted` are producer, first and last offset."""
    path = folder / f"{0:020d}.log"
    path.touch()
    entries = np.zeros(len(aborted), TXN_ENTRY)
    for name, column in zip(("producer_id", "first_offset", "last_offset"), np.transpose(aborted), strict=True):
        entries[name] = column
    entries.tofile(folder / f"{1:020d}.txnindex")
    rows = np.zeros(len(producers), HEADER_ROW)
    rows["producer_id"], rows["base_offset"], rows["magic"], rows["attributes"] = producers, offsets, 2, 0x10
    return find_aborted(path, HeaderScan(rows=rows, problems=(), valid_bytes=0, file_bytes=0))


@pytest.mark.parametrize("seed", range(20))
def test_batches_of_aborted_transactions_are_those_that_one_holds(tmp_path, seed):
    """Those of an index may overlap, and come in any order: a host may write what it likes."""
    rng = np.random.default_rng(seed)
    producers, offsets = rng.integers(0, 4, 60), rng.integers(-2, 30, 60)
    aborted = [(rng.integers(0, 5), first, first + rng.integers(-1, 9)) for first in rng.integers(-2, 30, 12)]
    found = find_open(tmp_path, producers, offsets, aborted)
    wanted = [
        any((one, first <= at <= last) == (producer, True) for one, first, last in aborted)
        for producer, at in zip(producers, offsets, strict=True)
    ]
    assert found.tolist() == wanted


def test_aborted_transactions_by_the_hundred_thousand_take_no_time_of_their_square(tmp_path):
    """A producer may abort hundreds of small ones beside a large one, and a host may write an index of half a million."""
    count = 200_000
    aborted = np.stack([np.arange(count) % 1_000, 10 * np.arange(count), 10 * np.arange(count) + 5], axis=1)
    began_s = time.process_time()
    found = find_open(tmp_path, np.arange(count) % 1_000, 10 * np.arange(count) + 7, aborted)
    assert time.process_time() - began_s < 10
    assert not found.any()


@pytest.mark.parametrize("read", [read_transaction_index, read_small])
def test_small_files_have_a_bound(tmp_path, read):
    with (tmp_path / "x").open("wb") as file:
        file.truncate(MOST_SMALL_BYTES + 1)
    with pytest.raises(OSError, match="more than 16 MiB"):
        read(tmp_path / "x")


@pytest.mark.parametrize("number", ["9999999999999999999", "-7"])
def test_an_owner_with_a_number_that_no_broker_has_is_unknown(partition, number):
    (partition.parent / "meta.properties").write_text(f"version=1\nnode.id={number}\ncluster.id=c\n")
    assert [reason for _, reason in problems_of(partition)] == ["expected a number from 0 to 2147483647"]
    assert discover_logs([partition.parent]).broker_ids == ()


@pytest.mark.parametrize("name", ["replication-offset-checkpoint", "log-start-offset-checkpoint"])
def test_an_offset_that_no_log_has_is_a_problem_of_its_checkpoint(partition, name):
    (partition.parent / name).write_text("0\n1\norders 0 9999999999999999999\n")
    assert [path for path, _ in problems_of(partition)] == [str(partition.parent / name)]


def test_an_index_without_an_end_does_not_keep_a_log_from_being_read(partition):
    (partition / f"{0:020d}.index").write_bytes(b"\1" * 8 * ((8 << 20) + 8192))
    (replica,), problems = read_replica_states(discover_logs([partition.parent]))
    assert (replica.log_end_offset, problems) == (2, ())


def test_a_metadata_log_with_an_index_without_an_end_is_read_from_its_beginning(tmp_path):
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    (folder / f"{0:020d}.log").write_bytes(make_batch(make_records(2)))
    (folder / f"{0:020d}.index").write_bytes(b"\1" * 8 * ((8 << 20) + 8192))
    assert read_metadata_ends(discover_logs([tmp_path])) == {1: START_MS + 1}


class Retention(DirectoryWalk):
    """A walk beside a broker that takes each segment as soon as its first bytes were read."""

    def read_start(self, path, size):
        found = super().read_start(path, size)
        path.unlink()
        return found


def test_a_segment_that_retention_takes_meanwhile_ends_nothing(partition):
    walk, size_bytes = Retention(), (partition / f"{0:020d}.log").stat().st_size
    found = read_partition_directory(walk.list(partition), walk)
    assert [segment.size_bytes for segment in found.segments] == [size_bytes]
    assert {problem.severity for problem in walk.problems} == {"suspect"}  # no index next to it


def test_a_segment_that_was_cut_meanwhile_is_read_as_far_as_it_goes(partition):
    path = partition / f"{0:020d}.log"
    first = path.stat().st_size
    path.write_bytes(path.read_bytes() + make_batch(make_records(2, base_offset=2)))
    np.array([(3, first)], OFFSET_ENTRY).tofile(partition / f"{0:020d}.index")
    tree = discover_logs([partition.parent])
    os.truncate(path, first - 1)
    (replica,), _ = read_replica_states(tree)
    assert replica.log_end_offset == 0


def test_a_file_larger_than_any_segment_is_refused_and_not_cut_into_parts(partition):
    """Each part reads all headers of its file; a sparse one of 64 GiB had 512 parts."""
    os.truncate(partition / f"{0:020d}.log", 2**31 - 1)
    assert problems_of(partition) == []
    os.truncate(partition / f"{0:020d}.log", 2**31)
    tree = discover_logs([partition.parent])
    assert [part.segments for _, part in tree.iter_partitions()] == [()]
    assert [problem.reason for problem in tree.problems] == [
        "more than 2 GiB: Kafka itself writes and opens no such segment"
    ]


def test_offsets_far_apart_add_up_within_64_bits(tmp_path):
    """Sums of them ended classic Spark, and wrapped elsewhere; a host writes such batches, and a leader answers with them."""
    far = 9_000_000_000_000_000_000
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"".join(make_batch(make_records(1, base_offset=at)) for at in (far, 1, far, 1, 7, far)))
    missing = place_batches(scan_headers(path), START_MS, 0, 2**63 - 1).missing_offset_count
    assert missing.tolist() == [1 << 32, 0, 1 << 32, 0, 5, 1 << 32]


def test_gaps_of_a_compacted_log_are_counted_whole(tmp_path):
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"".join(make_batch(make_records(1, base_offset=at)) for at in (3, 4_000_000_000)))
    assert place_batches(scan_headers(path), START_MS, 0, 4_000_000_009).missing_offset_count.tolist() == [
        3,
        3_999_999_996 + 8,
    ]


def test_disks_by_the_thousand_of_one_broker_take_no_time_of_their_square():
    disks = [log_directory(1, {"orders-0": [(0, 1)]}, path=f"/d{n:05}", directory_id=f"d{n}") for n in range(8_000)]
    disks.append(replace(disks[7], path="/e"))
    began_s = time.process_time()
    kept, problems = refuse_doubles(disks)
    assert time.process_time() - began_s < 5
    assert kept == tuple(disks[:-1])
    assert [problem.reason for problem in problems] == [
        *["a live partition that /d00000 of the same broker holds too"] * 7_999,
        "node.id 1 with directory.id d7 is already read from /d00007",
    ]

"""FIFOs and giants among the segments cost a quarantine row each, and neither a hang nor memory. Oracle: what was put there."""

from __future__ import annotations

import os

import pytest

from pipeline.codec.log.index_files import read_offset_index, read_transaction_index
from pipeline.codec.log.regular_files import MOST_SMALL_BYTES, read_small
from pipeline.codec.log.segment import scan_headers
from pipeline.sources.files.log_directories import discover_logs
from tests.batches import make_batch, make_records


@pytest.fixture
def partition(tmp_path):
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / f"{0:020d}.log").write_bytes(make_batch(make_records(2)))
    return folder


def problems_of(folder):
    tree = discover_logs([folder.parent])
    assert [segment.base_offset for _, _, segment in tree.iter_segments()] == [0]
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


@pytest.mark.parametrize("read", [read_transaction_index, read_small])
def test_small_files_have_a_bound(tmp_path, read):
    with (tmp_path / "x").open("wb") as file:
        file.truncate(MOST_SMALL_BYTES + 1)
    with pytest.raises(OSError, match="more than 16 MiB"):
        read(tmp_path / "x")

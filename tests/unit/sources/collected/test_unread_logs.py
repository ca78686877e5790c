"""What collectors did not read, or deleted, is missing in the windows that need it."""

import errno
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipeline.codec.log.segment import scan_headers
from pipeline.model.log import Problem
from pipeline.model.window import TimeWindow
from pipeline.sources.collected import collector
from pipeline.sources.collected.partition_scan import _cut
from tests.unit.sources.collected.disks import (
    DAY_MS,
    FIRST_MS,
    HOUR_MS,
    NOW_MS,
    Disk,
    manifest_of,
    read_landing,
    restate,
    rewrite,
    run_collector,
    state_of,
    tell,
    weigh,
)
from tests.unit.sources.collected.forgery import ALL_OFFSETS, BATCHES, END, own_partitions, read_offsets


def collect_first(config, landing, tmp_path, **fields):
    """Collects broker 1 once more; what the window then has."""
    run_collector(config, SimpleNamespace(root=tmp_path / "disk1"), landing, **fields)
    tell(landing, "broker-1", *own_partitions())
    return weigh(landing, read_landing(landing))


def test_a_window_of_which_a_collector_deleted_its_parts_lacks_that_broker(config, three, tmp_path):
    """Shares were those of the other brokers: where one host keeps parts for less long, or its clock runs ahead for a day."""
    collect_first(config, three, tmp_path, as_of_ms=NOW_MS + 8 * DAY_MS)
    found = collect_first(config, three, tmp_path)
    assert read_offsets(config, three).keys() == {1, 2}
    assert (found.expected_count, found.arrived_count) == (3, 2)
    assert found.missing.endswith("parts were deleted (`collect --keep`) by broker-1")


def leave_out(config, _):
    """The host has an older copy of the configuration."""
    return config.model_copy(
        update={"clusters": {"demo": config.clusters["demo"].model_copy(update={"topics": ("other*",)})}}
    )


def fail(config, monkeypatch):
    """The disk answers with errors of input and output."""

    def read(reads, *_, **__):
        raise OSError(errno.EIO, "Input/output error", reads[0].path)

    monkeypatch.setattr(collector, "read_partition", read)
    return config


@pytest.mark.parametrize("harm", [leave_out, fail])
def test_what_a_collector_did_not_read_of_its_broker_is_missing(config, three, tmp_path, monkeypatch, harm):
    shutil.rmtree(f"{three.location}/broker-1")
    found = collect_first(harm(config, monkeypatch), three, tmp_path)
    assert read_offsets(config, three).keys() == {1, 2}
    assert (found.expected_count, found.arrived_count) == (4, 3)
    assert found.missing == "logs that collectors could not read, or leave out (`topics`): orders-0"
    monkeypatch.undo()
    assert collect_first(config, three, tmp_path).missing == ""
    assert read_offsets(config, three) == ALL_OFFSETS


GONE = "records were gone before they were read, by retention or a purge (`topics` leaves topics out): of orders-0"
LEFT = "logs that collectors could not read, or leave out (`topics`): orders-0"


@pytest.mark.parametrize("is_first", [True, False])
def test_a_last_segment_that_cannot_be_opened_is_missing(config, three, tmp_path, is_first):
    """What was read before was all there was to the window."""
    if is_first:
        shutil.rmtree(f"{three.location}/broker-1")
    log = tmp_path / "disk1/orders-0"
    (log / f"{END if not is_first else 0:020d}.log").unlink(missing_ok=True)
    (log / f"{END if not is_first else 0:020d}.log").symlink_to(tmp_path / "nowhere")
    found = collect_first(config, three, tmp_path)
    assert (found.expected_count, found.arrived_count) == (4, 3)
    assert found.missing == "logs that collectors could not read, or leave out (`topics`): orders-0"


@pytest.mark.parametrize(("is_rolled", "missing"), [(False, LEFT), (True, GONE)])
def test_what_is_behind_a_damaged_batch_is_missing(config, three, tmp_path, is_rolled, missing):
    """Of a segment under way it was taken for half a batch that is being written, for as long as nobody rolled it."""
    shutil.rmtree(f"{three.location}/broker-1")
    log = tmp_path / "disk1/orders-0"
    data, at = bytearray(b"".join(BATCHES)), len(b"".join(BATCHES[:10]))
    data[at + 8 : at + 12] = b"\x7f\xff\xff\xff"
    (log / f"{0:020d}.log").write_bytes(data)
    if is_rolled:
        (log / f"{END:020d}.log").touch()
    (tmp_path / "disk1/replication-offset-checkpoint").write_text(f"0\n1\norders 0 {END}\n")
    for _ in range(2):
        assert collect_first(config, three, tmp_path).missing == missing


def test_a_segment_between_others_that_cannot_be_opened_is_missing(config, three, tmp_path):
    shutil.rmtree(f"{three.location}/broker-1")
    log = tmp_path / "disk1/orders-0"
    for first, last in ((0, 8), (8, 12), (12, None)):
        (log / f"{ALL_OFFSETS[0][first]:020d}.log").write_bytes(b"".join(BATCHES[first:last]))
    held = log / f"{ALL_OFFSETS[0][8]:020d}.log"
    held.unlink()
    held.symlink_to(tmp_path / "nowhere")
    for _ in range(2):
        assert collect_first(config, three, tmp_path).missing == GONE


@pytest.mark.parametrize("is_follower", [False, True])
def test_a_log_that_left_its_leaders_disk_unread_is_missing_until_its_new_leaders_host_read_it(
    config, landing, tmp_path, is_follower
):
    """It was reassigned: the old leader's host had it no more, the new one's had been read just before, and the window was whole.

    So it was where the new leader's host had the log then as a follower, of which collectors read nothing.
    """
    disks = [Disk(tmp_path / f"disk{one}", one, one - 1) for one in (1, 2, 3)]
    (follower := Disk(tmp_path / "follower", 2, 0)).write(0, b"".join(BATCHES))
    shutil.copytree(follower.log, disks[1].root / "orders-0")
    states = [(FIRST_MS - HOUR_MS, state_of(1, 0, (1, 2), 0)), (FIRST_MS + 2 * HOUR_MS, state_of(3, 1, (3, 2), 0))]

    def visit(disk, at_ms):
        host = run_collector(config, disk, landing, as_of_ms=at_ms).host
        tell(landing, host, *states, *own_partitions()[1:])
        return weigh(landing, read_landing(landing), TimeWindow(FIRST_MS, FIRST_MS + HOUR_MS)).missing

    for disk in disks:
        disk.write(0, b"".join(BATCHES[:3]), 10**9)
        visit(disk, FIRST_MS + 90_000)
        disk.write(0, b"".join(BATCHES), 10**9)
    if is_follower:
        shutil.copytree(follower.log, disks[2].root / "orders-0")
    visit(disks[2], FIRST_MS + HOUR_MS + 1)
    led = [one for one in manifest_of(landing, "broker-3").progress if one.partition == 2]
    rewrite(landing, "broker-3", lambda _: {"progress": tuple(led)})
    shutil.rmtree(disks[0].log)
    visit(disks[0], NOW_MS)
    assert visit(disks[1], NOW_MS) == LEFT
    shutil.copytree(follower.log, disks[2].root / "orders-0", dirs_exist_ok=True)
    assert visit(disks[2], NOW_MS) == ""


def test_hosts_of_several_clusters_are_named_and_their_windows_are_not_complete(three):
    reading = read_landing(three)
    whole = weigh(three, reading)
    assert (whole.missing, whole.arrived_count) == ("", whole.expected_count)
    shutil.copytree(Path(three.location) / "broker-1", Path(three.location) / "a-1")  # a host of a smaller cluster
    restate(three, "a-1", lambda state: {"directories": (replace(state.directories[0], cluster_id="a"),)})
    found = weigh(three, read_landing(three))
    assert "several Kafka clusters" in found.missing
    assert "a-1 (cluster.id a), broker-1 (cluster.id c)" in found.missing
    assert found.arrived_count < found.expected_count


WHOLE_FILE = Problem(path="x", reason="of the whole file")


@pytest.mark.parametrize("is_active", [True, False])
def test_a_problem_without_a_position_is_told_wherever_the_cut_is(tmp_path, is_active):
    """Of those with a position only what lies in the part that is collected, all where the segment is complete."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(BATCHES))
    headers = scan_headers(path)
    beyond = Problem(path="x", reason="beyond", position=headers.file_bytes)
    headers = replace(headers, problems=(WHOLE_FILE, beyond))
    read = SimpleNamespace(is_active=is_active, high_watermark=-1)
    found, is_end = _cut(headers, read, is_last=True)
    assert (len(found), is_end) == (len(headers), not is_active)
    assert found.problems == ((WHOLE_FILE,) if is_active else (WHOLE_FILE, beyond))

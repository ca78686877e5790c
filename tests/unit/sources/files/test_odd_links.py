"""Links whose target cannot be looked at cost a problem each and nothing else. Oracle: what was put there.

`Path.is_file` and its kin raise where a target's name is too long, or its folder may not be entered.
"""

import os
import subprocess
import time

import pytest

from pipeline.codec.log.log_directory import parse_meta_properties
from pipeline.errors import InputError
from pipeline.sources.collected.stored_folder import StoredFolder
from pipeline.sources.files.directory_walk import DirectoryWalk, list_files
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.kinds.metrics import ProducerMetrics
from pipeline.sources.metrics.metric_pages import discover_pages
from tests.batches import make_batch, make_records

TOO_LONG = "a" * 300
TARGETS = {"too long": TOO_LONG, "a loop": "odd", "nowhere": "nothing"}
odd_targets = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


@odd_targets
def test_in_a_folder_of_texts(tmp_path, target):
    (tmp_path / "fine.json").write_text("{}")
    (tmp_path / "odd.json").symlink_to(target.replace("odd", "odd.json"))
    problems = []
    assert list(list_files([tmp_path], ["*.json"], problems)) == [tmp_path / "fine.json"]
    assert list(list_files([tmp_path / "odd.json"], ["*.json"], problems)) == []


@odd_targets
def test_in_place_of_an_instance_of_scrapes(tmp_path, target):
    (tmp_path / "fine").mkdir()
    (tmp_path / "fine/1700000000000.prom").write_text("")
    (tmp_path / "odd").symlink_to(target)
    pages, _ = discover_pages(tmp_path, "scrapes", ProducerMetrics)
    assert [page.instance for page in pages] == ["fine"]


@odd_targets
def test_in_a_landing_folder(tmp_path, target):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/fine").write_text("")
    (tmp_path / "parts/odd").symlink_to(target)
    folder = StoredFolder(str(tmp_path))
    assert [name for name, _, _ in folder.files("parts")] == ["parts/fine"]
    assert folder.folders() == ["parts"]
    (tmp_path / "odd").symlink_to(target)
    if target == "nothing":
        assert folder.read("odd") is None
    else:
        with pytest.raises(InputError, match="cannot be read"):
            folder.read("odd")
    assert folder.folders() == ["parts"]


def test_a_link_in_place_of_parts_is_not_walked(tmp_path):
    for name in ("landing", "machine"):
        (tmp_path / name).mkdir()
    (tmp_path / "machine/file").write_text("")
    (tmp_path / "landing/parts").symlink_to(tmp_path / "machine")
    assert StoredFolder(str(tmp_path / "landing")).files("parts") == []


@pytest.fixture
def endless(tmp_path):
    """A folder in a folder in a folder: deeper than Python calls, so that pytest could not delete it."""
    depth, name = 0, "d" * 200
    inner = os.open(tmp_path, os.O_RDONLY)
    while depth < 1_100:  # by path names of the kernel it goes no further than 4,096 characters
        os.mkdir(name, dir_fd=inner)
        below = os.open(name, os.O_RDONLY, dir_fd=inner)
        os.close(inner)
        inner, depth = below, depth + 1
    os.close(inner)
    yield tmp_path
    subprocess.run(["rm", "-r", tmp_path / name], check=True)


def test_folders_in_folders_without_an_end(endless):
    (endless / "fine.json").write_text("{}")
    problems = []
    assert list(list_files([endless], ["*.json"], problems)) == [endless / "fine.json"]
    assert [problem.reason for problem in problems] == ["cannot be listed: File name too long"]


@pytest.fixture
def disk(tmp_path):
    """A log directory with one partition."""
    partition = tmp_path / "logs/b1/orders-0"
    partition.mkdir(parents=True)
    (partition / f"{0:020d}.log").write_bytes(make_batch(make_records(2)))
    (partition.parent / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    return partition.parent


def test_links_of_a_folder_to_itself_are_looked_behind_once(tmp_path):
    for number in range(1_000):
        (tmp_path / f"t-{number}").symlink_to(".")
    began_s = time.process_time()
    assert discover_logs([tmp_path]).directories == ()
    assert time.process_time() - began_s < 10


def test_a_farm_of_links_to_log_directories_is_read(tmp_path, disk):
    """As admins make them, links to partitions and files included."""
    (tmp_path / "logs/all").mkdir()
    (tmp_path / "logs/all/disk").symlink_to(disk.rename(disk.with_name("real")))
    other = tmp_path / "logs/other"
    (other / "orders-1").mkdir(parents=True)
    (other / "kept.log").write_bytes(make_batch(make_records(2)))
    (other / f"orders-1/{0:020d}.log").symlink_to("../kept.log")
    (other / "meta").write_text("version=1\nnode.id=2\ncluster.id=c\n")
    (other / "meta.properties").symlink_to("meta")
    tree = discover_logs([tmp_path / "logs"])
    assert [problem for problem in tree.problems if problem.severity == "refused"] == []
    assert [(log.broker_id, part.partition, len(part.segments)) for log, part in tree.iter_partitions()] == [
        (1, 0, 1),
        (2, 1, 1),
    ]


class Swapped(DirectoryWalk):
    """A walk beside a host that puts a link in place of a file once its folder was listed."""

    def __init__(self, target):
        super().__init__()
        self.target = target

    def list(self, path):
        listing = super().list(path)
        for file in listing.files.values():
            file.unlink()
            file.symlink_to(self.target)
        return listing


@pytest.mark.parametrize(
    "read",
    [
        lambda listing, walk: walk.parse(listing.files["meta.properties"], parse_meta_properties, None),
        lambda listing, walk: walk.read_start(listing.files["meta.properties"], 64),
    ],
)
def test_a_link_put_in_place_of_a_file_that_was_listed_is_not_followed(tmp_path, disk, read):
    (tmp_path / "secret").write_text("version=1\nnode.id=4711\ncluster.id=SECRET\n")
    walk = Swapped(tmp_path / "secret")
    walk.enter(tmp_path / "logs")
    assert read(walk.list(disk), walk) is None
    assert "cannot be read: " in walk.problems[-1].reason


def test_the_owner_of_a_partition_given_alone_is_not_read_through_a_link_that_leads_out(tmp_path, disk):
    owner = disk / "meta.properties"
    for target, broker_ids in ((disk / "own", (1,)), (tmp_path / "own", ())):
        owner.rename(target)
        owner.symlink_to(target)
        tree = discover_logs([disk / "orders-0"])
        assert tree.broker_ids == broker_ids
        assert [p.reason for p in tree.problems if p.severity == "refused"] == [
            f"a link that leads out of the source root {disk}"
        ] * (not broker_ids)
        owner.unlink()
        target.rename(owner)


@odd_targets
def test_in_place_of_the_owner_of_a_partition_given_alone(disk, target):
    (disk / "meta.properties").unlink()
    (disk / "meta.properties").symlink_to(target.replace("odd", "meta.properties"))
    assert discover_logs([disk / "orders-0"]).broker_ids == ()

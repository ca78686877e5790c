"""Links whose target cannot be looked at cost a problem each and nothing else. Oracle: what was put there.

`Path.is_file` and its kin raise where a target's name is too long, or its folder may not be entered.
"""

import os
import subprocess

import pytest

from pipeline.errors import InputError
from pipeline.sources.collected.stored_folder import StoredFolder
from pipeline.sources.files.directory_walk import list_files
from pipeline.sources.kinds.producer_metrics import ProducerMetrics
from pipeline.sources.metrics.metric_pages import discover_pages

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


def test_an_instance_may_be_a_link_within_the_folder_of_scrapes_and_not_out_of_it(tmp_path):
    for name in ("scrapes/fine", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "1700000000000.prom").write_text("")
    (tmp_path / "scrapes/within").symlink_to("fine")
    (tmp_path / "scrapes/without").symlink_to("../elsewhere")
    pages, problems = discover_pages(tmp_path / "scrapes", "scrapes", ProducerMetrics)
    assert [page.instance for page in pages] == ["fine", "within"]
    assert [problem.reason for problem in problems] == [f"a link that leads out of {tmp_path / 'scrapes'}"]


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

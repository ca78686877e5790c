"""Commits on the disk, and damaged tables. Oracle: the files a commit leaves, and what a person reads."""

import json
import os
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pipeline.errors import StorageError
from pipeline.storage.durability import find_version, open_table
from pipeline.storage.frames import rows_of
from pipeline.storage.rows import insert_rows, load_rows
from pipeline.storage.tables_on_disk import ensure_tables, table_path
from pipeline.tables.incidents import ALERT_OUTBOX
from tests.unit.storage.test_outbox import queue


@pytest.fixture
def synced(monkeypatch):
    """Paths that were synced, in order."""
    paths = []
    real = os.fsync

    def fsync(descriptor):
        paths.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return paths


@pytest.fixture
def outbox(tmp_path):
    """A warehouse with an empty outbox."""
    ensure_tables(tmp_path, (ALERT_OUTBOX,))
    return tmp_path


def refusal(refused, *arguments, match=None):
    """The one line in which something is refused."""
    with pytest.raises(StorageError, match=match) as raised:
        refused(*arguments)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def files_of(folder):
    return {path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".crc")}


def test_all_that_a_commit_writes_is_synced_and_the_folders_that_name_it(synced, outbox):
    folder = table_path(outbox, ALERT_OUTBOX)
    made = set(synced)
    synced.clear()
    before = files_of(folder)
    queue(outbox, "a", "b")

    assert before <= made
    written = files_of(folder) - before
    assert {path.suffix for path in written} == {".parquet", ".json"}
    assert written <= set(synced)
    assert {path.parent for path in written} <= set(synced)
    log = folder / "_delta_log"
    for number, path in enumerate(synced):
        if path.suffix == ".json":  # what it names is there before it, and it before its name
            assert {*synced[:number]} >= {one for one in written if one.suffix == ".parquet"} | {folder}
            assert log in synced[number + 1 :]


def test_a_new_table_has_its_names_synced(tmp_path, synced):
    ensure_tables(tmp_path / "warehouse", (ALERT_OUTBOX,))
    folder = table_path(tmp_path / "warehouse", ALERT_OUTBOX)
    assert {folder, *folder.parents[:2], tmp_path} <= set(synced)


def last_commit(folder):
    return max((folder / "_delta_log").glob("*.json"))


def cut(path, size):
    path.write_bytes(path.read_bytes()[:size])


def remove_data(folder):
    for path in folder.rglob("*.parquet"):
        path.unlink()


def last_data(folder):
    return max(folder.glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)


CUT = r"the last commit is empty or cut.*delete that file"
DAMAGES = {
    "last commit empty": (lambda folder: cut(last_commit(folder), 0), CUT),
    "last commit cut": (lambda folder: cut(last_commit(folder), 40), CUT),
    "data of the last commit empty": (lambda folder: cut(last_data(folder), 0), r"or its data are.*delete that file"),
    "a commit gone": (lambda folder: min((folder / "_delta_log").glob("*.json")).unlink(), r"restore this folder"),
    "data gone": (remove_data, r"not found.*restore this folder"),
    "log gone": (lambda folder: shutil.rmtree(folder / "_delta_log"), r"restore this folder"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_table_is_refused_in_one_line_with_what_to_do(outbox, damage):
    queue(outbox, "a")
    queue(outbox, "b")
    harm, words = DAMAGES[damage]
    harm(table_path(outbox, ALERT_OUTBOX))

    assert str(table_path(outbox, ALERT_OUTBOX)) in refusal(load_rows, outbox, ALERT_OUTBOX, match=words)


def be_fifo(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("which", [0, -1], ids=["the first commit", "the last commit"])
@pytest.mark.parametrize("harm", [be_fifo, lambda path: os.truncate(path, (256 << 20) + 1)], ids=["a FIFO", "a giant"])
def test_a_log_that_nobody_would_come_to_the_end_of_is_refused_in_one_line(outbox, harm, which):
    queue(outbox, "a")
    shutil.copytree(outbox / "gold", outbox / "after" / "gold")  # what this process keeps of the table is no help
    odd = sorted((table_path(outbox / "after", ALERT_OUTBOX) / "_delta_log").glob("*.json"))[which]
    harm(odd)
    assert str(odd) in refusal(load_rows, outbox / "after", ALERT_OUTBOX, match="restore this folder")


def test_a_data_file_that_nobody_would_come_to_the_end_of_is_refused_in_one_line(outbox):
    queue(outbox, "a")
    (first,) = table_path(outbox, ALERT_OUTBOX).rglob("*.parquet")
    queue(outbox, "b")
    shutil.copytree(outbox / "gold", outbox / "after" / "gold")  # what this process keeps of the table is no help
    odd = outbox / "after" / first.relative_to(outbox)
    be_fifo(odd)
    folder = table_path(outbox / "after", ALERT_OUTBOX)
    assert str(odd) in refusal(open_table, folder, match=r"not a regular file.*restore this folder")


def commit(folder, *actions):
    """As another program writes one."""
    number = len(list((folder / "_delta_log").glob("*.json")))
    (folder / f"_delta_log/{number:020d}.json").write_text("".join(f"{json.dumps(one)}\n" for one in actions))


FOREIGN = {
    "a newer reader": ({"minReaderVersion": 99, "minWriterVersion": 99}, "nothing is damaged"),
    "a feature of readers": (
        {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["later"], "writerFeatures": ["later"]},
        "nothing is damaged",
    ),
    "a feature of writers": (
        {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["rowTracking", "domainMetadata"]},
        "RowTracking.*nothing is damaged",
    ),
}


@pytest.mark.parametrize("protocol", FOREIGN)
def test_a_table_that_another_program_raised_is_refused_in_one_line_and_called_neither_damaged_nor_busy(
    outbox, protocol
):
    queue(outbox, "a")
    given, words = FOREIGN[protocol]
    commit(table_path(outbox, ALERT_OUTBOX), {"protocol": given})
    refusal(queue, outbox, "b", match=words)


@pytest.mark.parametrize("feature", ["deletionVectors", "columnMapping"])
def test_a_table_whose_files_do_not_say_which_rows_it_has_is_not_read(outbox, feature):
    """Tasks read and replace files as they are: rows deleted by a vector came back, and all others of its file twice."""
    queue(outbox, "a")
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [feature], "writerFeatures": [feature]}
    commit(table_path(outbox, ALERT_OUTBOX), {"protocol": protocol})
    refusal(load_rows, outbox, ALERT_OUTBOX, match=f"{feature}.*nothing is damaged.*DROP FEATURE")


def test_a_table_with_features_that_leave_its_files_as_they_are_is_read(outbox):
    queue(outbox, "a")
    given = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["timestampNtz"]}
    commit(table_path(outbox, ALERT_OUTBOX), {"protocol": {**given, "writerFeatures": ["timestampNtz"]}})
    assert load_rows(outbox, ALERT_OUTBOX).num_rows == 1


def test_a_commit_that_names_a_file_elsewhere_is_one_line(outbox):
    folder = table_path(outbox, ALERT_OUTBOX)
    elsewhere = {"path": "file:///etc/hostname", "partitionValues": {}, "size": 1, "modificationTime": 0}
    commit(folder, {"add": {**elsewhere, "dataChange": True}})
    assert refusal(load_rows, outbox, ALERT_OUTBOX).startswith(f"{folder}")


def test_no_row_is_added_to_a_table_whose_last_commit_may_be_lost(outbox):
    queue(outbox, "a")
    cut(last_commit(table_path(outbox, ALERT_OUTBOX)), 0)

    refusal(insert_rows, rows_of(ALERT_OUTBOX, [], run_id="r"), outbox, ALERT_OUTBOX, match="delete that file")
    refusal(ensure_tables, outbox, (ALERT_OUTBOX,), match="delete that file")


def test_a_log_is_read_again_only_where_it_changed(outbox):
    path = table_path(outbox, ALERT_OUTBOX)
    first = open_table(path)
    assert open_table(path) is first
    DeltaTable(path).alter.set_table_name("as another process does")
    second = open_table(path)
    assert second is not first
    assert (first.version(), second.version()) == (0, 1)
    queue(outbox, "a")  # this process's own commit leaves the newest state behind
    assert open_table(path).version() == 2
    assert load_rows(outbox, ALERT_OUTBOX).num_rows == 1


def test_a_restored_table_of_the_same_version_is_read_again(outbox):
    path, copy = table_path(outbox, ALERT_OUTBOX), outbox / "copy"
    shutil.copytree(path, copy)
    queue(outbox, "a")
    shutil.rmtree(path)
    shutil.copytree(copy, path)
    queue(outbox, "b", "c")
    shutil.copytree(path, outbox / "other")
    shutil.rmtree(path)
    shutil.copytree(copy, path)
    queue(outbox, "d")
    shutil.rmtree(path)
    shutil.copytree(outbox / "other", path)
    assert load_rows(outbox, ALERT_OUTBOX)["message_id"].to_pylist() == ["b", "c"]


def test_a_log_is_checkpointed_every_ten_commits(outbox):
    for number in range(11):
        queue(outbox, f"m{number}")
    log = table_path(outbox, ALERT_OUTBOX) / "_delta_log"
    assert [path.name[:20] for path in log.glob("*.checkpoint.parquet")] == [f"{9:020d}"]
    assert open_table(table_path(outbox, ALERT_OUTBOX)).count() == 11


@pytest.mark.parametrize("kept_bytes", [0, 500])
def test_a_checkpoint_that_a_power_cut_left_torn_is_dropped(outbox, kept_bytes):
    for number in range(12):
        queue(outbox, f"m{number}")
    copy = outbox / "after"  # another path: what this process keeps of the table is no help
    shutil.copytree(outbox / "gold", copy / "gold")
    (checkpoint,) = copy.rglob("*.checkpoint.parquet")
    cut(checkpoint, kept_bytes)
    assert load_rows(copy, ALERT_OUTBOX).num_rows == 12
    queue(copy, "one more")
    assert load_rows(copy, ALERT_OUTBOX).num_rows == 13


def test_checkpoints_are_synced_before_the_commits_they_stand_for(synced, outbox):
    for number in range(9):
        queue(outbox, f"m{number}")
    names = [path.name for path in synced]
    assert names.index(f"{9:020d}.checkpoint.parquet") < names.index("_last_checkpoint") < names.index(f"{9:020d}.json")


def test_a_commit_that_another_writer_has_not_named_yet_counts_for_nothing(outbox):
    log = table_path(outbox, ALERT_OUTBOX) / "_delta_log"
    (log / "00000000000000000001.json#1").symlink_to(
        log / "gone"
    )  # as one that is renamed between a listing and a look
    assert find_version(table_path(outbox, ALERT_OUTBOX)) == 0
    assert open_table(table_path(outbox, ALERT_OUTBOX)).version() == 0


@pytest.mark.parametrize("name", ["{}.json.bak", "{}.json.1", "{}.json~", "{}.checkpoint.parquet.old"])
def test_a_commit_that_somebody_put_aside_counts_for_nothing(outbox, name):
    """Its number vouched for what was gone with it: windows stayed trusted whose rows no table held any more."""
    folder = table_path(outbox, ALERT_OUTBOX)
    kept = find_version(folder)
    queue(outbox, "a")
    last = last_commit(folder)
    last.rename(last.with_name(name.format(last.stem)))
    assert find_version(folder) == open_table(folder).version() == kept

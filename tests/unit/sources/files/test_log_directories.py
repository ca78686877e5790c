"""Discovery over trees made here: what is found, what is refused and why, and that the rest is found all the same."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from pipeline.model.log_tree import DirectoryKind
from pipeline.sources.files.log_directories import discover_logs

HEX = "0123456789abcdef" * 2
SEGMENT = "00000000000000000000.log"
BATCH = bytes(61)  # discovery looks for text only; batches are the codec's business
LONG_TOPIC = "t" * 249


def make_partition(path: Path, *base_offsets: int, indexes: bool = True) -> Path:
    path.mkdir(parents=True)
    for offset in base_offsets or (0,):
        (path / f"{offset:020d}.log").write_bytes(BATCH)
        if indexes:
            (path / f"{offset:020d}.index").touch()
            (path / f"{offset:020d}.timeindex").touch()
    (path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (path / "partition.metadata").write_text("version: 0\ntopic_id: gDY-1ROJSyK2s_UOjvrR2g")
    return path


def make_broker(path: Path, node_id: int, *partitions: str, directory_id: str | None = None) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    directory = f"directory.id={directory_id}\n" if directory_id else ""
    version = 1 if directory_id else 0
    name = "node.id" if directory_id else "broker.id"
    (path / "meta.properties").write_text(f"version={version}\n{name}={node_id}\ncluster.id=c\n{directory}")
    (path / "replication-offset-checkpoint").write_text(
        "\n".join(["0", str(len(partitions)), *(" ".join([*p.rsplit("-", 1), "5"]) for p in partitions), ""])
    )
    for partition in partitions:
        make_partition(path / partition)
    return path


def names(tree) -> list[tuple[int | None, str]]:
    return [(directory.broker_id, Path(partition.path).name) for directory, partition in tree.iter_partitions()]


def reasons(tree, root: Path) -> list[tuple[str, int | None, str]]:
    return [(os.path.relpath(p.path, root), p.position, p.reason) for p in tree.problems]


@pytest.fixture
def two_brokers(tmp_path):
    root = tmp_path / "root"
    make_broker(root / "b0", 0, "orders-0", "clicks-1", directory_id="d0")
    make_broker(root / "b1", 1, "orders-1", directory_id="d1")
    return root


def test_a_tree_of_brokers(two_brokers):
    tree = discover_logs([two_brokers])
    assert names(tree) == [(0, "clicks-1"), (0, "orders-0"), (1, "orders-1")]
    assert tree.problems == ()
    assert (tree.broker_ids, [disk.cluster_id for disk in tree.directories]) == ((0, 1), ["c", "c"])
    first = tree.directories[0]
    assert first.directory_id == "d0"
    assert first.high_watermarks == {("orders", 0): 5, ("clicks", 1): 5}
    assert first.partitions[0].topic_id == "gDY-1ROJSyK2s_UOjvrR2g"
    assert first.partitions[0].leader_epochs[0].start_offset == 0


@pytest.mark.parametrize("path", ["b0", "b0/orders-0", f"b0/orders-0/{SEGMENT}"])
def test_any_depth_tells_the_broker(two_brokers, path):
    tree = discover_logs([two_brokers / path])
    assert (0, "orders-0") in names(tree)
    assert tree.broker_ids == (0,)
    assert tree.directories[0].high_watermarks[("orders", 0)] == 5
    assert tree.problems == ()


def test_segments_and_their_siblings(tmp_path):
    path = make_partition(tmp_path / "orders-0", 0, 500, 90)
    (path / "00000000000000000500.txnindex").touch()
    (path / "00000000000000000500.snapshot").touch()
    for offset, ending in ((7, "deleted"), (8, "cleaned"), (90, "swap")):
        (path / f"{offset:020d}.log.{ending}").write_bytes(BATCH)
    (partition,) = (p for _, p in discover_logs([path]).iter_partitions())
    assert [(s.base_offset, s.is_active) for s in partition.segments] == [(0, False), (90, False), (500, True)]
    assert partition.segments[2].txn_index_path == str(path / "00000000000000000500.txnindex")
    assert partition.segments[0].txn_index_path is None
    assert partition.snapshot_paths == (str(path / "00000000000000000500.snapshot"),)
    assert partition.size_bytes == 3 * len(BATCH)


def test_moving_directories_and_long_topics(tmp_path):
    make_broker(tmp_path, 0, f"{LONG_TOPIC}-3")
    for kind in ("delete", "stray", "future"):
        make_partition(tmp_path / f"orders-0.{HEX}-{kind}")
    tree = discover_logs([tmp_path])
    assert [(p.topic, p.partition, p.kind.value) for _, p in tree.iter_partitions()] == [
        ("orders", 0, "delete"),
        ("orders", 0, "future"),
        ("orders", 0, "stray"),
        (LONG_TOPIC, 3, "live"),
    ]
    assert [p.topic for _, p in tree.iter_partitions(kind=DirectoryKind.LIVE)] == [LONG_TOPIC]


def log_of(root, name=SEGMENT):
    return root / "b0/orders-0" / name


def link_out(root, name, make):
    make(root.parent / "outside")
    (root / name).symlink_to(root.parent / "outside")


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
MARKS, EPOCHS, OUT = "replication-offset-checkpoint", "leader-epoch-checkpoint", f"b0/orders-0/{7:020d}.log"
CRLF_MARKS = b"0\r\n1\r\norders 0 5\r\n"
SPOIL = {
    "pointer": lambda root: log_of(root).write_text(POINTER),
    "text": lambda root: log_of(root).write_text("[2024-11-21 10:00:00] INFO started\n"),
    "stranger": lambda root: log_of(root, "server.log").write_bytes(BATCH),
    "bad name": lambda root: (root / "b0/orders-0").rename(root / "b0/orders"),
    "too long a topic": lambda root: (root / "b0/orders-0").rename(root / f"b0/{'t' * 250}-0"),
    "no indexes": lambda root: [log_of(root, f"{0:020d}.{ending}").unlink() for ending in ("index", "timeindex")],
    "no segments": lambda root: log_of(root).unlink(),
    "empty directory": lambda root: (root / "b2").mkdir(),
    "broken checkpoint": lambda root: (root / "b0" / MARKS).write_text("0\n1\norders 0\n"),
    "CRLF checkpoint": lambda root: (root / "b0" / MARKS).write_bytes(CRLF_MARKS),
    "CRLF epochs": lambda root: log_of(root, EPOCHS).write_bytes(b"0\r\n1\r\n0 0\r\n"),
    "broken meta": lambda root: (root / "b0/meta.properties").write_text("version=9\n"),
    "link out": lambda root: link_out(root, "b0/secret-0", make_partition),
    "file link out": lambda root: link_out(root, OUT, lambda path: path.write_bytes(BATCH)),
    "dangling link": lambda root: (root / "b0/gone-0").symlink_to(root / "nowhere"),
    "copy of a disk": lambda root: shutil.copytree(root / "b0", root / "copy"),
}
"""What is done to the healthy tree."""


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        ("pointer", (f"b0/orders-0/{SEGMENT}", 0, "a Git LFS pointer", "refused")),
        ("text", (f"b0/orders-0/{SEGMENT}", 0, "a text file, not a log", "refused")),
        ("stranger", ("b0/orders-0/server.log", None, "expected <20 digits>.log", "refused")),
        ("bad name", ("b0/orders", None, "a number after the last dash", "refused")),
        ("too long a topic", (f"b0/{'t' * 250}-0", None, "at most 249 characters", "refused")),
        ("no indexes", (f"b0/orders-0/{SEGMENT}", None, "no .index and no .timeindex", "suspect")),
        ("no segments", ("b0/orders-0", None, "without a segment file", "refused")),
        ("empty directory", ("b2", None, "an empty directory", "refused")),
        ("broken checkpoint", (f"b0/{MARKS}", 3, "expected `topic partition offset`", "refused")),
        ("CRLF checkpoint", (f"b0/{MARKS}", 1, "CRLF", "suspect")),
        ("CRLF epochs", (f"b0/orders-0/{EPOCHS}", 1, "CRLF", "suspect")),
        ("broken meta", ("b0/meta.properties", 1, "version 9, expected 0 or 1", "refused")),
        ("link out", ("b0/secret-0", None, "leads out of the source root", "refused")),
        ("file link out", (OUT, None, "leads out of the source root", "refused")),
        ("dangling link", ("b0/gone-0", None, "leads nowhere", "refused")),
        ("copy of a disk", ("copy", None, "directory.id d0 is already read from", "refused")),
    ],
)
def test_bad_input_is_one_problem_and_the_rest_is_found(two_brokers, spoil, expected):
    path, position, reason, severity = expected
    SPOIL[spoil](two_brokers)
    tree = discover_logs([two_brokers])
    (problem,) = tree.problems
    assert (os.path.relpath(problem.path, two_brokers), problem.position) == (path, position)
    assert reason in problem.reason
    assert problem.severity == severity
    found = {name for _, name in names(tree)}
    assert {"clicks-1", "orders-1"} <= found
    assert not {"secret-0", "orders"} & found


def test_a_directory_in_place_of_a_segment_file(two_brokers):
    """Stands for any file that cannot be read: works for root too, whom permissions do not stop."""
    log_of(two_brokers).unlink()
    log_of(two_brokers).mkdir()
    tree = discover_logs([two_brokers])
    (reason,) = (reason for path, _, reason in reasons(tree, two_brokers) if path == f"b0/orders-0/{SEGMENT}")
    assert reason == "a directory where a segment file was expected"
    assert (1, "orders-1") in names(tree)


@pytest.fixture
def as_nobody():
    """Runs as a user that may not read root's private files; without root, as the user who runs the tests."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_place():
    """A directory that every user may enter, unlike pytest's own."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    for directory in path.rglob("*-0"):
        directory.chmod(0o755)
    shutil.rmtree(path)


def test_no_permission(open_place, request):
    make_broker(open_place / "b0", 0, "closed-0", "open-1", "sealed-2")
    (open_place / "b0/closed-0").chmod(0o000)
    (open_place / "b0/sealed-2" / SEGMENT).chmod(0o000)
    request.getfixturevalue("as_nobody")
    tree = discover_logs([open_place])
    assert reasons(tree, open_place) == [
        ("b0/closed-0", None, "cannot be listed: Permission denied"),
        (f"b0/sealed-2/{SEGMENT}", None, "cannot be read: Permission denied"),
    ]
    assert [len(p.segments) for _, p in tree.iter_partitions()] == [1, 0]


def test_links_inside_the_root_are_followed_once(two_brokers):
    (two_brokers / "b0/aa-7").symlink_to(two_brokers / "b1/orders-1")
    (two_brokers / "loop").symlink_to(two_brokers)
    tree = discover_logs([two_brokers])
    assert sorted(Path(p.path).name for _, p in tree.iter_partitions()) == ["aa-7", "clicks-1", "orders-0"]
    assert tree.problems == ()


@pytest.mark.parametrize(
    ("second_id", "second_partition", "brokers", "problems"),
    [
        ("d0", "other-0", 1, ["already read from"]),
        ("d1", "other-0", 2, []),
        ("d1", "orders-0", 2, ["a live partition that"]),
        (None, "other-0", 2, []),
    ],
)
def test_one_node_in_two_directories(tmp_path, second_id, second_partition, brokers, problems):
    make_broker(tmp_path / "disk1", 0, "orders-0", directory_id="d0" if second_id else None)
    make_broker(tmp_path / "disk2", 0, second_partition, directory_id=second_id)
    tree = discover_logs([tmp_path])
    assert len(tree.directories) == brokers
    assert tree.broker_ids == (0,)
    assert len(tree.problems) == len(problems)
    assert all(part in problem.reason for part, problem in zip(problems, tree.problems, strict=True))


def test_a_copy_without_directory_ids_is_known_by_its_partitions(tmp_path):
    make_broker(tmp_path / "disk1", 0, "orders-0")
    make_broker(tmp_path / "disk2", 0, "orders-0", "clicks-0")
    tree = discover_logs([tmp_path])
    assert names(tree) == [(0, "orders-0")]
    assert "without directory.id holds partitions already read" in tree.problems[0].reason


def test_the_same_node_id_in_two_clusters_is_two_brokers(tmp_path):
    make_broker(tmp_path / "a", 0, "orders-0")
    make_broker(tmp_path / "b", 0, "orders-0")
    (tmp_path / "b/meta.properties").write_text("version=0\nbroker.id=0\ncluster.id=other\n")
    tree = discover_logs([tmp_path])
    assert names(tree) == [(0, "orders-0"), (0, "orders-0")]
    assert [disk.cluster_id for disk in tree.directories] == ["c", "other"]


def test_nothing_there(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/readme.md").write_text("no log")
    tree = discover_logs([tmp_path, tmp_path / "missing"])
    assert reasons(tree, tmp_path) == [
        (".", None, "no Kafka log in it"),
        ("missing", None, "No such file or directory"),
    ]


def test_paths_given_twice_or_one_in_another_count_once(two_brokers):
    paths = [two_brokers / "b0/orders-0", two_brokers, two_brokers / "b0", two_brokers / "b1/orders-1" / SEGMENT]
    tree = discover_logs(paths)
    assert names(tree) == [(0, "clicks-1"), (0, "orders-0"), (1, "orders-1")]
    assert [len(p.segments) for _, p in tree.iter_partitions()] == [1, 1, 1]
    assert tree.problems == ()


def test_files_given_one_by_one_are_one_partition_and_share_its_problems(two_brokers):
    folder = two_brokers / "b0/orders-0"
    for offset in (5, 9):
        shutil.copy(folder / SEGMENT, folder / f"{offset:020d}.log")
    SPOIL["CRLF checkpoint"](two_brokers)
    tree = discover_logs(sorted(folder.glob("*.log"), reverse=True))
    ((_, partition),) = tree.iter_partitions()
    assert [(s.base_offset, s.is_active) for s in partition.segments] == [(0, False), (5, False), (9, True)]
    assert partition.segments[0].index_path is not None
    assert len(tree.problems) == 1


def test_links_in_a_circle(two_brokers):
    (two_brokers / "one").symlink_to(two_brokers / "two")
    (two_brokers / "two").symlink_to(two_brokers / "one")
    tree = discover_logs([two_brokers, two_brokers / "one"])
    assert len(names(tree)) == 3
    assert [(path, reason) for path, _, reason in reasons(tree, two_brokers)][:2] == [
        ("one", "a link that leads nowhere"),
        ("two", "a link that leads nowhere"),
    ]
    assert len(tree.problems) == 3

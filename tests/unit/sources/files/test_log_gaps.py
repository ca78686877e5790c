"""What retention took of logs before they were read. Oracle: written out by hand; logs are real files."""

import os

from pipeline.model.cluster import ClusterHistory, Timeline
from pipeline.model.window import TimeWindow
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.files.log_gaps import find_cut_logs
from tests.batches import START_MS, make_batch, make_records
from tests.unit.sources.files.disks import A, write_log


def find_gaps(tree, topics=(), start_ms=0, as_of_ms=START_MS + 9000, **configs):
    of_topic = {key.replace("_", "."): value for key, value in configs.items()}
    return find_cut(tree, Timeline.always(of_topic), topics, start_ms=start_ms, as_of_ms=as_of_ms)


def find_cut(tree, configs, topics=(), **times):
    history = ClusterHistory(state_source="only_replica", topic_configs={"a": configs})
    return find_cut_logs(tree, history, topics, **times)


def test_what_is_before_the_first_batch_of_a_log_that_was_cut_is_a_gap(tmp_path):
    write_log(tmp_path / "d", "a-0", 50, START_MS)
    write_log(tmp_path / "d", "b-0", 0, START_MS)
    tree = discover_logs([tmp_path / "d"])
    assert find_gaps(tree) == {A: TimeWindow(0, START_MS + 2)}
    assert find_gaps(tree, ("b",)) == {}
    assert find_gaps(tree, as_of_ms=START_MS) == {A: TimeWindow(0, START_MS)}  # no stamp of the future counts
    (tmp_path / "d/a-0" / f"{50:020d}.log").unlink()
    assert find_gaps(tree) == {}  # retention took it just now: the scan tells


def test_a_log_that_retention_emptied_wholly_is_missing_until_then(tmp_path):
    """Nothing was left that said when: its load was missing silently."""
    write_log(tmp_path / "d", "a-0", 50, START_MS)
    write_log(tmp_path / "d", "b-0", 0, START_MS)
    emptied, begun = tmp_path / "d/a-0" / f"{50:020d}.log", tmp_path / "d/a-0" / f"{50:020d}.snapshot"
    emptied.write_bytes(b"")
    (tmp_path / "d/b-0" / f"{0:020d}.log").write_bytes(b"")  # nothing was ever in it
    tree = discover_logs([tmp_path / "d"])
    assert find_gaps(tree) == {A: TimeWindow(0, START_MS + 9000)}
    begun.touch()
    os.utime(begun, (0, START_MS / 1000 + 5))
    assert find_gaps(tree) == {A: TimeWindow(0, START_MS + 5000)}
    assert find_gaps(tree, start_ms=START_MS + 5000) == {}


def test_what_retention_took_of_an_idle_log_is_older_than_its_retention(tmp_path):
    """Else each topic that goes idle would once make a window incomplete; what its size has deleted may be younger."""
    write_log(tmp_path / "d", "a-0", 50, START_MS)
    (tmp_path / "d/a-0" / f"{50:020d}.log").write_bytes(b"")
    tree = discover_logs([tmp_path / "d"])
    assert find_gaps(tree, retention_ms="4000") == {A: TimeWindow(0, START_MS + 5000)}
    assert find_gaps(tree, retention_ms="4000", start_ms=START_MS + 5000) == {}
    assert find_gaps(tree, retention_ms="4000", retention_bytes="1000") == {A: TimeWindow(0, START_MS + 9000)}


def test_what_tiered_storage_took_from_a_local_log_is_missing(tmp_path):
    """`local.retention.ms` empties it long before `retention.ms`: its load was missing silently."""
    write_log(tmp_path / "d", "a-0", 50, START_MS)
    (tmp_path / "d/a-0" / f"{50:020d}.log").write_bytes(b"")
    tree, week = discover_logs([tmp_path / "d"]), {"retention.ms": "604800000", "local.retention.ms": "1000"}
    found = [
        find_cut(
            tree,
            Timeline.always(week | {"remote.storage.enable": is_tiered}),
            start_ms=START_MS,
            as_of_ms=START_MS + 9000,
        )
        for is_tiered in ("true", "false")
    ]
    assert found == [{A: TimeWindow(0, START_MS + 9000)}, {}]


def test_what_a_topic_lost_while_its_retention_was_short_is_missing(tmp_path):
    """Who purges a topic sets `retention.ms=1000` for some minutes, and then what it was before: its load was missing silently."""
    write_log(tmp_path / "d", "a-0", 50, START_MS)
    (tmp_path / "d/a-0" / f"{50:020d}.log").write_bytes(b"")
    tree, week, second = discover_logs([tmp_path / "d"]), {"retention.ms": "604800000"}, {"retention.ms": "1000"}

    def find(*changes):
        configs = Timeline(*zip(*changes, strict=True))
        return find_cut(tree, configs, start_ms=START_MS, as_of_ms=START_MS + 9000)

    purged = {A: TimeWindow(0, START_MS + 8000)}
    assert find((0, week)) == {}
    assert find((0, week), (START_MS + 1, second), (START_MS + 2, week)) == purged
    assert find((0, second), (START_MS + 1, week)) == purged
    assert find((0, second), (START_MS, week)) == {}  # it had taken what was older when the window began
    assert find((0, week), (START_MS + 1, None), (START_MS + 2, week)) == {A: TimeWindow(0, START_MS + 9000)}
    assert find((START_MS + 9, second)) == purged


def test_a_late_record_does_not_say_when_a_log_begins(tmp_path):
    """One phone that was offline hid that half of a window was gone."""
    write_log(tmp_path / "d", "a-0", 50, START_MS)
    log = tmp_path / "d/a-0" / f"{50:020d}.log"
    late = [make_records(1, base_offset=60 + at, start_ms=START_MS - 9_000 + 3_000 * at) for at in (0, 4, 5)]
    log.write_bytes(make_batch(late[0]) + log.read_bytes() + b"".join(map(make_batch, late[1:])))
    assert find_gaps(discover_logs([tmp_path / "d"])) == {A: TimeWindow(0, START_MS + 3_000)}


def test_what_was_deleted_is_older_than_the_segment_that_is_left(tmp_path):
    """A topic that is seldom written to: emptied days ago, and its next record came today."""
    write_log(tmp_path / "d", "a-0", 50, START_MS)
    snapshot = tmp_path / "d/a-0" / f"{50:020d}.snapshot"
    snapshot.touch()
    os.utime(snapshot, (0, START_MS / 1000 - 3600))
    tree = discover_logs([tmp_path / "d"])
    assert find_gaps(tree) == {A: TimeWindow(0, START_MS - 3_600_000)}
    assert find_gaps(tree, start_ms=START_MS - 3_600_000) == {}


def test_a_gap_is_found_without_reading_the_segment(tmp_path, monkeypatch):
    write_log(tmp_path / "d", "a-0", 50, START_MS)
    log = tmp_path / "d/a-0" / f"{50:020d}.log"
    log.write_bytes(log.read_bytes() * 50_000)
    read_bytes, pread = [], os.pread
    monkeypatch.setattr(os, "pread", lambda file, size, at: read_bytes.append(size) or pread(file, size, at))
    find_gaps(discover_logs([tmp_path / "d"]))
    assert sum(read_bytes) < 1 << 20

"""Keys of hand-made segments: what each window gets, and the rows that leave the worker.

Oracle: the records that were written, counted here; `hashlib` for ids.
"""

import hashlib
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from pipeline.codec.records.key_ids import KeySecret
from pipeline.codec.records.record_reader import iter_record_scans
from pipeline.errors import ConfigError
from pipeline.model.log import Codec, Record
from pipeline.model.window import TimeWindow
from pipeline.partitioners.hashes import HashName
from pipeline.sources.records.batch_rows import LeaderEpochs
from pipeline.sources.records.key_rows import KEY_SCHEMA, UNNAMED, WindowKeyCounter, make_hash_columns
from pipeline.sources.records.pieces import Kind
from pipeline.sources.records.record_scan import scan_file
from pipeline.sources.records.scan_settings import (
    NO_ANSWER,
    Question,
    ScanSettings,
    ask,
    ensure_secret,
    load_strategy,
    read_secret,
)
from pipeline.sources.records.segment_scan import scan_segment
from tests.arrivals import write_log
from tests.batches import START_MS, make_batch, make_marker, make_wrapper
from tests.oracles.hashes import hash_key

HOUR_MS = 3_600_000
FIRST_MS = START_MS - START_MS % HOUR_MS
SECRET = KeySecret(bytes(range(32)))
SETTINGS = ScanSettings(
    as_of_ms=FIRST_MS + 48 * HOUR_MS,
    span=TimeWindow(FIRST_MS, FIRST_MS + 3 * HOUR_MS),
    window_ms=HOUR_MS,
    max_distinct_keys=1000,
    secret=SECRET,
)
KEYS = (b"a", None, b"", b"\xff\xfe", b"a", b"longer than sixteen bytes")


def batch(base_offset, keys=KEYS, *, hour=0, **fields):
    records = [
        Record(offset=base_offset + i, timestamp_ms=FIRST_MS + hour * HOUR_MS + i, key=key, value=b"v" * 10)
        for i, key in enumerate(keys)
    ]
    return make_batch(records, **fields)


def segment(tmp_path, *batches, **fields):
    return replace(write_log(tmp_path, 2, batches), **fields)


def read_pieces(read, settings=SETTINGS):
    """Rows about keys, and rows that are not about one."""
    pieces = list(scan_file(read, settings, LeaderEpochs({}, {})))
    return [
        [row for kind, rows in pieces if kind is wanted for row in rows.to_pylist()]
        for wanted in (Kind.KEYS, Kind.OTHERS)
    ]


def count(read):
    """Window's hour → records by key (None for null keys), and the unreadable ones."""
    keys, others = read_pieces(read, replace(SETTINGS, clear_topics=frozenset({"orders"})))
    found = {}
    for row in (*keys, *others):
        by_key, unreadable = found.get((row["window_start_ms"] - FIRST_MS) // HOUR_MS, (Counter(), 0))
        if row.get("kind") == "unreadable":
            unreadable += row["record_count"]
        else:
            by_key[row.get("clear_key")] += row["record_count"]
        found[(row["window_start_ms"] - FIRST_MS) // HOUR_MS] = (by_key, unreadable)
    return found


def test_a_batch_belongs_to_one_window_with_all_its_records(tmp_path):
    late = batch(6, hour=1, max_timestamp_ms=FIRST_MS + 2 * HOUR_MS)
    read = segment(tmp_path, batch(0), late, batch(12, hour=2), batch(18, hour=7))
    assert count(read) == {0: (Counter(KEYS), 0), 2: (Counter(KEYS * 2), 0)}


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec(tmp_path, codec):
    assert count(segment(tmp_path, batch(0, codec=codec))) == {0: (Counter(KEYS), 0)}


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_the_legacy_formats(tmp_path, magic):
    records = [Record(offset=i, timestamp_ms=FIRST_MS + i, key=key, value=b"v") for i, key in enumerate(KEYS)]
    read = segment(tmp_path, make_wrapper(records, magic=magic))
    assert count(read) == ({0: (Counter(KEYS), 0)} if magic else {})  # magic 0 has no timestamps, so no window


def test_log_append_time_is_the_batch_s(tmp_path):
    appended = batch(0, hour=0, attributes=8, max_timestamp_ms=FIRST_MS + HOUR_MS)
    assert count(segment(tmp_path, appended)) == {1: (Counter(KEYS), 0)}


def test_what_is_no_data_or_not_committed_is_left_out(tmp_path):
    read = segment(tmp_path, batch(0), make_marker(6, timestamp_ms=FIRST_MS), batch(7), high_watermark=7)
    assert count(read) == {0: (Counter(KEYS), 0)}


def test_batches_that_cannot_be_read_are_counted_by_their_header(tmp_path):
    flipped = bytearray(batch(6))
    flipped[-1] ^= 1
    senseless = batch(18, record_count=1000)
    read = segment(tmp_path, batch(0), bytes(flipped), batch(12, codec=7, payload=b"x" * 60), senseless)
    assert count(read) == {0: (Counter(KEYS), 2 * len(KEYS))}


def test_a_file_that_is_gone_gives_nothing(tmp_path):
    read = segment(tmp_path, batch(0))
    Path(read.path).unlink()
    assert count(read) == {}


def rows_of(read, **changes):
    keys, others = read_pieces(read, replace(SETTINGS, **changes))
    return [{"kind": "key", **row} for row in keys] + [dict.fromkeys(KEY_SCHEMA.names) | row for row in others]


def test_rows_name_keys_by_id_and_hash(tmp_path):
    rows = {row["key_id"]: row for row in rows_of(segment(tmp_path, batch(0))) if row["kind"] == "key"}
    for key in set(KEYS) - {None}:
        row = rows[hashlib.blake2b(key, digest_size=16, key=SECRET.value).hexdigest()]
        assert (row["record_count"], row["is_empty"], row["clear_key"]) == (KEYS.count(key), key == b"", None)
        assert row["murmur2"] == hash_key(HashName.MURMUR2, key)
        assert (row["java_string"] is None) == (key == b"\xff\xfe")
    assert len(rows) == 4


def test_clear_keys_are_there_for_topics_that_may_be(tmp_path):
    rows = rows_of(segment(tmp_path, batch(0)), clear_topics=frozenset({"orders"}))
    assert {row["clear_key"] for row in rows if row["kind"] == "key"} == set(KEYS) - {None}
    others = rows_of(segment(tmp_path, batch(0)), clear_topics=frozenset({"payments"}))
    assert {row["clear_key"] for row in others} == {None}
    assert not {row["key_id"] for row in rows if row["key_id"]} & {row["key_id"] for row in others}


def test_beyond_the_limit_the_rows_say_how_far_they_may_be_off(tmp_path):
    keys = [b"%d" % (i % 7) for i in range(40)] + [b"heavy"] * 60
    rows = rows_of(segment(tmp_path, batch(0, keys)), max_distinct_keys=4)
    assert sum(row["record_count"] for row in rows) == 100
    (other,) = (row for row in rows if row["kind"] == "other_keys")
    heavy = hashlib.blake2b(b"heavy", digest_size=16, key=SECRET.value).hexdigest()
    (row,) = (row for row in rows if row["key_id"] == heavy)
    assert row["record_count"] <= 60 <= row["record_count"] + row["count_error"] + other["count_error"]
    assert 0 < other["count_error"] <= 100 / 2


def test_counts_only_rows_hold_no_id_and_no_hash(tmp_path):
    questions = (Question("orders", "java-builtin", "", 3), Question("payments", "java-builtin", "", 3))
    rows = rows_of(segment(tmp_path, batch(0)), secret=None, questions=questions)
    assert not any(row["key_id"] or row["clear_key"] or row["murmur2"] is not None for row in rows)
    cells = {row["chosen_partition"]: (row["key_count"], row["record_count"]) for row in rows if row["kind"] == "cell"}
    expected = Counter()
    keys = {}
    for key in filter(lambda key: key is not None, KEYS):
        place = (hash_key(HashName.MURMUR2, key) & 0x7FFFFFFF) % 3
        expected[place] += 1
        keys.setdefault(place, set()).add(key)
    assert cells == {place: (len(keys[place]), records) for place, records in expected.items()}
    assert {row["kind"]: row["record_count"] for row in rows if row["kind"] != "cell"} == {"no_key": 1, "other_keys": 5}
    assert {row["question"] for row in rows if row["kind"] == "cell"} == {0}


def test_counts_only_says_what_it_could_not_place(tmp_path):
    read = segment(tmp_path, batch(0, [b"%d" % i for i in range(9)]))
    asked = (Question("orders", "java-builtin", "", 3),)
    rows = rows_of(read, max_distinct_keys=2, secret=None, questions=asked)
    cells = {row["chosen_partition"]: row["record_count"] for row in rows if row["kind"] == "cell"}
    assert cells[UNNAMED] > 0
    assert sum(cells.values()) == 9


def strategy(name):
    full = f"tests.spark.key_strategies:{name}"
    return Question("orders", full, load_strategy(full)[1], 4)


@pytest.mark.parametrize(
    ("name", "keys", "answers", "failure"),
    [
        ("by_number", [b"user-250", b"user-3", b"x"], [2, 0, 0], None),
        (
            "by_address_range",
            [b"10.0.0.1", b"200.1.1.1", b"secret-key"],
            [0, 3, NO_ANSWER],
            "raised ValueError for 1 of 3",
        ),
        ("beyond", [b"secret-key"], [NO_ANSWER], "raised InputError for 1 of 1 keys; expected a partition, 0 to 3"),
        ("at_random", [b"secret-%d" % i for i in range(50)], [NO_ANSWER] * 50, "expected a function of the key"),
    ],
)
def test_what_a_users_strategy_does_wrong_costs_its_answers_alone(name, keys, answers, failure):
    said = ask(strategy(name), pa.array(keys, pa.large_binary()))
    assert said.partitions.tolist() == answers
    assert len(said.failures) == (failure is not None)
    assert failure is None or failure in said.failures[0]
    assert not any("secret" in text for text in said.failures)


def test_problems_of_strategies_come_as_rows(tmp_path):
    asked = (strategy("by_address_range"), strategy("by_number"))
    rows = rows_of(segment(tmp_path, batch(0, [b"10.0.0.1", b"secret-300"])), questions=asked)
    assert sorted(row["answers"] for row in rows if row["kind"] == "key") == [[-1, 3], [0, 0]]
    (problem,) = (row for row in rows if row["kind"] == "problem")
    assert "key_strategies:by_address_range (version" in problem["reason"]
    assert "secret" not in str(problem)


def test_a_strategy_of_another_version_is_not_asked():
    with pytest.raises(ConfigError, match=r"is version \w{16} here, 0123 on the driver"):
        ask(Question("orders", "tests.spark.key_strategies:beyond", "0123", 4), pa.array([b"a"], pa.large_binary()))


def test_few_keys_and_many_are_hashed_alike():
    keys = [b"", b"\xff\xfe", *(b"key-%d" % i for i in range(3000))]
    many = make_hash_columns(pa.array(keys, pa.large_binary()))
    few = make_hash_columns(pa.array(keys[:50], pa.large_binary()))
    assert {name: column.to_pylist()[:50] for name, column in many.items()} == {
        n: c.to_pylist() for n, c in few.items()
    }


def test_many_that_start_at_once_end_with_one_secret(tmp_path):
    path = tmp_path / "deployment" / "secret"
    together = threading.Barrier(8)

    def start(_):
        together.wait(60)
        ensure_secret(path)
        return path.read_text()

    for _ in range(20):
        with ThreadPoolExecutor(8) as starting:
            assert len(set(starting.map(start, range(8)))) == 1
        assert [each.name for each in path.parent.iterdir()] == ["secret"]
        path.unlink()


def test_a_secret_that_cannot_be_looked_for_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot be made at .*File name too long; set keys\.secret"):
        ensure_secret(tmp_path / ("s" * 300))


def test_the_secret_is_made_once_for_its_owner_alone(tmp_path):
    path = tmp_path / "deep" / "secret"
    ensure_secret(path)
    first = read_secret(path)
    ensure_secret(path)
    assert read_secret(path) == first
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["secret"]
    assert read_secret(tmp_path / "nowhere", "0a" * 32) == KeySecret(b"\n" * 32)


@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [
        ("0a" * 32, 0o640, "other users may read the secret for key ids: chmod 600"),
        ("0a" * 31, 0o600, "holds no secret; expected 64 hex digits"),
        ("passw0rd" * 8, 0o600, "holds no secret; expected 64 hex digits"),
    ],
)
def test_a_secret_that_is_none_is_refused_and_not_shown(tmp_path, content, mode, reason):
    path = tmp_path / "secret"
    path.write_text(content)
    path.chmod(mode)
    with pytest.raises(ConfigError, match=reason) as raised:
        read_secret(path)
    assert content[:8] not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_secret_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot be read at .*nowhere: No such file"):
        read_secret(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot be made at .*set keys\.secret"):
        ensure_secret(tmp_path / "file" / "secret")


def test_a_window_s_keys_are_let_go_before_the_next_window_is_counted(tmp_path):
    """Each takes memory for all records of a chunk, and a client may choose a window for each batch."""
    read = segment(tmp_path, *(batch(6 * hour, hour=hour) for hour in range(3)))
    scanned = scan_segment(read, SETTINGS.as_of_ms)
    counter = WindowKeyCounter(SETTINGS.choose_windows(scanned), limit=1000)
    scans = iter_record_scans(Path(read.path), scanned.headers)
    assert [len(counter._windows) for scan in scans for _ in counter.add(scan)] == [0, 0, 0]


def test_windows_that_take_turns_have_their_own_keys(tmp_path):
    keys = [(b"a", None, b"longer than sixteen bytes"), (b"", b"b"), (None, b"c" * 40), (b"a", b"a"), (b"b",)]
    starts = [0, 3, 5, 7, 9]
    made = [batch(start, own, hour=hour) for start, own, hour in zip(starts, keys, (0, 1, 0, 2, 1), strict=True)]
    made[2] = made[2][:-1] + bytes([made[2][-1] ^ 1])  # unreadable
    read = segment(tmp_path, *made)
    assert count(read) == {0: (Counter(keys[0]), 2), 1: (Counter(keys[1] + keys[4]), 0), 2: (Counter(keys[3]), 0)}


def test_a_record_is_looked_at_once_however_many_windows_a_client_chooses(tmp_path):
    """Else the time grows with their square."""
    hours = (0, 1, 0, 2, 0)
    read = segment(tmp_path, *(batch(6 * place, hour=hour) for place, hour in enumerate(hours)))
    scanned = scan_segment(read, SETTINGS.as_of_ms)
    counter, seen = WindowKeyCounter(SETTINGS.choose_windows(scanned), limit=1000), []
    spy = SimpleNamespace(add=lambda scan, *_: seen.append((len(scan), len(scan.headers))), finish=lambda _: None)
    counter._windows = dict.fromkeys({FIRST_MS + hour * HOUR_MS for hour in hours}, spy)
    for scan in iter_record_scans(Path(read.path), scanned.headers):
        list(counter.add(scan))
    assert seen == [(18, 3), (6, 1), (6, 1)]

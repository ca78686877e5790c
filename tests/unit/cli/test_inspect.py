"""The `inspect` command: exit codes, bad input beside good, text, JSON, and what it must not import."""

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.cli import COMMANDS, main
from pipeline.model.log import BatchHeader, Record
from tests.record_writers import write_batch, write_records

NAME = f"{0:020d}.log"
START_MS = 1_700_000_000_000


def make_batch(base_offset, keys, *, value=b"v", timestamp_ms=START_MS, attributes=0) -> bytes:
    records = [
        Record(offset=base_offset + i, timestamp_ms=timestamp_ms + i, key=key, value=value, headers=(("h", b"1"),))
        for i, key in enumerate(keys)
    ]
    last = len(keys) - 1
    offsets = {"base_offset": base_offset, "last_offset": base_offset + last, "record_count": len(keys)}
    times = {"base_timestamp_ms": timestamp_ms, "max_timestamp_ms": timestamp_ms + last}
    zeros = dict.fromkeys(
        ("position", "size_bytes", "partition_leader_epoch", "crc", "producer_epoch", "base_sequence"), 0
    )
    header = BatchHeader(magic=2, attributes=attributes, producer_id=7, **offsets, **times, **zeros)
    return write_batch(header, write_records(records, base_offset=base_offset, base_timestamp_ms=timestamp_ms))


FIRST = make_batch(0, [b"a", b"b", None])
SECOND = make_batch(3, [b"a", b""], timestamp_ms=START_MS + 60_000)


@pytest.fixture
def log(tmp_path) -> Path:
    """A partition of one segment of two batches, with indexes."""
    folder = tmp_path / "tree/b0/orders-0"
    folder.mkdir(parents=True)
    (folder / NAME).write_bytes(FIRST + SECOND)
    (folder / NAME.replace("log", "index")).write_bytes(struct.pack(">ii", 4, len(FIRST)))
    (folder / NAME.replace("log", "timeindex")).write_bytes(struct.pack(">qi", START_MS + 60_001, 4))
    (folder.parent / "meta.properties").write_text("version=0\nbroker.id=5\ncluster.id=c\n")
    return folder


def run_json(capsys, *arguments, code=0) -> dict:
    assert main(["inspect", "--json", *map(str, arguments)]) == code
    return json.loads(capsys.readouterr().out)


def test_json_rows(log, capsys):
    report = run_json(capsys, log, "--deep", "--verify")
    (segment,) = report["segments"]
    place = {"broker_id": 5, "topic": "orders", "partition": 0, "path": str(log / NAME), "kind": "live"}
    offsets = {"base_offset": 0, "first_offset": 0, "last_offset": 4, "missing_offset_count": 0, "is_active": True}
    times = {"min_timestamp_ms": START_MS, "max_timestamp_ms": START_MS + 60_001}
    batches = {"batch_count": 2, "record_count": 5, "size_bytes": len(FIRST + SECOND), "magic": 2, "codecs": ["none"]}
    batches |= {"control_batch_count": 0, "producer_id_count": 1, "crc_error_count": 0, "problems": []}
    records = {"tombstone_count": 0, "key_bytes": 3, "value_bytes": 5, "header_count": 5}
    keys = [("a", "61", 2), ("b", "62", 1), ("", "", 1)]
    top_keys = [{"key": key, "key_hex": text, "record_count": count} for key, text, count in keys]
    keyed = {"null_key_count": 1, "distinct_key_count": 3, "top_keys": top_keys}
    assert segment == {**place, **offsets, **times, **batches, **records, **keyed}
    (partition,) = report["partitions"]
    shared = partition.keys() & segment.keys() - {"path"}
    assert {name: partition[name] for name in shared} == {name: segment[name] for name in shared}
    assert report["brokers"][0]["cluster_id"] == "c"
    assert report["problems"] == []


def test_a_second_disk_and_a_second_segment_add_up(log, tmp_path, capsys):
    (log / f"{5:020d}.log").write_bytes(make_batch(5, [b"z"] * 4, timestamp_ms=START_MS - 1000))
    disk = tmp_path / "tree/b0-disk2"
    shutil.copytree(log, disk / "clicks-0")
    shutil.copy(log.parent / "meta.properties", disk)
    report = run_json(capsys, tmp_path, "--deep")
    assert [row["is_active"] for row in report["segments"]] == [False, True] * 2
    partitions = [(p["topic"], p["record_count"], p["distinct_key_count"]) for p in report["partitions"]]
    assert partitions == [("orders", 9, 4), ("clicks", 9, 4)]
    assert report["partitions"][0]["top_keys"][0] == {"key": "z", "key_hex": "7a", "record_count": 4}
    assert report["partitions"][0]["min_timestamp_ms"] == START_MS - 1000
    (broker,) = report["brokers"]
    assert (broker["broker_id"], broker["log_directory_count"], broker["record_count"]) == (5, 2, 18)


SPOILT = {
    "torn tail": (FIRST + SECOND[:-5], len(FIRST), "torn", 61),
    "flipped bit": (FIRST + SECOND[:-1] + bytes([SECOND[-1] ^ 1]), len(FIRST), "checksum", 61),
    "negative length": (FIRST + SECOND[:8] + b"\xff\xff\xff\xff" + SECOND[12:], len(FIRST), "batch length -1", 0),
    "length beyond the file": (FIRST + SECOND[:8] + b"\x7f\0\0\0" + SECOND[12:], len(FIRST), "torn", 61),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_spoilt_batch_is_listed_and_the_rest_counted(log, capsys, name):
    data, position, reason, kept_bytes = SPOILT[name]
    (log / NAME).write_bytes(data)
    report = run_json(capsys, log)
    (problem,) = report["segments"][0]["problems"]
    assert problem["position"] == position
    assert reason in problem["reason"]
    assert problem["first_bytes_hex"] == data[position : position + kept_bytes].hex()
    assert report["segments"][0]["record_count"] == 3
    assert report["problems"] == [problem]
    assert report["partitions"][0]["problem_count"] == 1


def test_verify_names_files_that_do_not_fit_together(log, capsys):
    (log / f"{4:020d}.log").write_bytes(make_batch(3, [b"z"]))
    (log / f"{4:020d}.snapshot").write_bytes(b"\0\1short")
    expected = [
        (f"{4:020d}.log", 0, "begins at offset 3, below the base offset in its name"),
        (NAME, None, "reaches offset 4, but the next segment begins at 4"),
        (f"{4:020d}.snapshot", 0, "a snapshot of 7 bytes, expected at least 10"),
        (f"{4:020d}.log", None, "no .index and no .timeindex next to it; it is read all the same"),
    ]
    problems = run_json(capsys, log, "--verify")["problems"]
    assert [(p["path"].rsplit("/", 1)[1], p["position"], p["reason"]) for p in problems] == expected


@pytest.mark.parametrize("option", [[], ["--deep"], ["--json"]])
def test_nothing_usable_is_exit_code_3(tmp_path, capsys, option):
    (tmp_path / "noise-0").mkdir()
    (tmp_path / "noise-0" / NAME).write_bytes(b"\0" * 8 + b"\x7f" * 100)
    assert main(["inspect", str(tmp_path), str(tmp_path / "missing"), *option]) == 3
    output = capsys.readouterr()
    assert "partition-health: error: nothing usable in the input" in output.err
    assert "No such file or directory" in output.out


def test_an_empty_segment_is_usable(log, capsys):
    (log / NAME).write_bytes(b"")
    assert run_json(capsys, log)["segments"][0]["first_offset"] is None


def test_a_preallocated_tail_is_no_problem(log, capsys):
    (log / NAME).write_bytes(FIRST + bytes(5000))
    report = run_json(capsys, log)
    assert report["problems"] == []
    assert report["segments"][0]["record_count"] == 3


def test_a_directory_problem_is_listed_once_with_the_segment(log, capsys):
    (log / NAME.replace("log", "index")).unlink()
    report = run_json(capsys, log)
    assert [p["reason"] for p in report["problems"]] == ["no .index next to it; it is read all the same"]
    assert report["segments"][0]["problems"] == report["problems"]


def test_text(log, capsys):
    assert main(["inspect", str(log), "--deep", "--offset", "3", "--at", "2023-11-14T22:14:20Z"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert (
        f"5 orders 0 0 2 5 {len(FIRST + SECOND)} 0 4 2023-11-14T22:13:20.000Z 2023-11-14T22:14:20.001Z "
        "2 none 0 1 0 yes 1 3 0 3 5 5"
    ) in lines
    assert "orders 0 (broker 5): 'a' 2, 'b' 1, '' 1" in lines
    assert "orders 0 (broker 5): offset 3" in lines
    assert ".index, 1 entries, looked at 0: none at or below it, so from position 0" in lines
    assert f"batch at {len(FIRST)}: offsets 3 to 4, 2 records, {len(SECOND)} bytes, codec none" in lines
    assert "record at offset 3: 2023-11-14T22:14:20.000Z" in lines
    assert lines[-1] == "no problems"


def test_no_name_in_a_file_or_path_acts_on_the_terminal(log, tmp_path, capsys):
    """Who writes a file on a broker's host chooses its cluster id."""
    (log.parent / "meta.properties").write_text("version=0\nbroker.id=5\ncluster.id=c\x1b[2J\u202e\n")
    segment = tmp_path / "a\x1b[31mb" / NAME
    segment.parent.mkdir()
    segment.write_bytes(FIRST)
    for path in (log, segment):
        main(["inspect", str(path), "--offset", "1"])
        shown = capsys.readouterr()
        assert "\x1b" not in shown.out + shown.err
        assert "\\x1b" in shown.out + shown.err


@pytest.mark.parametrize(
    ("target", "found"),
    [
        (["--offset", 0], (0, 0, None)),
        (["--offset", 4], (len(FIRST), 4, None)),
        (["--offset", 5], (None, None, None)),
        (["--at", START_MS - 5], (0, 0, START_MS)),
        (["--at", START_MS + 2], (0, 2, START_MS + 2)),
        (["--at", "2023-11-14T22:13:20.003"], (len(FIRST), 3, START_MS + 60_000)),
        (["--at", START_MS + 90_000], (None, None, None)),
    ],
)
def test_lookups(log, capsys, target, found):
    (lookup,) = run_json(capsys, log, *target)["lookups"]
    batch = lookup["batch"]
    assert (batch and batch["position"], lookup["offset"], lookup["timestamp_ms"]) == found


@pytest.mark.parametrize(
    "arguments", [["inspect", "x", "--offset", "-1"], ["inspect", "x", "--at", "noon"], [], ["inspect"], ["nonsense"]]
)
def test_usage_is_exit_code_2(capsys, arguments):
    try:
        code = main(arguments)
    except SystemExit as stop:  # argparse's own way out
        code = stop.code
    assert code == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(capsys, name):
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    assert capsys.readouterr().out.startswith(f"usage: partition-health {name}")


def run_process(*arguments, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=600, check=False, **options
    )


def test_small_files_need_no_heavy_imports(log):
    code = (
        "import sys; from pipeline.cli import main; main(['inspect', sys.argv[1], '--verify', '--json']);"
        "print(sorted({'numba', 'pyspark', 'pandas', 'pyarrow', 'pydantic', 'rich', 'numpy.ma'} & sys.modules.keys()),"
        "file=sys.stderr)"
    )
    assert run_process("-c", code, log).stderr.strip() == "[]"


def test_a_reader_that_has_enough_is_no_error(tmp_path):
    folder = tmp_path / "orders-0"
    folder.mkdir()
    for offset in range(2000):
        (folder / f"{offset:020d}.log").touch()
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "pipeline", "inspect", str(tmp_path)]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=600, check=False)
    os.close(write)
    assert done.stderr == b""
    assert done.returncode == 141

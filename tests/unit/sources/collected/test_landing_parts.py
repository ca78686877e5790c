"""Parts and settings of a host's folder that are not as the manifest says: named, and no other host stops."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.model.window import instant_of
from pipeline.sources.collected.host import read_rows
from pipeline.sources.collected.manifest import MANIFEST
from pipeline.sources.records.pieces import SUMMARY_SCHEMA
from pipeline.transforms.traffic import find_disputed
from tests.engines import sail
from tests.unit.sources.collected.disks import FIRST_MS, NOW_MS, SPAN, manifest_of, part_of, read_landing, weigh
from tests.unit.sources.collected.forgery import (
    ALL_OFFSETS,
    FAR,
    edit,
    lengthen,
    link,
    make_socket,
    multiply,
    put,
    put_problem,
    put_text,
    put_value,
    read_offsets,
    read_summaries,
    say,
    widen,
    write_no_text,
)


def lost_of(rows):
    return [row["reason"] for row in rows if row["row_kind"] == "shortfall"]


def test_parts_with_fewer_batches_than_were_counted_are_named(config, three):
    part = part_of(three, "batches", "broker-1")
    pq.write_table(pq.read_table(part).slice(0, 3), part)
    say(three, "broker-1", part, size_bytes=part.stat().st_size, row_count=3)
    reading = read_landing(three)
    rows = pa.Table.from_pylist(read_summaries(config, three, reading), SUMMARY_SCHEMA)
    disputed = find_disputed(sail().createDataFrame(rows), SPAN).toArrow().to_pylist()
    doubts = reading.collected.doubting((), disputed).doubts
    assert doubts
    assert all(doubt.startswith("orders-0: ") and "its parts hold" in doubt for doubt in doubts)


ODD_HOSTS = [
    ("a FIFO", put(os.mkfifo), "not a regular file"),
    ("a socket", put(make_socket), "No such device"),
    ("a folder", put(Path.mkdir), "Is a directory"),
    ("sparse, 100 GiB", put(lambda path: path.touch() or os.truncate(path, 100 << 30)), "far more than it ever has"),
    ("half a GiB of blanks in a few kB", put_text(b" " * (257 << 20)), "more than 256 MiB"),
    ("a link elsewhere", link(lambda host: host / MANIFEST), "leads out of its folder"),
    ("the host is a link elsewhere", link(lambda host: host), "leads out of the landing folder"),
    ("a part is a link elsewhere", link(lambda host: next((host / "parts").iterdir())), "parts are gone or"),
    ("empty", put(Path.touch), "not a manifest"),
    ("deeply nested", put_text(b"[" * 100_000), "not a manifest"),
    ("an unknown kind", edit('"kind":"batches"', '"kind":"x"'), "not a manifest"),
    ("a kind of rows that no collector writes", edit('"kind":"batches"', '"kind":"samples"'), "not a manifest"),
    ("a part outside", edit('"path":"parts/', '"path":"parts/../../broker-1/parts/'), "not a manifest"),
    ("an extreme instant", edit(f'"collected_at_ms":{NOW_MS}', f'"collected_at_ms":{FAR}'), "not a manifest"),
    ("a negative offset", edit('"next_offset":', '"next_offset":-'), "not a manifest"),
    ("a number of 400 digits", edit('"leader_epoch":0', '"leader_epoch":' + "9" * 400), "not a manifest"),
    ("an unpaired surrogate", edit('"host":"', '"host":"\\ud800'), "not a manifest"),
    ("a timeline of nothing", edit('"partitions":[', '"partitions":[{"moments_ms":[],"values":[]},'), "not a manifest"),
    ("moments out of order", edit('"moments_ms":[', '"moments_ms":[9,'), "not a manifest"),
]


@pytest.mark.parametrize(("act", "reason"), [row[1:] for row in ODD_HOSTS], ids=[row[0] for row in ODD_HOSTS])
def test_one_hosts_folder_stops_no_other_host(config, three, tmp_path, act, reason):
    act(tmp_path / "landing/broker-3")
    assert read_offsets(config, three).items() >= {0: ALL_OFFSETS[0], 1: ALL_OFFSETS[1]}.items()
    reading = read_landing(three)
    assert {host.name for host in reading.collected.hosts} == {"broker-1", "broker-2"}
    (problem,) = [one for one in reading.problems["collected"] if one.path == f"{three.location}/broker-3"]
    assert reason in problem.reason
    availability = weigh(three, reading)
    assert (availability.arrived_count, availability.expected_count) == (2, 3)


@pytest.mark.parametrize("name", [b"broker-\xff", b"broker\n3", b"broker-\x1b[31m3", "broker-\u202e3".encode()])
def test_a_hosts_name_that_hides_something_is_named_with_escapes(config, three, tmp_path, name):
    (tmp_path / "landing/broker-3").rename(os.fsdecode(os.fsencode(three.location) + b"/" + name))
    reading = read_landing(three)
    (problem,) = [one for one in reading.problems["collected"] if "is left out" in one.reason]
    assert problem.path.isprintable()
    assert set(read_offsets(config, three)) == {0, 1}


def test_a_host_collected_with_other_settings_is_left_out_and_named(config, three, tmp_path):
    edit('"window_ms":3600000', '"window_ms":1')(tmp_path / "landing/broker-3")
    assert set(read_offsets(config, three)) == {0, 1}
    reading = read_landing(three)
    rows = read_summaries(config, three, reading)
    assert [row["path"] for row in rows if row["row_kind"] == "problem"] == [f"{three.location}/broker-3"]
    (doubt,) = reading.collected.doubting(lost_of(rows), ()).doubts
    assert "broker-3: collected with other settings" in doubt


NONE_WRITES = "some rows have offsets, counts, sizes or texts that no collector writes"


def test_arrivals_of_an_older_collector_have_no_digest(config, three):
    part = part_of(three, "arrivals")
    rows = pq.read_table(part)
    pq.write_table(rows.drop_columns("key_digest"), part)
    say(three, "broker-3", part, size_bytes=part.stat().st_size)
    (named,) = [one for one in manifest_of(three, "broker-3").parts if one.path.endswith(part.name)]
    found = read_rows(part.read_bytes(), named, None)
    assert found.drop_columns("key_digest").equals(rows.drop_columns("key_digest"))
    assert found["key_digest"].null_count == rows.num_rows > 0
    assert read_offsets(config, three) == ALL_OFFSETS


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda part: part.write_bytes(bytes(part.stat().st_size)) and {}, "no batches of a collector"),
        (multiply, "its manifest says"),
        (lambda part: multiply(part) or {"row_count": 20_000_000}, "a collector writes at most"),
        (lambda part: lengthen(part) or {"row_count": 4_000}, "its texts take more than"),
        (lambda part: lengthen(part, 8) or {"row_count": 4_000}, "its texts take more than"),
        (widen, "other columns than a collector writes"),
        (put_value("partition", 200_001), "some rows have partition outside 0 to 200000"),
        (put_value("base_offset", -1), "some rows have base_offset outside 0 to"),
        (put_value("last_offset", None), "some rows lack last_offset"),
        (put_value("size_bytes", 2**62), "some rows have size_bytes outside -1 to"),
        (put_value("last_offset", None, "summaries"), "some rows lack last_offset"),
        (put_value("first_offset", -1000, "summaries"), "some rows have first_offset outside 0 to"),
        (put_value("max_timestamp_ms", None, "summaries"), "some rows lack max_timestamp_ms"),
        (put_value("window_start_ms", FIRST_MS + 1, "summaries"), "windows do not begin as those of"),
        (put_value("window_start", instant_of(FIRST_MS + 1)), "windows do not begin as those of"),
        (put_value("batch_count", 2**63 - 1, "summaries"), "some rows have batch_count outside -1 to"),
        (put_value("window_start_ms", 2**62, "summaries"), "some rows have window_start_ms outside 0 to"),
        (put_value("row_kind", "held", "summaries"), "rows of a kind that no collector writes"),
        (put_value("minute_start_ms", 2**62, "arrivals"), "some rows have minute_start_ms outside 0 to"),
        (put_value("timestamp_type", None, "arrivals"), "some rows lack timestamp_type"),
        (put_value("record_count", None, "keys"), "some rows lack record_count"),
        (put_value("size_bytes", 0), NONE_WRITES),
        (put_value("record_count", -1), NONE_WRITES),
        (put_value("record_count", 1 << 30), NONE_WRITES),
        (put_value("last_offset", 0), NONE_WRITES),
        (put_value("last_offset", 0, "summaries"), NONE_WRITES),
        (put_problem(severity="other"), NONE_WRITES),
        (put_problem(first_bytes_hex="0g"), NONE_WRITES),
        (put_problem(position=-2), NONE_WRITES),
        (put_problem(reason="x" * 10_001), NONE_WRITES),
        (put_problem(reason=None), "some rows lack reason"),
        (write_no_text, "no batches of a collector (ArrowInvalid)"),
    ],
)
def test_a_rotten_part_stops_no_other_and_is_named_once(config, three, act, reason):
    """An act returns the part that it wrote where that is another one, or what the manifest says of it."""
    done = act(part_of(three, "batches"))
    part, said = (done, {}) if isinstance(done, Path) else (part_of(three, "batches"), done or {})
    say(three, "broker-3", part, size_bytes=part.stat().st_size, **said)
    without = {2} if "batches" in part.name else set()
    assert read_offsets(config, three) == {key: ALL_OFFSETS[key] for key in {0, 1, 2} - without}
    reading = read_landing(three)
    found = read_summaries(config, three, reading)
    (problem,) = [row for row in found if row["row_kind"] == "problem"]
    assert problem["path"] == str(part)
    assert reason in problem["reason"]
    assert reason in reading.collected.doubting(lost_of(found), ()).doubts[0]

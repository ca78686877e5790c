"""Traffic of any size as Kafka's segments: a unit of a million records, copied under producers and topics of its own.

A unit has two topics of twelve partitions on three brokers and a producer for each: `orders` without keys, as the simulator's
producer sent them, and `users` with 50,000 keys, placed by murmur2. Copies have other producer ids and, where one topic is to
be large, later times and offsets; checksums are made anew.
"""

import os
import shutil
import struct
from pathlib import Path

import google_crc32c
import numpy as np

from pipeline.codec.log.segment import scan_headers
from pipeline.model.log import Record
from pipeline.model.window import HOUR_MS, TimeWindow
from pipeline.simulator.engine.simulate import simulate
from tests.batches import make_batch
from tests.lab.bench.scan_bench import write_index
from tests.oracles.hashes import murmur2
from tests.simulated_sessions import EPOCH_MS, make_scenario

LEADERS = (0, 1, 2) * 4
START_MS = EPOCH_MS - EPOCH_MS % HOUR_MS
WINDOW = TimeWindow(START_MS, START_MS + HOUR_MS)
KEYLESS, KEYED = "orders", "users"
RATE_PER_S, SECONDS = 4_000, 150
KEYED_RECORDS, KEYS, BATCH_RECORDS = 400_000, 50_000, 50
UNIT_RECORDS = RATE_PER_S * SECONDS + KEYED_RECORDS
VALUE = b"v" * 88  # about 100 bytes in the log
SHIFTS = 6  # copies of a unit after each other, within the window
NS_PER_MS = 1_000_000
NAME = f"{0:020d}.log"
_LATER = struct.Struct(">qqqhi")  # from base timestamp to base sequence
_LATER_AT, _CRC_AT, _COVERED_AT = 27, 17, 21


def make_unit(folder):
    """The unit that all others are copies of, unless it is there: records and batches of two topics."""
    if (folder / "done").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    for topic, build in ((KEYLESS, _list_keyless), (KEYED, _list_keyed)):
        for partition, batches in enumerate(build()):
            path = folder / f"{topic}-{partition}" / NAME
            path.parent.mkdir(parents=True)
            path.write_bytes(b"".join(_make_batches(batches)))
    (folder / "done").touch()


def _list_keyless():
    """By partition the times of each batch's records, and no keys."""
    config = {"linger.ms": "10"}
    scenario = make_scenario(
        *("java-sticky-2.4",), version="3.2.3", config=config, seconds=SECONDS, leaders=LEADERS, delays_ms={1: 5},
        value_bytes=len(VALUE), rate_per_s=RATE_PER_S, pattern="steady",
    )  # fmt: skip  # fields of a value, several a line
    trace = simulate(scenario, 1, traces=True).record_trace
    trace = trace.take(np.lexsort((trace["batch_number"], trace["partition"])))
    partition, batch = (trace[name].to_numpy() for name in ("partition", "batch_number"))
    at_ms = EPOCH_MS + trace["sent_at_ns"].to_numpy() // NS_PER_MS
    for number in range(len(LEADERS)):
        own = np.flatnonzero(partition == number)
        ends = np.flatnonzero(np.diff(batch[own])) + 1
        yield [(times.tolist(), None) for times in np.split(at_ms[own], ends)]


def _list_keyed():
    """By partition the times and keys of each batch's records."""
    rng = np.random.default_rng(5)
    names = [b"user-%07d" % number for number in range(KEYS)]
    place = np.array([(murmur2(name) & 0x7FFFFFFF) % len(LEADERS) for name in names])
    key = rng.integers(0, KEYS, KEYED_RECORDS)
    at_ms = EPOCH_MS + np.sort(rng.integers(0, SECONDS * 1000, KEYED_RECORDS))
    for number in range(len(LEADERS)):
        own = np.flatnonzero(place[key] == number)
        cuts = np.arange(BATCH_RECORDS, len(own), BATCH_RECORDS)
        yield [(at_ms[part].tolist(), [names[k] for k in key[part]]) for part in np.split(own, cuts)]


def _make_batches(batches):
    offset = 0
    for at_ms, keys in batches:
        records = [
            Record(offset=offset + n, timestamp_ms=sent_ms, key=keys and keys[n], value=VALUE, headers=())
            for n, sent_ms in enumerate(at_ms)
        ]
        yield make_batch(records, producer_id=0, producer_epoch=0, base_sequence=offset)
        offset += len(records)


def copy_log(source, target, producer_id, shifts=(0,)):
    """Appends a log's batches under another producer, once per shift in milliseconds, with rising offsets."""
    rows = scan_headers(source, check_crc=False).rows
    length, plain = int(rows["last_offset"][-1]) + 1, source.read_bytes()
    with target.open("ab", buffering=8 << 20) as file:
        for number, shift_ms in enumerate(shifts):
            data = bytearray(plain)
            for at, size_bytes in zip(rows["position"].tolist(), rows["size_bytes"].tolist(), strict=True):
                (offset,) = struct.unpack_from(">q", data, at)
                base_ms, max_ms, _, epoch, sequence = _LATER.unpack_from(data, at + _LATER_AT)
                struct.pack_into(">q", data, at, offset + number * length)
                later = (base_ms + shift_ms, max_ms + shift_ms, producer_id, epoch, sequence + number * length)
                _LATER.pack_into(data, at + _LATER_AT, *later)
                covered = bytes(memoryview(data)[at + _COVERED_AT : at + size_bytes])
                struct.pack_into(">I", data, at + _CRC_AT, google_crc32c.value(covered))
            file.write(data)


def make_copy(folder, unit, number):
    """One more unit, with topics and producers of its own: log directories of three brokers."""
    if (folder / "done").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    for place, topic in enumerate((KEYLESS, KEYED)):
        for partition, leader in enumerate(LEADERS):
            directory = _log_directory(folder, leader) / f"{topic}{number:03d}-{partition}"
            directory.mkdir()
            copy_log(unit / f"{topic}-{partition}" / NAME, directory / NAME, 1000 + 2 * number + place)
            write_index(directory / NAME)
    (folder / "done").touch()


def make_heavy(folder, unit):
    """A topic of one large partition, and a topic without keys that one producer fills for most of the window."""
    if (folder / "done").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    shifts = [number * SECONDS * 1000 for number in range(SHIFTS)]
    large = _log_directory(folder, 0) / "large-0"
    large.mkdir()
    for number, shift_ms in enumerate(shifts):
        part = folder / "part.log"
        for partition in range(len(LEADERS)):
            copy_log(unit / f"{KEYED}-{partition}" / NAME, part, 1, [shift_ms])
        _append_renumbered(part, large / NAME, number)
        part.unlink()
    for partition, leader in enumerate(LEADERS):
        directory = _log_directory(folder, leader) / f"busy-{partition}"
        directory.mkdir()
        copy_log(unit / f"{KEYLESS}-{partition}" / NAME, directory / NAME, 2, shifts)
    for log in folder.glob("*/*/*.log"):
        write_index(log)
    (folder / "done").touch()


def _append_renumbered(source, target, number):
    """Batches of several partitions as those of one: offsets, which no checksum covers, rise."""
    rows = scan_headers(source, check_crc=False).rows
    counts = (rows["last_offset"] - rows["base_offset"] + 1).astype(np.int64)
    offsets = number * int(counts.sum()) + np.cumsum(counts) - counts
    data = bytearray(source.read_bytes())
    for at, offset in zip(rows["position"].tolist(), offsets.tolist(), strict=True):
        struct.pack_into(">q", data, at, offset)
    with target.open("ab") as file:
        file.write(data)


def _log_directory(folder, broker):
    directory = folder / str(broker)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "meta.properties").write_text(f"version=1\nnode.id={broker}\n")
    return directory


def link_units(folder, units):
    """Log directories with what several units hold; their files are links."""
    for unit in units:
        for log in unit.glob("*/*/*"):
            target = _log_directory(folder, log.parent.parent.name) / log.parent.name
            target.mkdir(exist_ok=True)
            os.link(log, target / log.name)


def measure_logs(folder):
    """Bytes of the segments below a folder; they are in the page cache afterwards."""
    total = 0
    for log in Path(folder).glob("*/*/*.log"):
        with log.open("rb", buffering=0) as file:
            while found := len(file.read(8 << 20)):
                total += found
    return total

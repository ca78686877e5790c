"""Segments field by field against independent readers: `segments_facts.json`, `wire_facts.json`, `kafka-dump-log` 4.1.1."""

import json
import re
from collections import Counter

import pytest

from pipeline.codec.log.record_batch import read_entry_records
from pipeline.codec.log.segment import scan_headers
from pipeline.model.log import Codec
from tests.scans import list_keys, scan_and_compare

SEVEN = ("compact-0", "epoch-0", "headers-0", "idem-false-0", "keys-1", "logappend-0", "tx-0", "zstd-1")
RECORD = re.compile(
    r"^\| offset: (?P<offset>\d+) (?P<kind>CreateTime|LogAppendTime): (?P<time>-?\d+) keySize: (?P<key>-?\d+) "
    r"valueSize: (?P<value>-?\d+) sequence: (?P<sequence>-?\d+) headerKeys: \[(?P<headers>[^]]*)\]",
    re.MULTILINE,
)


def summarize(scan, records):
    """The facts both files share, from our scans; keys as bytes, data records only."""
    rows, data = scan.rows, ~records.is_control
    keys = Counter(key for key, is_data in zip(list_keys(records), data, strict=True) if is_data and key is not None)
    values = records.value_length[data]
    per_batch = rows["record_count"]
    timestamps = records.timestamp_ms[data]
    gaps = rows["base_offset"][1:] - rows["last_offset"][:-1] - 1
    return {
        "size": scan.file_bytes,
        "batches": len(scan),
        "records": int(per_batch.sum()),
        "magic": {str(k): v for k, v in Counter(rows["magic"].tolist()).items()},
        "codec": {Codec(k).name.lower(): v for k, v in Counter(scan.codec.tolist()).items()},
        "crc_bad": int((~scan.crc_ok).sum()),
        "txn": int(scan.is_transactional.sum()),
        "control": int(scan.is_control.sum()),
        "logappend": int(scan.timestamp_type.sum()),
        "idemp": int((rows["producer_id"] >= 0).sum()),
        "pids": len(set(rows["producer_id"].tolist()) - {-1}),
        "epochs": sorted(set(rows["partition_leader_epoch"][rows["magic"] == 2].tolist())),
        "multi": int((per_batch > 1).sum()),
        "off": [int(records.offset.min()), int(records.offset.max())],
        "gaps": int((gaps > 0).sum()),
        "nullkeys": int((records.key_length[data] < 0).sum()),
        "nullvals": int((values < 0).sum()),
        "hdrs": int((records.header_count[data] > 0).sum()),
        "distinct_keys": len(keys),
        "key_bytes": int(records.key_length[data].clip(0).sum()),
        "value_bytes": int(values.clip(0).sum()),
        "avgval": round(values.clip(0).sum() / max(1, (values >= 0).sum())),
        "maxbatch": int(rows["size_bytes"].max()),
        "tail": scan.file_bytes - scan.valid_bytes,
        "delhoriz": int(scan.has_delete_horizon.sum()),
        "min_ts_ms": int(timestamps.min()),
        "max_ts_ms": int(timestamps.max()),
        "top1": round(max(keys.values()) / keys.total(), 3) if keys else None,
    }


def differing(facts, path):
    """The facts that our scans do not share, as {name: (theirs, ours)}."""
    ours = summarize(scan_headers(path), scan_and_compare(path))
    return {name: (facts[name], ours[name]) for name in ours.keys() & facts.keys() if facts[name] != ours[name]}


def test_segments_of_public_repositories(shared_data, segments_tree):
    facts = json.loads((shared_data / "segments_facts.json").read_text())
    found = {}
    for repository, tree in facts.items():
        for log in tree["logs"]:
            (path,) = segments_tree.joinpath(repository.replace("/", "+")).rglob(log["path"])
            found[repository, log["path"]] = differing(log, path)
    assert len(found) == 36
    assert {name: differences for name, differences in found.items() if differences} == {}


def test_record_sets_of_other_clients(shared_data):
    facts = json.loads((shared_data / "wire_facts.json").read_text())
    found = {log["file"]: differing(log, shared_data / "wire" / log["file"]) for log in facts}
    assert len(found) == 17
    assert {name: differences for name, differences in found.items() if differences} == {}


def format_batches(scan):
    """Our header rows in the words of `DumpLogSegments`."""
    kinds = ("CreateTime", "LogAppendTime")
    flags = zip(
        scan.rows, scan.codec, scan.timestamp_type, scan.is_transactional, scan.is_control, scan.has_delete_horizon,
        strict=True,
    )  # fmt: skip  # fields of a value, several a line
    for row, codec, kind, is_transactional, is_control, has_horizon in flags:
        last_sequence = (
            -1 if row["base_sequence"] < 0 else row["base_sequence"] + row["last_offset"] - row["base_offset"]
        )
        horizon = f"OptionalLong[{row['base_timestamp_ms']}]" if has_horizon else "OptionalLong.empty"
        yield (
            f"baseOffset: {row['base_offset']} lastOffset: {row['last_offset']} count: {row['record_count']} "
            f"baseSequence: {row['base_sequence']} lastSequence: {last_sequence} "
            f"producerId: {row['producer_id']} producerEpoch: {row['producer_epoch']} "
            f"partitionLeaderEpoch: {row['partition_leader_epoch']} isTransactional: {str(is_transactional).lower()} "
            f"isControl: {str(is_control).lower()} deleteHorizonMs: {horizon} position: {row['position']} "
            f"{kinds[kind]}: {row['max_timestamp_ms']} size: {row['size_bytes']} magic: {row['magic']} "
            f"compresscodec: {Codec(int(codec)).name.lower()} crc: {row['crc']} isvalid: {str(row['crc_ok']).lower()}"
        )


@pytest.mark.parametrize("name", SEVEN)
def test_every_batch_against_dump_log(dumped, name):
    path, lines = dumped(name, "batches")
    scan = scan_headers(path)
    lines = [line for line in lines if line.startswith("baseOffset: ")]
    assert list(format_batches(scan)) == lines
    assert len(lines) > 2


@pytest.mark.parametrize("name", SEVEN)
def test_every_record_against_dump_log(dumped, name):
    """Control records are printed in another form: their offsets are the ones missing in between."""
    path, lines = dumped(name, "records")
    text = "\n".join(lines)
    scan = scan_and_compare(path)
    kinds = ("CreateTime", "LogAppendTime")
    types = scan.headers.timestamp_type[scan.batch_index]
    columns = zip(scan.rows, types, scan.is_control, strict=True)
    ours = [
        (r["offset"], kinds[t], r["timestamp_ms"], r["key_length"], r["value_length"], r["header_count"])
        for r, t, is_control in columns
        if not is_control
    ]
    theirs = [
        (
            int(m["offset"]),
            m["kind"],
            int(m["time"]),
            int(m["key"]),
            int(m["value"]),
            len(m["headers"].split(",")) if m["headers"] else 0,
        )
        for m in RECORD.finditer(text)
        if "endTxnMarker" not in text[m.end() : m.end() + 20]
    ]
    assert ours == theirs
    assert len(ours) > 2


def test_header_names_and_values_of_records(dumped):
    path, lines = dumped("headers-0", "records")
    text = "\n".join(lines)
    data, scan = path.read_bytes(), scan_headers(path)
    spans = zip(scan.position.tolist(), scan.size_bytes.tolist(), strict=True)
    records = [record for at, size in spans for record in read_entry_records(data[at : at + size])]
    names = [",".join(name for name, _ in record.headers) for record in records]
    assert names == [match["headers"] for match in RECORD.finditer(text)]
    assert b"" in {v for r in records for _, v in r.headers}
    assert None in {v for r in records for _, v in r.headers}


def test_every_specimen_is_sound(specimens):
    """45 archives of a healthy cluster, the metadata log among them: no problem in any file."""
    paths = sorted(specimens.rglob("*.log"))
    for path in paths:
        assert scan_and_compare(path).headers.problems == (), path
    assert len(paths) >= 40

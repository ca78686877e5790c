"""`inspect` on every file of the committed capture. Oracle: Kafka's own `kafka-dump-log`, field by field."""

import json
import re
import shutil
import struct
from collections import Counter
from pathlib import Path

import pytest

from pipeline.cli import main
from pipeline.codec.tools.tool_text import parse_log_dirs_describe
from tests.lab.cluster import dump_logs, run_tool

DEEP_TOPICS = ("audit", "clicks", "codec-gzip", "codec-lz4", "codec-snappy", "codec-zstd", "devices", "ledger")
BATCH = re.compile(
    r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*? producerId: (-?\d+) .*? isControl: (\w+) "
    r".*?(?:CreateTime|LogAppendTime): (-?\d+) size: (\d+) magic: (\d+) compresscodec: (\w+) crc: \d+ isvalid: (\w+)",
    re.MULTILINE,
)
RECORD = re.compile(
    r"^\| offset: \d+ (?:CreateTime|LogAppendTime): (-?\d+) keySize: (-?\d+) valueSize: (-?\d+) sequence: \S+ "
    r"headerKeys: \[(.*?)\](?: key: (\S*) payload)?",
    re.MULTILINE,
)


def inspect(capsys, *arguments) -> dict:
    assert main(["inspect", "--json", *map(str, arguments)]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("node", ["brokers/0", "brokers/1", "brokers/2", "controllers/100"])
def test_batches(capture_folder, capsys, node):
    report = inspect(capsys, capture_folder / node, "--verify")
    rows = {row["path"]: row for row in report["segments"]}
    dumps = dump_logs(sorted((capture_folder / node).rglob("*.log")))
    assert dumps.keys() == rows.keys()
    assert len(rows) == len(list((capture_folder / node).rglob("*.log")))
    for path, text in dumps.items():
        bases, lasts, counts, producers, controls, stamps, sizes, magics, codecs, valids = (
            zip(*found, strict=True) if (found := BATCH.findall(text)) else [()] * 10
        )
        expected = {
            "batch_count": len(bases),
            "record_count": sum(map(int, counts)),
            "size_bytes": sum(map(int, sizes)),
            "first_offset": int(bases[0]) if bases else None,
            "last_offset": int(lasts[-1]) if lasts else None,
            "missing_offset_count": sum(int(b) - int(a) - 1 for a, b in zip(lasts, bases[1:], strict=False)),
            "max_timestamp_ms": max(map(int, stamps), default=None),
            "magic": int(magics[0]) if magics else None,
            "codecs": sorted(set(codecs)),
            "control_batch_count": controls.count("true"),
            "producer_id_count": len({*producers} - {"-1"}),
            "crc_error_count": valids.count("false"),
            "problems": [],
        }
        assert {name: rows[path][name] for name in expected} == expected, path
    assert report["problems"] == []


def test_records(capture_folder, capsys):
    folders = [folder for topic in DEEP_TOPICS for folder in sorted(capture_folder.glob(f"brokers/*/{topic}-*"))]
    rows = {row["path"]: row for row in inspect(capsys, "--deep", *folders)["segments"]}
    dumps = dump_logs([log for folder in folders for log in sorted(folder.glob("*.log"))], "--print-data-log")
    assert dumps.keys() == rows.keys()
    for path, text in dumps.items():
        data = [found for found in RECORD.finditer(text) if not text.startswith(" endTxnMarker", found.end())]
        stamps, key_sizes, value_sizes, headers, keys = zip(*(found.groups() for found in data), strict=True)
        counted = Counter(key for key, size in zip(keys, key_sizes, strict=True) if size != "-1")
        assert {
            "null_key_count": key_sizes.count("-1"),
            "distinct_key_count": len(counted),
            "tombstone_count": value_sizes.count("-1"),
            "key_bytes": sum(max(int(size), 0) for size in key_sizes),
            "value_bytes": sum(max(int(size), 0) for size in value_sizes),
            "header_count": sum(len(names.split(",")) for names in headers if names),
            "top_keys": [
                {"key": key, "key_hex": key.encode().hex(), "record_count": n} for key, n in counted.most_common(10)
            ],
        }.items() <= rows[path].items(), path
        assert min(map(int, stamps)) >= rows[path]["min_timestamp_ms"]
    assert sum(row["control_batch_count"] for row in rows.values()) > 0
    assert sum(row["record_count"] for row in rows.values()) > 100_000


def test_sizes_and_offsets_are_what_the_broker_says(capture_folder, capsys):
    """Oracle: `kafka-log-dirs --describe` at the end of the capture, when nothing was written any more."""
    text = (capture_folder / "tools/log-dirs-describe.txt").read_text()
    described = {(r.broker_id, *r.topic_partition): r.size_bytes for r in parse_log_dirs_describe(text)}
    rows = {
        (row["broker_id"], row["topic"], row["partition"]): row
        for row in inspect(capsys, capture_folder)["partitions"]
        if row["topic"] not in {"__cluster_metadata", "__consumer_offsets"}  # still written to at the end
    }
    own = {key: size for key, size in described.items() if key[1] != "__consumer_offsets"}
    assert {key: row["size_bytes"] for key, row in rows.items()} == own
    ends = {key: (row["last_offset"], row["high_watermark"]) for key, row in rows.items()}
    assert {key for key, (last, mark) in ends.items() if (-1 if last is None else last) + 1 != mark} == set()


def test_verify_finds_every_entry_that_kafka_finds_wrong(capture_folder, tmp_path, capsys):
    """Each tenth entry is spoilt; the tool and we must name the same entries.

    The offset becomes one less: one more could be the last offset of an append of two batches, which the tool calls a
    mismatch all the same.
    """
    folder = Path(shutil.copytree(capture_folder / "brokers/0/devices-0", tmp_path / "devices-0"))
    index, times = folder / f"{0:020d}.index", folder / f"{0:020d}.timeindex"
    entries = list(struct.iter_unpack(">ii", index.read_bytes()))
    spoilt = [(o - 1, p) if i % 10 == 3 else (o, p) for i, (o, p) in enumerate(entries)]
    index.write_bytes(b"".join(struct.pack(">ii", *entry) for entry in spoilt))
    time_entries = list(struct.iter_unpack(">qi", times.read_bytes()))
    spoilt_times = [(t + 1, o) if i % 10 == 7 else (t, o) for i, (t, o) in enumerate(time_entries)]
    times.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in spoilt_times))
    text = run_tool("kafka-dump-log", "--files", f"{index},{times}", with_errors=True)
    kafka_offsets = {int(o) for o in re.findall(r"Index offset: (\d+), log offset: \d+", text)}
    kafka_stamps = {int(t) for t in re.findall(r"Index timestamp: (\d+), log timestamp: \d+", text)}
    assert len(kafka_offsets) > 1
    assert len(kafka_stamps) > 1
    problems = inspect(capsys, folder, "--verify")["problems"]
    ours = {spoilt[p["position"] // 8][0] for p in problems if p["path"].endswith(".index")}
    our_stamps = {spoilt_times[p["position"] // 12][0] for p in problems if p["path"].endswith(".timeindex")}
    assert ours == kafka_offsets
    assert our_stamps == kafka_stamps

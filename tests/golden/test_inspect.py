"""`inspect --json` against facts found by an independent parser and against `kafka-dump-log` of Kafka 4.1.1."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from pipeline.cli import main

ARCHIVES = (
    "aryan-jadon/Distributed-Kafka-Clusters",
    "William0423/kafka",
    "seanorth/kafka-server",
    "tuyen-nnt/kafka_2.13-3.0.0",
    "williamjie/kafakainfo",
)
BATCH_LINE = re.compile(
    r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*producerId: (-?\d+) .*isControl: (\w+) "
    r".*(?:CreateTime|LogAppendTime): (-?\d+) size: (\d+) magic: (\d+) compresscodec: (\w+) crc: \d+ isvalid: (\w+)"
)


@pytest.fixture
def inspect(capsys):
    """Runs the command in this process and gives its JSON."""

    def run(*arguments) -> dict:
        assert main(["inspect", "--json", *map(str, arguments)]) == 0
        return json.loads(capsys.readouterr().out)

    return run


@pytest.mark.parametrize("archive", ARCHIVES)
def test_segments_facts(shared_data, segments_tree, inspect, archive):
    facts = json.loads((shared_data / "segments_facts.json").read_text())[archive]
    root = segments_tree / archive.replace("/", "+")
    rows = {str(Path(row["path"]).relative_to(root)): row for row in inspect(root, "--deep", "--verify")["segments"]}
    for fact in facts["logs"]:
        row = rows.pop(fact["path"])
        assert {
            "size_bytes": fact["size"],
            "batch_count": fact["batches"],
            "record_count": fact["records"],
            "codecs": sorted(fact["codec"]),
            "magic": int(*fact["magic"]),
            "crc_error_count": fact["crc_bad"],
            "control_batch_count": fact["control"],
            "producer_id_count": fact["pids"],
            "missing_offset_count": fact["gaps"],
            "min_timestamp_ms": fact["min_ts_ms"],
            "max_timestamp_ms": fact["max_ts_ms"],
            "null_key_count": fact["nullkeys"],
            "distinct_key_count": fact["distinct_keys"],
            "tombstone_count": fact["nullvals"],
            "key_bytes": fact["key_bytes"],
            "value_bytes": fact["value_bytes"],
            "header_count": fact["hdrs"],
        }.items() <= row.items()
        assert [round(top["record_count"] / row["record_count"], 3) for top in row["top_keys"][:1]] == (
            [] if fact["top1"] is None else [fact["top1"]]
        )
        assert [row["first_offset"], row["last_offset"]] == fact["off"]
        assert [p for p in row["problems"] if "next to it" not in p["reason"]] == []
    assert {row["size_bytes"] for row in rows.values()} <= {0}  # the facts leave empty segments out


RECORD = re.compile(
    r"^\| offset: \d+ .*?keySize: (-?\d+) valueSize: (-?\d+) .*?headerKeys: \[(.*?)\](.*)", re.MULTILINE
)
RECORD_DUMPS = ("compact-0", "epoch-0", "headers-0", "idem-false-0", "keys-1", "logappend-0", "tx-0", "zstd-1")


@pytest.mark.parametrize("name", RECORD_DUMPS)
def test_records_as_kafka_dumps_them(tool_texts, specimens, inspect, name):
    text = (tool_texts / f"dump-spec-{name}-records.txt").read_text()
    broker, partition, file = re.search(r"Dumping (\S+)", text)[1].split("/")
    rows = inspect(specimens / f"{broker}-{partition}", "--deep")["segments"]
    (row,) = (row for row in rows if Path(row["path"]).name == file)
    data = [found for found in RECORD.findall(text) if not found[3].startswith(" endTxnMarker")]
    key_sizes, value_sizes = [int(found[0]) for found in data], [int(found[1]) for found in data]
    assert {
        "null_key_count": key_sizes.count(-1),
        "tombstone_count": value_sizes.count(-1),
        "key_bytes": sum(max(size, 0) for size in key_sizes),
        "value_bytes": sum(max(size, 0) for size in value_sizes),
        "header_count": sum(len(found[2].split(",")) for found in data if found[2]),
    }.items() <= row.items()


def dumped_batches(tool_texts: Path) -> dict[str, list[tuple]]:
    """Batch lines of every dump, by `broker-topic-partition`."""
    found = {}
    for path in sorted(tool_texts.glob("dump-*-batches.txt")):
        text = path.read_text()
        broker, partition, _ = re.search(r"Dumping (\S+)", text)[1].split("/")
        found[f"{broker}-{partition}", Path(re.search(r"Dumping (\S+)", text)[1]).name] = BATCH_LINE.findall(text)
    return found


def test_batches_as_kafka_dumps_them(tool_texts, specimens, inspect):
    dumps = dumped_batches(tool_texts)
    assert len(dumps) == 9
    for (archive, file), batches in dumps.items():
        rows = inspect(specimens / archive, "--verify")["segments"]
        (row,) = (row for row in rows if Path(row["path"]).name == file)
        columns = list(zip(*batches, strict=True))
        numbers = [[int(value) for value in column] for column in (columns[i] for i in (0, 1, 2, 3, 5, 6))]
        bases, lasts, counts, producers, stamps, sizes = numbers
        assert {
            "batch_count": len(batches),
            "first_offset": bases[0],
            "last_offset": lasts[-1],
            "record_count": sum(counts),
            "producer_id_count": len(set(producers) - {-1}),
            "control_batch_count": columns[4].count("true"),
            "max_timestamp_ms": max(stamps),
            "size_bytes": sum(sizes),
            "codecs": sorted(set(columns[8])),
            "crc_error_count": columns[9].count("false"),
            "problems": [],
        }.items() <= row.items(), archive
        assert Counter(columns[7]) == {"2": len(batches)}


def test_a_tree_of_brokers_with_everything_in_it(specimens, inspect):
    """All archives at once: nothing is wrong with any of them, and the totals add up."""
    report = inspect(specimens, "--verify")
    assert report["problems"] == []
    for total in ("batch_count", "record_count", "size_bytes", "control_batch_count"):
        sums = [sum(row[total] for row in report[rows]) for rows in ("segments", "partitions", "brokers")]
        assert len(set(sums)) == 1, total
    assert sum(row["segment_count"] for row in report["brokers"]) == len(report["segments"])

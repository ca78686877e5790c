"""`inspect --json` against facts found by an independent parser; `tests/kafka/test_inspect.py` has `kafka-dump-log`."""

import json
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


def test_a_tree_of_brokers_with_everything_in_it(specimens, inspect):
    """All archives at once: nothing is wrong with any of them, and the totals add up."""
    report = inspect(specimens, "--verify")
    assert report["problems"] == []
    for total in ("batch_count", "record_count", "size_bytes", "control_batch_count"):
        sums = [sum(row[total] for row in report[rows]) for rows in ("segments", "partitions", "brokers")]
        assert len(set(sums)) == 1, total
    assert sum(row["segment_count"] for row in report["brokers"]) == len(report["segments"])

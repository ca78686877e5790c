"""The committed capture holds what its manifest says: Kafka's own tools and the producers' own counts are the oracle."""

import json
import re
from collections import Counter

import pytest

from tests.lab.cluster import dump_logs
from tests.lab.facts import CONTROL_BIT, measure_share_ratios, read_batches, read_capture

SLOW_MINUTES = range(4, 8)
BATCH = re.compile(r"^baseOffset: .* count: (\d+) .* isControl: (\w+) .* isvalid: (\w+)", re.MULTILINE)


@pytest.fixture(scope="module")
def manifest(capture_folder):
    return json.loads((capture_folder / "manifest.json").read_text())


@pytest.fixture(scope="module")
def facts(capture_folder):
    return read_capture(capture_folder)


def test_logs_hold_the_records_the_producers_saw_acknowledged(facts, manifest):
    """Oracle: each client's own count of acknowledgements."""
    held = Counter()
    for (topic, _, _), fact in facts.items():
        held[topic] += fact.record_count

    assert held == {producer["topic"]: producer["acked_count"] for producer in manifest["producers"]}


@pytest.fixture(scope="module")
def dumped_records(capture_folder):
    logs = [log for topic in ("clicks", "ledger") for log in capture_folder.glob(f"brokers/*/{topic}-*/*.log")]
    return dump_logs(logs, "--print-data-log")


def test_the_lab_counts_as_kafka_does(capture_folder):
    """Oracle: DumpLogSegments, for the header walk the tests here rest on."""
    folders = ["brokers/0/payments-0", "brokers/1/ledger-1", "brokers/2/codec-zstd-2"]
    segments = [max((capture_folder / folder).glob("*.log")) for folder in folders]
    texts = dump_logs(segments)
    dumped = BATCH.findall("\n".join(texts[str(log)] for log in segments))

    assert {is_valid for *_, is_valid in dumped} == {"true"}
    assert [(int(count), is_control == "true") for count, is_control, _ in dumped] == [
        (count, bool(attributes & CONTROL_BIT))
        for segment in segments
        for _, attributes, _, count in read_batches(segment)
    ]


def test_transactions_end_in_commit_and_abort_markers(dumped_records, manifest):
    """Oracle: the producer's own count; a transaction of keyed records marks every partition it wrote."""
    [(topic, transactions)] = manifest["transactions"].items()
    dumped = [text for path, text in dumped_records.items() if f"/{topic}-" in path]
    markers = Counter(re.findall(r"endTxnMarker: (\w+)", "\n".join(dumped)))

    assert transactions["committed_count"] <= markers["COMMIT"] <= 3 * transactions["committed_count"]
    assert transactions["aborted_count"] <= markers["ABORT"] <= 3 * transactions["aborted_count"]
    assert transactions["aborted_count"] > 0


def test_broker_1_carries_too_much_in_minutes_4_to_7_only(facts):
    """The pipeline's verdict rests on this: a clear excess in the slow minutes, none in the others."""
    ratios = measure_share_ratios(facts)

    assert list(ratios) == list(range(12))
    assert all(ratios[minute][1] > 1.25 for minute in SLOW_MINUTES), ratios
    assert all(0.9 < ratio < 1.1 for minute in set(ratios) - set(SLOW_MINUTES) for ratio in ratios[minute].values())


def test_orders_carry_the_excess(facts):
    """KIP-480's partitioner without linger sends most records to the slow broker; the newer ones do so hardly."""
    excess = {
        topic: sum(measure_share_ratios(facts, [topic])[minute][1] - 1 for minute in SLOW_MINUTES)
        for topic in ("orders", "refunds", "payments")
    }
    assert excess["orders"] > 2 * max(excess["refunds"], excess["payments"])


def test_leaders_are_where_the_manifest_placed_them(capture_folder, manifest):
    """Oracle: what ``kafka-topics --describe`` printed."""
    text = (capture_folder / "tools/topics-describe.txt").read_text()
    described = re.findall(r"Topic: (\S+)\s+Partition: (\d+)\s+Leader: (\d+)", text)
    expected = {
        (topic, str(partition), str(leader))
        for topic, placement in manifest["topics"].items()
        for partition, (leader, *_) in enumerate(placement)
    }
    assert {row for row in described if not row[0].startswith("__")} == expected


def test_one_key_holds_a_fifth_of_clicks(dumped_records):
    """Oracle: the keys as DumpLogSegments prints them."""
    dumped = [text for path, text in dumped_records.items() if "/clicks-" in path]
    keys = Counter(re.findall(r" key: (\S+) payload:", "\n".join(dumped)))

    [(_, most)] = keys.most_common(1)
    assert 0.2 < most / keys.total() < 0.3


def test_exporters_were_scraped_throughout(capture_folder, manifest):
    """Twelve pages a minute from each producer, one from each broker; a loaded machine may miss some."""
    pages = {folder.name: len(list(folder.glob("*.prom"))) for folder in capture_folder.glob("scrapes/*/*")}
    java = {producer["process"] for producer in manifest["producers"] if producer["client"].startswith("java")}

    assert java | {"0", "1", "2"} == {name for name, count in pages.items() if count}
    assert all(pages[name] >= 12 * 11 for name in java)
    assert all(pages[broker] >= 12 for broker in ("0", "1", "2"))


def test_nothing_was_written_outside_the_twelve_windows(capture_folder, manifest):
    """A run over the windows leaves no record behind, the group's commits included; by our own header walk.

    A transactional producer makes itself known to its coordinator before it sends: that log may begin earlier.
    """
    start_ms, end_ms = manifest["clock"]["start_ms"], manifest["clock"]["end_ms"]
    outside = {
        log
        for log in (capture_folder / "brokers").glob("*/*/*.log")
        if not log.parent.name.startswith(("__cluster_metadata", "__transaction_state"))
        for _, _, max_timestamp_ms, _ in read_batches(log)
        if not start_ms <= max_timestamp_ms < end_ms
    }
    assert outside == set()


def test_metadata_ends_with_every_partition_led(capture_folder, manifest):
    """Oracle: the metadata log as DumpLogSegments decodes it; the last word on a partition is its creation.

    A log taken after the stop would end in partition changes to no leader.
    """
    folders = [capture_folder / node / "__cluster_metadata-0" for node in ("brokers/1", "controllers/100")]
    dumped = dump_logs([log for folder in folders for log in folder.glob("*.log")], "--cluster-metadata-decoder")
    assert len(dumped) == len(folders)
    for text in dumped.values():
        assert text.count('"type":"PARTITION_RECORD"') >= sum(map(len, manifest["topics"].values()))
        assert '"leader":-1' not in text

"""Indexes, snapshots, checkpoints and cluster metadata against what Kafka 4.1.1's own tools print for the same files."""

import json
import re
from pathlib import Path

import pytest

from pipeline.codec.log.batch_headers import BATCH_HEADER_BYTES
from pipeline.codec.log.index_files import read_offset_index, read_time_index, read_transaction_index
from pipeline.codec.log.log_directory import check_producer_snapshot
from pipeline.codec.log.record_batch import read_batch_header, read_records
from pipeline.codec.log.segment import scan_headers
from pipeline.codec.metadata.cluster_metadata import parse_metadata_record
from pipeline.codec.tools.tool_text import parse_log_dirs_describe, parse_offsets, parse_topics_describe
from pipeline.errors import InputError
from pipeline.model.log_tree import LeaderEpoch
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.files.metadata_log import read_metadata_log

AT_LAST_MS = 2**62
SEVEN = ("compact-0", "epoch-0", "headers-0", "idem-false-0", "keys-1", "logappend-0", "tx-0", "zstd-1")


@pytest.mark.parametrize("name", SEVEN)
def test_offset_index(dumped, name):
    path, lines = dumped(name, "index")
    index = read_offset_index(path, int(path.stem))
    printed = [f"offset: {o} position: {p}" for o, p in zip(index.offset, index.position, strict=True)]
    # the tool prints a line of zeros for an index without entries
    assert printed == [line for line in lines if line != f"offset: {int(path.stem)} position: 0"]


@pytest.mark.parametrize("name", SEVEN)
def test_time_index(dumped, name):
    path, lines = dumped(name, "timeindex")
    index = read_time_index(path, int(path.stem))
    printed = [f"timestamp: {t} offset: {o}" for t, o in zip(index.timestamp_ms, index.offset, strict=True)]
    assert printed == [line for line in lines if line.startswith("timestamp: ")]


def test_transaction_index(dumped):
    path, lines = dumped("tx-0", "txnindex")
    index = read_transaction_index(path)
    columns = (index.rows[name] for name in ("producer_id", "first_offset", "last_offset", "last_stable_offset"))
    assert lines == [
        f"version: 0 producerId: {p} firstOffset: {f} lastOffset: {last} lastStableOffset: {s}"
        for p, f, last, s in zip(*columns, strict=True)
    ]


@pytest.mark.parametrize("name", SEVEN)
def test_snapshot(dumped, name):
    """Kafka's own is taken, and refused with one bit changed."""
    path, _ = dumped(name, "snapshot")
    *others, last = path.read_bytes()
    check_producer_snapshot(bytes([*others, last]))
    with pytest.raises(InputError, match="CRC-32C"):
        check_producer_snapshot(bytes([*others, last ^ 1]))


def test_preallocated_indexes_of_a_live_segment(specimens):
    """The same partition after a clean stop has trimmed indexes: the entries must be equal."""
    live = specimens / "live-spec-lz4-0/spec-lz4-0" / f"{0:020d}"
    stopped = specimens / "b0-spec-lz4-0/spec-lz4-0" / f"{0:020d}"
    live_index = read_offset_index(live.with_suffix(".index"), 0)
    stopped_index = read_offset_index(stopped.with_suffix(".index"), 0)
    assert live_index.file_bytes == 10 << 20
    assert stopped_index.file_bytes == 8 * len(stopped_index.offset)
    assert live_index.offset.tolist() == stopped_index.offset.tolist()
    assert live_index.position.tolist() == stopped_index.position.tolist()
    live_times = read_time_index(live.with_suffix(".timeindex"), 0)
    stopped_times = read_time_index(stopped.with_suffix(".timeindex"), 0)
    # stopping adds one entry for the newest timestamp
    assert live_times.offset.tolist() == stopped_times.offset.tolist()[: len(live_times.offset)]
    assert len(stopped_times.offset) - len(live_times.offset) <= 1


@pytest.fixture(scope="module")
def metadata_directory(specimens):
    ((_, directory),) = discover_logs([specimens / "c100-__cluster_metadata-0"]).iter_partitions()
    return directory


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def as_kafka_prints(value):
    if isinstance(value, dict):
        return {camel_case(name): as_kafka_prints(item) for name, item in value.items()}
    return [as_kafka_prints(item) for item in value] if isinstance(value, list) else value


def test_metadata_records(tool_texts, metadata_directory):
    """Every record type we decode, field by field, against `kafka-dump-log --cluster-metadata-decoder`."""
    text = (tool_texts / "dump-cluster-metadata.txt").read_text()
    printed = [json.loads(line) for line in re.findall(r" payload: (\{.*)", text)]
    path = Path(metadata_directory.segments[0].path)
    data = path.read_bytes()
    scan = scan_headers(path)
    found = []
    for position in scan.position[~scan.is_control].tolist():
        header = read_batch_header(data, position)
        payload = data[position + BATCH_HEADER_BYTES : position + header.size_bytes]
        found += [parse_metadata_record(record.value) for record in read_records(header, payload)]
    assert [(r.type_name, r.version) for r in found] == [(p["type"], p["version"]) for p in printed]
    decoded = [(as_kafka_prints(r.fields), p["data"]) for r, p in zip(found, printed, strict=True) if r.fields]
    assert len(decoded) > 150
    assert all(ours == theirs for ours, theirs in decoded)


def test_history_against_what_the_tools_said_at_the_time(tool_texts, metadata_directory):
    """`kafka-topics --describe` was run three times: at some moment the history must say the same, in that order."""
    history, problems = read_metadata_log(metadata_directory)
    assert problems == ()
    moments = sorted({m for timeline in history.partitions.values() for m in timeline.moments_ms})
    after = 0
    for name in ("healthy", "broker0-down", "final"):
        text = (tool_texts / f"topics-describe-{name}.txt").read_text()
        described = parse_topics_describe(text)
        want = {p.topic_partition: (p.topic_id, p.leader_id, p.replicas, set(p.isr)) for p in described.partitions}
        elrs = {p.topic_partition: (p.eligible_leader_replicas, p.last_known_elr) for p in described.partitions}
        for at_ms in [m for m in moments if m > after]:
            state = history.state_at(at_ms)
            known = {k: p for k, p in state.partitions.items() if k in want}
            if want == {k: (p.topic_id, p.leader_id, p.replicas, set(p.isr)) for k, p in known.items()}:
                break
        else:
            pytest.fail(f"at no moment after {after} does the history say what {name} says")
        assert elrs == {k: (p.eligible_leader_replicas, p.last_known_elr) for k, p in known.items()}
        after = at_ms


def test_configs_against_describe(tool_texts, metadata_directory):
    """`--describe` also prints static broker settings, which the log does not hold: `segment.bytes`, `retention.ms`."""
    history, _ = read_metadata_log(metadata_directory)
    described = parse_topics_describe((tool_texts / "topics-describe-final.txt").read_text())
    state = history.state_at(AT_LAST_MS)
    for topic, configs in described.configs.items():
        ours = state.topic_config(topic)
        assert ours.items() <= configs.items()
        assert configs.keys() - ours.keys() <= {"segment.bytes", "retention.ms"}


def test_leader_terms_against_leader_epoch_checkpoints(specimens, metadata_directory):
    """Every epoch in a partition's checkpoint has a leader in the history, and it is one of its replicas."""
    history, _ = read_metadata_log(metadata_directory)
    tree = discover_logs([specimens])
    checked = 0
    for _, partition in tree.iter_partitions():
        for epoch in partition.leader_epochs:
            if partition.is_cluster_metadata:
                continue
            terms = history.leader_terms(partition.topic_partition)
            (leader,) = (
                t.leader_id for t in terms if (t.topic_id, t.leader_epoch) == (partition.topic_id, epoch.epoch)
            )
            assert leader in history.state_at(AT_LAST_MS).partitions[partition.topic_partition].replicas
            checked += 1
    assert checked > 40
    (epoch_0,) = (
        p for d, p in tree.iter_partitions() if p.topic == "spec-epoch" and p.partition == 0 and "b2-" in d.path
    )
    assert epoch_0.leader_epochs == tuple(LeaderEpoch(epoch=e, start_offset=o) for e, o in ((0, 0), (1, 101), (2, 202)))
    terms = history.leader_terms(epoch_0.topic_partition)
    assert [(t.leader_epoch, t.leader_id) for t in terms] == [(0, 0), (1, 1), (2, 2), (3, -1)]


def test_root_checkpoints_and_tool_output_agree(tool_texts, specimens):
    """High watermarks = log end offsets of `kafka-get-offsets`; sizes = `kafka-log-dirs`, for every replica."""
    tree = discover_logs([specimens])
    latest = parse_offsets((tool_texts / "get-offsets-latest.txt").read_text())
    watermarks = {k: v for d in tree.directories for k, v in d.high_watermarks.items()}
    assert {k: v for k, v in latest.items() if watermarks.get(k) != v} == {}
    replicas = parse_log_dirs_describe((tool_texts / "log-dirs-describe.txt").read_text())
    sizes = {(Path(d.path).name.split("-")[0], p.topic_partition): p.size_bytes for d, p in tree.iter_partitions()}
    described = {(f"b{r.broker_id}", r.topic_partition): r.size_bytes for r in replicas}
    differing = {k: (v, sizes[k]) for k, v in described.items() if k in sizes and sizes[k] != v}
    assert len(described.keys() & sizes.keys()) == 41  # every replica that is in an archive of its own
    assert differing == {}

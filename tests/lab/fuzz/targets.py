"""What is fuzzed: every parser of files and texts, and every kernel that sees what others wrote.

A target reads a specimen or raises `InputError` (`ConfigError` for the configuration), says nothing of a text in it, and gives
what plain Python gives where there is an oracle. Kernels read and write between guard pages.
"""

from __future__ import annotations

import struct
import tempfile
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import google_crc32c
import numpy as np
import pyarrow as pa

from pipeline.codec.log import log_directory
from pipeline.codec.log.compression import decompress
from pipeline.codec.log.index_files import read_offset_index, read_time_index, read_transaction_index
from pipeline.codec.log.log_directory import parse_directory_name
from pipeline.codec.log.record_batch import read_entry_records
from pipeline.codec.log.segment import iter_batches, scan_reply
from pipeline.codec.metadata.cluster_metadata import parse_metadata_record
from pipeline.codec.metrics.exposition import ExpositionReader
from pipeline.codec.metrics.librdkafka_statistics import parse_librdkafka_statistics
from pipeline.codec.records.key_table import KeyCounter, RecordTally
from pipeline.codec.records.record_reader import decode_reply
from pipeline.codec.tools.reassignment_text import parse_reassignment, parse_reassignment_status
from pipeline.codec.tools.tool_text import (
    parse_consumer_groups,
    parse_log_dirs_describe,
    parse_offsets,
    parse_topics_describe,
)
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.config.yaml_file import read_yaml
from pipeline.errors import ConfigError, InputError
from pipeline.model.log import Codec
from pipeline.partitioners.hash_kernels import hash_keys
from pipeline.partitioners.hashes import HashName
from pipeline.sources import kinds  # noqa: F401  (known, as after any configuration was read)
from tests.batches import compress, make_batch, make_marker, make_records, make_wrapper, write_message
from tests.lab.archive import unpack_once
from tests.lab.fuzz.corpus import load_cases
from tests.lab.fuzz.guarded import GuardedArrays, GuardedBytes
from tests.lab.fuzz.mutations import SECRET
from tests.oracles.hashes import hash_key
from tests.oracles.segment_reader import read_plainly

if TYPE_CHECKING:
    from collections.abc import Callable

    from pipeline.codec.log.batch_headers import HeaderScan

ROOT = Path(__file__).parents[3]
_ROOM = GuardedBytes(64 << 10)
ARRAYS = GuardedArrays()
_SPECIMEN_BYTES = 4096
_MEMORY = Path("/dev/shm")
_MOST_COMPARED = 2000  # records: the plain reader takes 10 us for each


@dataclass(frozen=True)
class Target:
    """What is called with mutated cases; `is_binary` seals checksums and lengths again after most mutations."""

    cases: tuple[bytes, ...]
    read: Callable[[bytes], object]
    seal: Callable[[bytes], bytes] | None = None
    repeats_names: bool = False


def run(target: Target, data: bytes) -> None:
    """Reads a specimen; any failure is an error other than those of input, an assertion, or the end of the process."""
    try:
        said = str(getattr(target.read(data), "bad_lines", ""))
    except (InputError, ConfigError) as error:
        said = f"{error} {error.__cause__}"
    assert target.repeats_names or SECRET.decode() not in said, said


def read_segment(data: bytes) -> HeaderScan:
    """Headers, records, keys, sums: next to guard pages, and of one case in four equal to the plain reader's."""
    headers, chance = scan_reply(data, name="x.log"), zlib.crc32(data)
    with ARRAYS.of_all(at_end=bool(chance & 8)):
        scans = list(decode_reply(_ROOM.hold(data, at_end=bool(chance & 4)), headers))  # type: ignore[arg-type]
        counter, tally = KeyCounter(7), RecordTally()
        for scan in scans:
            counter.add(scan, np.zeros(len(scan.headers), np.bool_))
            tally.add(scan)
        counter.result()
        tally.summary()
    if chance & 3 or sum(map(len, scans)) > _MOST_COMPARED:
        return headers
    plain = read_plainly(data)
    assert headers.rows.tolist() == plain.header_rows
    assert [stamp for scan in scans for stamp in scan.rows["timestamp_ms"].tolist()] == [
        row[1] for row in plain.record_rows
    ]
    keys = [
        None if length < 0 else key
        for scan in scans
        for length, key in zip(scan.key_length, scan.keys.to_pylist(), strict=True)
    ]
    assert keys == plain.keys
    return headers


def seal_batches(data: bytes) -> bytes:
    """Makes the lengths and checksums of batches right again, as a hostile producer would, up to the first odd one."""
    sealed, at = bytearray(data), 0
    while at + 61 <= len(sealed) and sealed[at + 16] == 2:
        length = struct.unpack_from(">i", sealed, at + 8)[0]
        if not 49 <= length <= len(sealed) - at - 12:
            length = len(sealed) - at - 12
            struct.pack_into(">i", sealed, at + 8, length)
        struct.pack_into(">I", sealed, at + 17, google_crc32c.value(bytes(sealed[at + 21 : at + 12 + length])))
        at += 12 + length
    return bytes(sealed)


def hash_columns(data: bytes) -> None:
    """Keys of drawn lengths in one column between guard pages, and so their hashes; these are as the plain functions have them."""
    head, held = data[:16], data[16:]
    ends = np.unique(np.minimum([0, *np.cumsum(list(head), dtype=np.int64), len(held)], len(held)))
    for at_end in (True, False):
        view = np.frombuffer(_ROOM.hold(held, at_end=at_end), np.uint8)
        buffers = [None, pa.py_buffer(ends.astype(np.int64)), pa.py_buffer(view)]
        keys = pa.Array.from_buffers(pa.large_binary(), len(ends) - 1, buffers)
        for name in (HashName.MURMUR2, HashName.KAFKAJS_MURMUR2, HashName.FNV1A, HashName.JAVA_STRING):
            with ARRAYS.of_all(at_end=at_end):
                found = hash_keys(keys, name)
            for key, value, is_hashed in zip(keys.to_pylist(), found.values.tolist(), found.is_hashed, strict=True):
                if is_hashed:
                    assert hash_key(name, key) == value
                else:
                    assert name is HashName.JAVA_STRING


def _of_file(read: Callable[[Path], object]) -> Callable[[bytes], object]:
    folder = tempfile.TemporaryDirectory(prefix="fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None)

    def parse(data: bytes) -> object:
        path = Path(folder.name) / "specimen.yaml"
        path.write_bytes(data)
        return read(path)

    return parse


def _of_text(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    def read(data: bytes) -> object:
        try:
            return parse(data.decode("utf-8", "replace"))
        except InputError as error:
            if error.first_bytes:
                raise AssertionError(error.first_bytes) from error
            raise

    return read


def _expose(text: str) -> object:
    reader = ExpositionReader()
    page = reader.read(text)
    again = reader.read(text)  # known series go another way
    assert page.values.tobytes() == again.values.tobytes()
    return page


def _list_segments() -> tuple[bytes, ...]:
    records = make_records(5, key=b"key-%d")
    plain = [make_batch(records, codec=codec) for codec in Codec]
    legacy = [make_wrapper(records[:3], magic=magic) + write_message(records[3], magic=magic) for magic in (0, 1)]
    transaction = make_batch(records, attributes=0x10, producer_id=1000, producer_epoch=0) + make_marker(5)
    return (*plain, *legacy, transaction, plain[0] + transaction)


def _of_checkpoints(files: Callable[[str], tuple[bytes, ...]]) -> dict[str, Target]:
    return {
        "index": Target(files("*.index"), _of_file(lambda path: read_offset_index(path, 7))),
        "timeindex": Target(files("*.timeindex"), _of_file(lambda path: read_time_index(path, 7))),
        "txnindex": Target(files("*.txnindex"), _of_file(read_transaction_index)),
        "snapshot": Target(files("*.snapshot"), log_directory.check_producer_snapshot),
        "leader epochs": Target(files("leader-epoch-checkpoint"), log_directory.parse_leader_epochs),
        "offset checkpoint": Target(files("replication-offset-checkpoint"), log_directory.parse_offset_checkpoint),
        "meta.properties": Target(files("meta.properties"), log_directory.parse_meta_properties),
        "partition.metadata": Target(files("partition.metadata"), log_directory.parse_partition_metadata),
    }


def load_targets() -> dict[str, Target]:
    """All targets by name, with specimens of the committed samples."""
    samples = unpack_once(ROOT / "tests/data/samples.tar.zst", ROOT / "build")

    def files(pattern: str) -> tuple[bytes, ...]:
        found = sorted((samples / "specimens").rglob(pattern), key=lambda path: (-path.stat().st_size, path))
        return tuple(path.read_bytes()[:_SPECIMEN_BYTES] for path in found[:4])

    def tool(name: str) -> tuple[bytes, ...]:
        return ((samples / "tools" / name).read_bytes()[:_SPECIMEN_BYTES],)

    (log,) = (samples / "specimens").glob("*/__cluster_metadata-0/*.log")
    entries = [read_entry_records(entry) for header, entry in iter_batches(log, 0) if not header.attributes & 0x20]
    metadata = tuple({record.value[0:3]: record.value for each in entries for record in each if record.value}.values())
    payloads = {codec: compress(codec, b"key and value " * 40) for codec in Codec if codec}
    targets = {
        "segment": Target(_list_segments(), read_segment, seal_batches),
        "hashes": Target((bytes(range(1, 17)) + b"kafka \xc3\xa9\xf0\x9f\x98\x80" * 20,), hash_columns),
        **{
            f"{codec.name.lower()}": Target((payload,), lambda data, codec=codec: decompress(codec, data))
            for codec, payload in payloads.items()
        },
        **_of_checkpoints(files),
        "metadata record": Target(metadata, parse_metadata_record),
        "directory name": Target(
            (b"my-topic.v1-12", b"a-0.0123456789abcdef0123456789abcdef-delete"),
            _of_text(parse_directory_name),
            repeats_names=True,
        ),
        "kafka-topics": Target(tool("topics-describe-healthy.txt"), _of_text(parse_topics_describe)),
        "kafka-log-dirs": Target(tool("log-dirs-describe.txt"), _of_text(parse_log_dirs_describe)),
        "kafka-get-offsets": Target(tool("get-offsets-latest.txt"), _of_text(parse_offsets)),
        "kafka-reassign-partitions": Target(tool("reassign-verify.txt"), _of_text(parse_reassignment_status)),
        "reassignment file": Target((_REASSIGNMENT,), _of_text(parse_reassignment)),
        "kafka-consumer-groups": Target((_GROUPS,), _of_text(parse_consumer_groups)),
        "librdkafka statistics": Target((_STATISTICS,), _of_text(parse_librdkafka_statistics)),
        "exporter page": Target((_EXPOSITION,), _of_text(_expose)),
        "configuration": Target(
            ((ROOT / "docker/partition-health.yaml").read_bytes(),),
            _of_file(lambda path: read_yaml(path).validate(PipelineConfig)),
            repeats_names=True,  # its author reads it
        ),
    }
    return {name: replace(target, cases=(*target.cases, *load_cases(name))) for name, target in targets.items()}


_EXPOSITION = (
    b'# HELP a_b x\n# TYPE a_b gauge\nkafka_b{c="d",e="f\\"g"} 12.5 1700000000000\nkafka_server_x 1\njvm_x 3\n'
)
_STATISTICS = (
    b'{"name": "rdkafka#producer-1", "client_id": "rdkafka", "type": "producer", "ts": 1, "time": 1795253820, '
    b'"brokers": {"b:9092/1": {"nodeid": 1, "rtt": {"avg": 1, "p50": 2}, "tx": 3, "txbytes": 4}}, '
    b'"topics": {"t": {"topic": "t", "batchsize": {"avg": 1}, "partitions": {"0": {"partition": 0, "txmsgs": 1}}}}}\n'
)
_REASSIGNMENT = (
    b'{"version":1,"partitions":[{"topic":"orders","partition":1,"replicas":[2,0]},'
    b'{"topic":"a.b","partition":0,"replicas":[0],"log_dirs":["any"]}]}'
)
_GROUPS = (
    b"\nGROUP TOPIC    PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID   HOST         CLIENT-ID\n"
    b"busy  a.b-c    11         5               5               0    reader-4ace   /127.0.0.1   my reader\n"
)

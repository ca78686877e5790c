"""Scans against Kafka's DumpLogSegments on the same files in the same run: `python -m tests.lab.bench.scan_bench`.

Marginal time per segment = (time for N files - time for one) / (N - 1), on both sides, each in a process of its own: what
starting a JVM or Python and its caches costs drops out. Files are made once, in the cache directory outside the tree;
the N names are hard links to one file, so that they all fit in memory.
"""

import os
import random
import resource
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np

from pipeline.model.log import Codec
from tests.batches import make_batch, make_records
from tests.lab.artifacts import BROKER, cache_directory, class_path, java_program
from tests.lab.bench.figures import best_of, make_parser, print_figures

DUMP_LOG = "kafka.tools.DumpLogSegments"
NAME_COUNT = 10


def write_segment(path, batches, batch_count):
    """Writes batches in turn, again and again, with rising offsets, which no checksum covers."""
    step = int.from_bytes(batches[0][23:27], "big") + 1
    with path.open("wb", buffering=8 << 20) as file:
        for number in range(batch_count):
            file.write((number * step).to_bytes(8, "big"))
            file.write(batches[number % len(batches)][8:])


def write_index(segment):
    """The offset index that a broker keeps beside a segment; of batches above `index.interval.bytes` each has an entry."""
    from pipeline.codec.log.segment import scan_headers  # noqa: PLC0415 - its import is measured

    scan = scan_headers(segment, check_crc=False)
    first, rows = int(scan.base_offset[0]), scan.rows[1:]  # the first one needs none
    entries = np.stack([rows["last_offset"] - first, rows["position"]], axis=1)
    segment.with_suffix(".index").write_bytes(entries.astype(">i4").tobytes())


def make_text(rng, size):
    """JSON-like bytes that compress to about a third."""
    text = b""
    while len(text) < size:
        text += b'{"id":%d,"city":"%s","amount":%d.%02d}' % (
            rng.randrange(10**9),
            rng.choice([b"Lisbon", b"Oslo", b"Accra"]),
            rng.randrange(999),
            rng.randrange(99),
        )
    return text[:size]


def make_files(directory):
    """The segments, each under as many names as needed, by kind; made where missing."""
    rng = random.Random(7)

    def noise(record_count, value_bytes, key=None):
        return make_batch(make_records(record_count, key=key, value=rng.randbytes(value_bytes)))

    def text(codec):
        records = [replace(record, value=make_text(rng, 250)) for record in make_records(180)]
        return make_batch(records, codec=codec)

    plans = {
        "one-record": (lambda: [noise(1, 100) for _ in range(1000)], 500_000),
        "16-KiB": (lambda: [noise(31, 512) for _ in range(100)], 66_200),
        "keyed-100": (lambda: [noise(120, 100, key=b"user-%03d") for _ in range(100)], 16_384),
        # as full as the producer's default batch.size makes them: 16 KiB after compression
        **{c.name.lower(): (lambda c=c: [text(c) for _ in range(256)], 4096) for c in list(Codec)[1:]},
    }
    for kind, (build, batch_count) in plans.items():
        _make(directory / kind, build, batch_count)
    return {path.name: sorted(path.glob("*/*.log")) for path in directory.iterdir()}


def _make(directory, build, batch_count):
    first = directory / "0" / f"{0:020d}.log"
    if not first.exists():
        first.parent.mkdir(parents=True, exist_ok=True)
        partial = first.with_suffix(".partial")
        write_segment(partial, build(), batch_count)
        partial.rename(first)
        for number in range(1, NAME_COUNT):
            (directory / str(number)).mkdir(exist_ok=True)
            os.link(first, directory / str(number) / first.name)
    first.read_bytes()  # both sides find it in the page cache


def time_process(command):
    """Wall and processor seconds of a process whose output is read, and dropped, through a pipe."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        while process.stdout.read(1 << 20):
            pass
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - started, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def kafka_command(paths, *, deep):
    flags = ["--deep-iteration"] if deep else []
    jvm = [str(java_program()), "-Xmx1g", "-cp", class_path(BROKER)]
    return [*jvm, DUMP_LOG, *flags, "--files", ",".join(map(str, paths))]


def our_command(paths, *, deep):
    return [
        sys.executable,
        "-m",
        "tests.lab.bench.scan_bench",
        "--scan",
        "deep" if deep else "headers",
        *map(str, paths),
    ]


def scan_files(kind, paths):
    """What a child process does: scan, checksums verified, and count."""
    from pipeline.codec.log.segment import scan_headers  # noqa: PLC0415 - its import is measured
    from pipeline.codec.records.record_reader import iter_record_scans  # noqa: PLC0415 - as above

    for path in paths:
        if kind == "headers":
            scan = scan_headers(path)
            assert scan.usable.all()
        else:
            for scan in iter_record_scans(path, scan_headers(path)):
                assert scan.headers.usable.all()


def measure_against_kafka(paths, *, deep, count, rounds):
    """Times both sides in turn; the best round of each counts, as the least disturbed."""
    times = {"kafka": {1: [], count: []}, "ours": {1: [], count: []}}
    commands = {"kafka": kafka_command, "ours": our_command}
    for _ in range(rounds):
        for side, command in commands.items():
            for n in (1, count):
                times[side][n].append(time_process(command(paths[:n], deep=deep)))
    wall, processor = (
        {side: {n: min(v[i] for v in values) for n, values in by_count.items()} for side, by_count in times.items()}
        for i in (0, 1)
    )
    figures = {"files": count}
    for clock, best in (("wall", wall), ("cpu", processor)):
        marginal = {side: (by_count[count] - by_count[1]) / (count - 1) for side, by_count in best.items()}
        figures |= {f"{side}_marginal_{clock}_s": value for side, value in marginal.items()}
        figures[f"marginal_{clock}_ratio"] = marginal["kafka"] / marginal["ours"]
        figures |= {f"{side}_whole_{clock}_s": by_count[count] for side, by_count in best.items()}
        figures[f"whole_{clock}_ratio"] = best["kafka"][count] / best["ours"][count]
    return figures


def measure_kernel(path, *, window_bytes=256 << 20):
    """Records per second and core of the decoder alone, on uncompressed batches."""
    from pipeline.codec.log.segment import scan_headers  # noqa: PLC0415
    from pipeline.codec.records.record_kernels import decode_batches  # noqa: PLC0415
    from pipeline.codec.records.record_scan import RECORD_ROW  # noqa: PLC0415

    data = np.fromfile(path, np.uint8, count=window_bytes)
    rows = scan_headers(path, check_crc=False).rows
    rows = rows[rows["position"] + rows["size_bytes"] <= len(data)]
    spans = np.stack([rows["position"] + 61, rows["position"] + rows["size_bytes"]], axis=1)
    records = np.zeros(int(rows["record_count"].sum()), RECORD_ROW)
    key_offsets, keys = np.zeros(len(records) + 1, np.int64), np.empty(len(data), np.uint8)
    seconds = best_of(
        7, lambda: decode_batches(data, spans, rows, 0, records, 0, key_offsets, keys, 0), time.thread_time
    )
    return {"million_records_per_s": len(records) / seconds / 1e6}


def measure_compressed(path):
    """A deep scan over the time that decompression of the same batches takes alone."""
    from pipeline.codec.log.compression import decompress_into  # noqa: PLC0415
    from pipeline.codec.log.segment import scan_headers  # noqa: PLC0415
    from pipeline.codec.records.record_reader import iter_record_scans  # noqa: PLC0415

    data, output = path.read_bytes(), np.empty(1 << 20, np.uint8).data
    scan = scan_headers(path)
    batches = list(zip(scan.codec.tolist(), scan.position.tolist(), scan.size_bytes.tolist(), strict=True))
    view = memoryview(data)

    def decompress_all():
        for codec, position, size_bytes in batches:
            decompress_into(codec, view[position + 61 : position + size_bytes], output)

    def scan_all():
        return sum(len(chunk) for chunk in iter_record_scans(path, scan_headers(path)))

    alone_s, scan_s = best_of(5, decompress_all), best_of(5, scan_all)
    return {"decompression_s": alone_s, "scan_s": scan_s, "ratio": scan_s / alone_s}


def measure(directory, *, quick):
    """Every figure of the issue's section on speed that concerns scans, as {name: {figure: value}}."""
    files = make_files(directory)
    rounds = 1 if quick else 2
    yield "headers one-record", measure_against_kafka(files["one-record"], deep=False, count=10, rounds=rounds)
    yield "headers 16-KiB", measure_against_kafka(files["16-KiB"], deep=False, count=10, rounds=rounds)
    yield "deep 16-KiB", measure_against_kafka(files["16-KiB"], deep=True, count=2 if quick else 4, rounds=1)
    for kind in ("16-KiB", "keyed-100"):
        yield f"kernel {kind}", measure_kernel(files[kind][0])
    for codec in list(Codec)[1:]:
        yield f"deep {codec.name.lower()}", measure_compressed(files[codec.name.lower()][0])


def main():
    parser = make_parser(__doc__, quick="one round, fewer files")
    parser.add_argument("--scan", nargs="+", help="what a child process does: headers|deep FILE...")
    arguments = parser.parse_args()
    if arguments.scan:
        scan_files(arguments.scan[0], arguments.scan[1:])
        return
    print_figures(measure(cache_directory().parent / "bench", quick=arguments.quick), as_json=arguments.json)


if __name__ == "__main__":
    main()

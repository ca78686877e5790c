"""What leaves a host: bytes a collector writes per GB of log it reads, by size of records and batches.

    make bench ARGS="collected --megabytes 32"

Keys of 12 bytes, 5,000 of them, half of the records with the 50 heaviest; values of random bytes; a record each 0.1 to 3 ms.
"""

import argparse
import os
import random
import tempfile
import time
from pathlib import Path

from pipeline.config_file import load_config
from pipeline.model.log import Record
from pipeline.sources.collected.collector import CollectRequest, RateLimit, collect
from pipeline.sources.collected.stored_folder import StoredFolder
from tests.batches import START_MS, make_batch

CASES = ((100, 16), (100, 160), (1_000, 16), (1_000, 160), (10_000, 10))
"""Bytes of a value, records of a batch."""
CONFIG = """
warehouse: w
outbox: o
keys: {secret: secret}
clusters: {demo: {sources: [{kind: collected, path: landing}]}}
"""


def write_log(folder: Path, value_bytes: int, batch_records: int, most_bytes: int) -> None:
    """Writes a log directory of one partition."""
    chance = random.Random(value_bytes)
    folder.joinpath("orders-0").mkdir(parents=True)
    folder.joinpath("meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    offset, at_ms, written = 0, float(START_MS), 0
    with folder.joinpath("orders-0/00000000000000000000.log").open("wb") as file:
        while written < most_bytes:
            records = []
            for _ in range(batch_records):
                at_ms += chance.uniform(0.1, 3)
                key = chance.randrange(50 if chance.random() < 0.5 else 5_000)
                records.append(
                    Record(offset=offset, timestamp_ms=int(at_ms), key=b"key-%08d" % key, value=os.urandom(value_bytes))
                )
                offset += 1
            written += file.write(make_batch(records, producer_id=1, producer_epoch=0, base_sequence=offset % 2**31))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=32, help="of each log")
    most_bytes = parser.parse_args().megabytes << 20
    kinds = ("batches", "arrivals", "keys")
    print(
        "| value bytes | records per batch | MB per GB of log | of that "
        + " | ".join(kinds)
        + " | log MB/s, one core |"
    )
    print("|---" * (4 + len(kinds)) + "|")
    for value_bytes, batch_records in CASES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_log(folder / "disk", value_bytes, batch_records, most_bytes)
            (folder / "c.yaml").write_text(CONFIG)
            request = CollectRequest(
                paths=[folder / "disk"],
                config=load_config(folder / "c.yaml"),
                cluster="demo",
                host="",
                keep_ms=2**40,
                as_of_ms=START_MS + 86_400_000,
                run_id="sizes",
            )
            rate_limit = RateLimit(bytes_per_s=10**12, clock=time.monotonic, pause=time.sleep)
            began_s = time.process_time()
            done = collect(request, StoredFolder(str(folder / "landing")), rate_limit)
            rate = done.read_bytes / 1e6 / (time.process_time() - began_s)
            per_gb = {kind: size * 1e3 / done.read_bytes for kind, size in done.written_bytes.items()}
            shown = " | ".join(f"{per_gb.get(kind, 0):.2f}" for kind in kinds)
            print(f"| {value_bytes:,} | {batch_records} | {sum(per_gb.values()):.2f} | {shown} | {rate:.0f} |")


if __name__ == "__main__":
    main()

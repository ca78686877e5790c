"""The committed capture as input: unpacked, with a configuration that reads it.

`python -m tests.lab.demo.recording FOLDER` unpacks it and prints its windows.
"""

import json
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import yaml
import zstandard

from pipeline.errors import ConfigError
from pipeline.model.window import TimeWindow, format_instant

CAPTURE_ARCHIVE = Path(__file__).resolve().parents[2] / "data/capture.tar.zst"
CLUSTER = "demo"
# What a client upgrade would change: each version with its own defaults.
DEMO_CANDIDATES = (
    {"name": "client 3.2.3", "client": "3.2.3"},
    {"name": "client 3.9.1", "client": "3.9.1"},
    {"name": "client 4.1.1", "client": "4.1.1"},
    {"name": "linger.ms=5", "config": {"linger.ms": 5}},
    {"name": "librdkafka", "partitioner": "librdkafka-consistent_random"},
    {"name": "twice the partitions", "partitions": "x2"},
)
EVENTS = "events"
"""Folder of Spark's event log, beside the configuration."""
_MAX_WINDOW_BYTES = 1 << 27


@dataclass(frozen=True, slots=True)
class Demo:
    """A recording ready to be read: the configuration file, and the span of its windows."""

    config: Path
    span: TimeWindow


def prepare_demo(folder: Path, *, engine: str = "spark") -> Demo:
    """Unpacks the capture into `folder`, over an earlier one, and writes `partition-health.yaml` there.

    `engine`: what runs the pipeline: `spark`, or `sail`.

    Raises:
        ConfigError: if the archive cannot be unpacked.
    """
    folder.mkdir(parents=True, exist_ok=True)
    unpack_capture(CAPTURE_ARCHIVE, folder)
    clock = json.loads((folder / "capture/manifest.json").read_text(encoding="utf-8"))["clock"]
    config = folder / "partition-health.yaml"
    text = yaml.safe_dump(_configuration(folder, clock, engine=engine), sort_keys=False)
    config.write_text(text, encoding="utf-8")
    return Demo(config, TimeWindow(clock["start_ms"], clock["end_ms"]))


def _event_log(folder: Path) -> dict[str, str]:
    """Settings that have Spark write down what it does."""
    events = folder / EVENTS
    events.mkdir(exist_ok=True)
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(events.resolve()),
        "spark.eventLog.compress": "false",
    }


def unpack_capture(archive: Path, folder: Path) -> None:
    """Unpacks a capture's archive below `folder`, into the folder `capture`.

    Raises:
        ConfigError: if the archive cannot be unpacked.
    """
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    try:
        with (
            archive.open("rb") as source,
            decompressor.stream_reader(source) as stream,
            tarfile.open(fileobj=stream, mode="r|") as tar,
        ):
            tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2, as in Debian 12, has none
            tar.extractall(folder)
    except (OSError, tarfile.TarError, zstandard.ZstdError) as error:
        raise ConfigError(f"{archive} cannot be unpacked as a capture: {error}") from error


def _configuration(folder: Path, clock: dict[str, int], *, engine: str) -> dict[str, object]:
    groups = sorted((folder / "capture/tools").glob("consumer-groups-describe-*.txt"))
    return {
        "warehouse": "warehouse",
        "outbox": "outbox",
        "window": f"PT{clock['window_ms'] // 1000}S",
        "grace": "PT1M",
        "mail": {"sender": "partition-health@example.org", "to": ["kafka-platform@example.org"]},
        "candidates": list(DEMO_CANDIDATES),
        "spark": {"engine": engine, "conf": _event_log(folder) if engine == "spark" else {}},
        "clusters": {
            CLUSTER: {
                "as_of": format_instant(clock["recorded_until_ms"]),
                "owner": "kafka-platform",
                "sources": [
                    {"kind": "log_directories", "paths": ["capture/brokers", "capture/controllers"]},
                    {"kind": "topics_describe", "path": "capture/tools/topics-describe.txt"},
                    {"kind": "consumer_groups", "paths": [str(path.relative_to(folder)) for path in groups]},
                    {"kind": "producer_metrics", "path": "capture/scrapes/producers"},
                    {"kind": "broker_metrics", "path": "capture/scrapes/brokers"},
                ],
            }
        },
    }


if __name__ == "__main__":
    sys.stdout.write(f"{prepare_demo(Path(sys.argv[1])).span}\n")

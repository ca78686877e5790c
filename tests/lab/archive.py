"""Committed recordings: one folder as a compressed tar, the same bytes for the same files."""

import contextlib
import hashlib
import tarfile
import tempfile
from pathlib import Path

import zstandard

COMMITTED = Path(__file__).parents[1] / "data/capture.tar.zst"


def pack(folder: Path, archive: Path) -> None:
    """Write ``folder`` (its own name kept, modification times kept, owners dropped, order fixed)."""
    # A decoder keeps the window of 128 MiB at hand. Level 22 saves 7 %, for twenty times the work.
    parameters = zstandard.ZstdCompressionParameters.from_level(19, window_log=27)
    archive.parent.mkdir(parents=True, exist_ok=True)
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    with (
        archive.open("wb") as sink,
        compressor.stream_writer(sink) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        # Replicas of a partition, byte for byte the same, come one after the other.
        for path in sorted(folder.rglob("*"), key=lambda path: (path.parent.name, path.name, path)):
            if path.is_file():
                entry = tar.gettarinfo(path, str(path.relative_to(folder.parent)))
                entry.uid = entry.gid = 0
                entry.uname = entry.gname = ""
                entry.mode = 0o644
                entry.mtime = int(entry.mtime)
                with path.open("rb") as source:
                    tar.addfile(entry, source)


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack below ``folder``; returns the folder that was packed."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    with (
        archive.open("rb") as source,
        decompressor.stream_reader(source) as stream,
        tarfile.open(fileobj=stream, mode="r|") as tar,
    ):
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2, as in Debian 12, has none
        tar.extractall(folder)
    (packed,) = folder.iterdir()
    return packed


def unpack_once(archive: Path, cache: Path) -> Path:
    """The packed folder below ``cache``, unpacked the first time this archive is asked for; leave it as it is."""
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()[:12]
    target = cache / f"{archive.name.partition('.')[0]}-{digest}"
    if not target.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as partial:
            unpack(archive, Path(partial) / "whole")
            with contextlib.suppress(OSError):  # another process was first
                (Path(partial) / "whole").rename(target)
    (packed,) = target.iterdir()
    return packed

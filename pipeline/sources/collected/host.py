"""Hosts of a landing folder, and what is read of their parts before a run plans its tasks."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import InputError
from pipeline.model.log import Problem
from pipeline.model.number_text import escape_hidden
from pipeline.model.window import TimeWindow
from pipeline.sources.collected.manifest import Manifest, Part, read_manifest
from pipeline.sources.collected.part_rows import read_rows
from pipeline.sources.collected.stored_folder import StoredFolder
from pipeline.sources.questions import name_some
from pipeline.sources.records.pieces import Kind

PartitionId = tuple[str, str, int]
_ADVICE = "delete it, and the next run does without its host"


@dataclass(frozen=True, slots=True)
class Host:
    """A host's folder and its committed parts."""

    folder: StoredFolder
    manifest: Manifest

    @property
    def name(self) -> str:
        return self.folder.location.rpartition("/")[2]

    def parts_within(self, span: TimeWindow) -> list[Part]:
        """Parts that may have rows of a span's windows."""
        return [
            part
            for part in self.manifest.parts
            if part.start_ms < span.end_ms and (part.end_ms >= span.start_ms or part.start_ms < 0)
        ]


def read_hosts(landing: StoredFolder, span: TimeWindow, problems: list[Problem]) -> list[Host]:
    """Reads the hosts of a landing folder, by name; a faulty one, or one that lost parts of the span, becomes a problem."""
    hosts = []
    for name in landing.folders():
        try:
            host = _read_host(landing, name)
            if host is not None:
                _check_parts(host, span)
                hosts.append(host)
        except InputError as error:
            problems.append(Problem.of_error(escape_hidden(f"{landing.location.rstrip('/')}/{name}"), error))
    return hosts


def _read_host(landing: StoredFolder, name: str) -> Host | None:
    if not name.isprintable():
        raise InputError("a name with characters that are hidden or not UTF-8: the host is left out")
    if landing.leads_out(name):
        raise InputError("a link that leads out of the landing folder: the host is left out")
    folder = StoredFolder(f"{landing.location.rstrip('/')}/{name}", landing.storage)
    manifest = read_manifest(folder)
    return None if manifest is None else Host(folder, manifest)


def _check_parts(host: Host, span: TimeWindow) -> None:
    sizes = {path: size for path, _, size in host.folder.files("parts")}
    lost = [part.path for part in host.parts_within(span) if sizes.get(part.path) != part.size_bytes]
    if lost:
        raise InputError(name_some("the host is left out: gone, or not as long as the manifest says:", lost))


def read_part(folder: StoredFolder, part: Part, filters: pc.Expression | None = None) -> pa.Table:
    """Reads the rows of a part.

    Raises:
        InputError: It is gone, damaged, or has other rows than the manifest says or a collector writes.
    """
    content, path = folder.read(part.path), f"{folder.location}/{part.path}"
    if content is None:
        raise InputError("named by the manifest, but gone: run again, without its host", path=path)
    try:
        return read_rows(content, part, filters)
    except InputError as error:
        raise InputError(f"{error.reason}: {_ADVICE}", path=path) from error
    except (OSError, ValueError, KeyError, MemoryError, pa.ArrowException) as error:
        raise InputError(f"no {part.kind} of a collector ({type(error).__name__}): {_ADVICE}", path=path) from error


def name_partitions(rows: pa.Table) -> pa.ChunkedArray:
    """Topic, topic id and partition of each row as one text."""
    return pc.binary_join_element_wise(rows["topic"], rows["topic_id"], rows["partition"].cast(pa.string()), "\0")


def iter_window_rows(host: Host, span: TimeWindow) -> Iterator[dict[str, int | str]]:
    """Rows of kind `window` of the span's windows; those of a damaged part are left out, as whoever reads it says."""
    for part in host.parts_within(span):
        if part.kind != Kind.SUMMARIES.value:
            continue
        try:
            rows = read_part(host.folder, part)
        except InputError:
            continue
        start = rows["window_start_ms"]
        is_within = pc.and_(pc.greater_equal(start, span.start_ms), pc.less(start, span.end_ms))
        columns = ("topic", "topic_id", "partition", "window_start_ms", "first_offset", "last_offset")
        yield from rows.filter(pc.and_(pc.equal(rows["row_kind"], "window"), is_within)).select(columns).to_pylist()

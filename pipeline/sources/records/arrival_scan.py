"""One segment file, scanned for arrivals: its records by producer session, minute and window.

The batches that count, and their windows, are those of `record_scan`. Records of aborted transactions were load: they are
among the others, and counted. Which transactions were aborted the markers in the segment tell, and where they end in a
later one, that one's transaction index.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pipeline.codec.records.arrival_layout import NO_WINDOW
from pipeline.codec.records.arrivals import BatchTimes, Packer, PlainPacker
from pipeline.codec.records.key_numbers import PlainKeyNumbers, UnnamedKeys
from pipeline.errors import InputError
from pipeline.sources.records.aborted_batches import find_aborted
from pipeline.sources.records.record_scan import RecordScanSettings, choose_windows, find_records
from pipeline.sources.records.segment_scan import SENSELESS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from pipeline.codec.log.scans import RecordScan
    from pipeline.codec.records.arrivals import PackedArrivals
    from pipeline.codec.records.key_ids import KeySecret
    from pipeline.model.window import TimeWindow
    from pipeline.sources.files.segment_plan import SegmentRead
    from pipeline.sources.records.segment_scan import ScannedSegment

_KERNELS = "pipeline.codec.records.arrival_kernels"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalScanSettings:
    """What a scan for arrivals is told; picklable, with the secret in it, which shows nowhere.

    Attributes:
        scan: The run's now, its windows.
        secret: Behind the ids of keys; None where none are stored.
        clear_topics: Topics whose keys are stored in clear.
        slices: Of a sampled source the times that are read; the windows whole where there are none.
    """

    scan: RecordScanSettings
    secret: KeySecret | None
    clear_topics: frozenset[str] = frozenset()
    slices: tuple[TimeWindow, ...] = ()

    def make_packer(self, topic: str, *, is_small: bool) -> Packer:
        """A packer for a partition of a topic.

        Args:
            topic: The topic.
            is_small: The records are few: importing Numba would take longer.
        """
        if is_small and _KERNELS not in sys.modules:
            if self.secret is None:
                return PlainPacker(UnnamedKeys())
            return PlainPacker(PlainKeyNumbers(self.secret, is_clear=topic in self.clear_topics))
        from pipeline.codec.records.arrival_packing import KernelPacker, make_key_numbers  # noqa: PLC0415 - imports Numba

        return KernelPacker(make_key_numbers(self.secret, is_clear=topic in self.clear_topics))


def iter_arrivals(read: SegmentRead, settings: ArrivalScanSettings) -> Iterator[PackedArrivals]:
    """Packs the arrivals of a segment, chunk after chunk.

    A file that cannot be read gives none; `kafka_segment_summaries` tells why.

    Args:
        read: Which file.
        settings: Which windows, and what is stored of keys.
    """
    found = find_records(read, settings.scan)
    if found is None:
        return
    packer = settings.make_packer(read.topic, is_small=found.is_small)
    try:
        times = time_batches(found.scanned, settings, find_aborted(found.path, found.scanned.headers))
        yield from pack_chunks(found.iter_scans(), times.part(found.first, found.end), packer)
    except (InputError, OSError):  # gone since, as retention takes files
        return


def time_batches(scanned: ScannedSegment, settings: ArrivalScanSettings, is_aborted: NDArray[np.bool_]) -> BatchTimes:
    """What the packer is told of each batch.

    Args:
        scanned: The batches.
        settings: Which windows.
        is_aborted: By batch.
    """
    event_time_ms = scanned.times.event_time_ms
    counts = scanned.is_countable
    if settings.slices:
        inside = [(event_time_ms >= piece.start_ms) & (event_time_ms < piece.end_ms) for piece in settings.slices]
        counts = counts & np.any(inside, axis=0)
    return BatchTimes(
        window_start_ms=np.where(counts, choose_windows(scanned, settings.scan), NO_WINDOW),
        event_time_ms=event_time_ms,
        is_outlier=scanned.times.is_outlier,
        is_aborted=is_aborted,
    )


def pack_on_the_way(
    chunks: Iterable[RecordScan], times: BatchTimes, packer: Packer, packed: list[PackedArrivals]
) -> Iterator[RecordScan]:
    """Hands scanned records on, packed besides: so that they are decoded once.

    Args:
        chunks: Scanned with keys.
        times: For exactly the batches of the chunks.
        packer: Does it.
        packed: Takes what was packed.
    """
    done = 0
    for scan in chunks:
        packed += pack_chunks([scan], times.part(done, done + len(scan.headers)), packer)
        done += len(scan.headers)
        yield scan


def pack_chunks(chunks: Iterable[RecordScan], times: BatchTimes, packer: Packer) -> Iterator[PackedArrivals]:
    """Packs scanned records.

    Args:
        chunks: Scanned with keys.
        times: For exactly the batches of the chunks.
        packer: Does it.
    """
    done = 0
    for scan in chunks:
        own = times.part(done, done + len(scan.headers))
        # A wrapper that turns out to make no sense only when it is opened is no load.
        countable = ~np.isin(scan.headers.rows["flaw"], SENSELESS)
        packed = packer.pack(scan, own.where(countable))
        done += len(scan.headers)
        if len(packed.groups):
            yield packed

"""What the rule about disks measures: hours until a volume is full, each volume once."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from pipeline.model.window import HOUR_MS
from pipeline.rules.rule import RuleInput, RuleMeasure, measure_broker
from pipeline.tables.bronze import BROKERS

DISK_MAPS = ("log_dir_bytes", "log_dir_total_bytes", "log_dir_usable_bytes")
DISK_COLUMNS = ("broker_id", *DISK_MAPS)  # of `bronze.brokers`
HISTORY_WINDOWS = 24
HISTORY_MS = 2 * HOUR_MS  # of short windows: a trend of so long reaches the rule's limit of 48 h
MOST_LATER = 1.5  # times another broker of the same volume may say that it is full, by what it saw
SAME_VOLUME = 0.001  # part of a volume by which two brokers that are asked seconds apart may see its room differ

_Pairs = Sequence[tuple[str, int]] | None  # a map, as tables have it
Disk = tuple[int, str]  # broker and disk
Fillings = dict[int, tuple[int, int]]  # by window's start: bytes used, bytes in all


def measure_disks(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
    """Hours until the first disk of a broker is full; a volume that several brokers report is judged of the first one.

    A disk is the volume of a log directory as the broker reports it, else all of its disks by the configuration.
    """
    from pipeline.measures.disks import NO_END_HOURS, hours_to_full

    disks: dict[Disk, Fillings] = defaultdict(dict)
    history = max(HISTORY_WINDOWS, -(-HISTORY_MS // given.window_ms))
    for start_ms, *of_broker in given.tuples(BROKERS, "window_start_ms", *DISK_COLUMNS, history_windows=history):
        for name, filling in disk_fillings(given.disk_bytes, *of_broker):
            disks[of_broker[0], name][start_ms] = filling
    find_shared = cache(partial(_find_shared, disks))  # of few: a broker may name other directories in each window
    soonest: dict[tuple[int, int], tuple[float, Disk, str]] = {}
    for disk, by_window in sorted(disks.items()):
        for start_ms in sorted(by_window.keys() & set(given.starts_ms)):
            first_ms = start_ms - history * given.window_ms  # however many windows a run measures
            known = sorted(at_ms for at_ms in by_window if first_ms <= at_ms <= start_ms)
            used, total = by_window[start_ms]
            ends_ms = [at_ms + given.window_ms for at_ms in known]
            hours = hours_to_full(ends_ms, [by_window[at_ms][0] for at_ms in known], total)
            if hours is not None:
                pace = f", and at this pace all of it in {hours:.0f} h" if 0 < hours < NO_END_HOURS else ""
                detail = f"{disk[1]} is {used / total:.0%} full{pace}"
                fullest = (hours, disk, detail)
                soonest[start_ms, disk[0]] = min(fullest, soonest.get((start_ms, disk[0]), fullest))
    for (start_ms, broker_id), (hours, disk, detail) in soonest.items():
        first, *others = find_shared(disk)
        also = f"; {_name_brokers(others)} the same volume" if others and broker_id == first else ""
        told = soonest.get((start_ms, first))
        # a broker may say that it has another's volume, and nothing of when that is full
        is_own = broker_id == first or told is None or told[0] > MOST_LATER * hours or hours == NO_END_HOURS
        named = also if is_own else f", the volume of broker {first}"
        yield replace(measure_broker(rule, start_ms, broker_id, hours, f"{detail}{named}"), is_enough=is_own)


def format_hours_to_full(hours: float) -> str:
    from pipeline.measures.disks import NO_END_HOURS

    return f"{hours:.0f} h" if hours < NO_END_HOURS else "no end in sight"


def _find_shared(disks: Mapping[Disk, Fillings], disk: Disk) -> list[int]:
    """The brokers that report the volume of a disk, ascending: of one size, and always with the same room left."""
    own, alike = disks[disk], {disk[0]}
    for (broker_id, _), other in disks.items():
        pairs = [] if broker_id in alike else [(own[at_ms], other[at_ms]) for at_ms in own.keys() & other.keys()]
        is_same = (size == total and abs(used - its) <= SAME_VOLUME * size for (used, size), (its, total) in pairs)
        if pairs and all(is_same):
            alike.add(broker_id)
    return sorted(alike)


def _name_brokers(ids: list[int]) -> str:
    *others, last = map(str, ids)
    return f"brokers {', '.join(others)} and {last} report" if others else f"broker {last} reports"


def disk_fillings(
    disk_bytes: Mapping[int, int], broker_id: int, held: _Pairs, totals: _Pairs, usable: _Pairs
) -> Iterator[tuple[str, tuple[int, int]]]:
    if broker_id in disk_bytes:
        used = sum(size for _, size in held or ())
        if used:
            yield "the room that disk_bytes gives its replicas", (used, disk_bytes[broker_id])
        return
    for path, total in totals or ():
        if total:
            yield path, (total - dict(usable or ())[path], total)

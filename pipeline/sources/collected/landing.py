"""What hosts brought of a cluster: which of them count, what each may speak for, and what is not as they say."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pipeline.model.cluster import ClusterHistory
from pipeline.model.log import Problem
from pipeline.model.log_tree import LogTree
from pipeline.model.window import TimeWindow
from pipeline.sources.collected.agreement import Agreement
from pipeline.sources.collected.copies import NO_COPIES, Copies, choose_copies
from pipeline.sources.collected.holders import keep_what_is_placed, list_disputes
from pipeline.sources.collected.host import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Hosts of a cluster.

    Attributes:
        hosts: Those that count, without what the metadata does not place on them.
        copies: What is read of each.
        doubts: What the windows lack, or may lack.
        choose: Chooses the copies among some of the hosts.
    """

    hosts: tuple[Host, ...] = ()
    copies: Copies = NO_COPIES
    doubts: tuple[str, ...] = ()
    choose: Callable[[Sequence[Host]], Copies] = lambda _: NO_COPIES

    def without(self, hosts: Collection[Host]) -> Landing:
        """The same without some hosts; others' copies count in their place."""
        kept = tuple(host for host in self.hosts if host not in hosts)
        return replace(self, hosts=kept, copies=self.choose(kept))

    def doubting(self, summaries: Sequence[Mapping[str, Any]], span: TimeWindow) -> Landing:
        """The same, with what the tasks found: parts that could not be read, and such as hold other batches than counted."""
        lost = [str(row["reason"]) for row in summaries if row["row_kind"] == "shortfall"]
        return replace(self, doubts=(*self.doubts, *dict.fromkeys(lost), *_compare(summaries, span)))


def settle(
    hosts: Sequence[Host],
    agreement: Agreement,
    history: ClusterHistory,
    *,
    span: TimeWindow,
    topics: Collection[str],
    problems: list[Problem],
) -> Landing:
    """Leaves out what hosts may not speak for, and chooses the copies; `problems` takes what is left out."""
    for place, reason in agreement.refused.items():
        problems.append(Problem(path=hosts[place].folder.location, reason=reason))
    kept = [host for place, host in enumerate(hosts) if place not in agreement.refused]
    kept = keep_what_is_placed(kept, history, span.start_ms, problems)
    choose = partial(choose_copies, history=history, span=span, topics=topics)
    copies = choose(kept)
    lacks = [f"{topic}-{partition}: {reason}" for (topic, _, partition), reason in copies.lacks]
    doubts = (*agreement.doubts, *list_disputes(kept), *_list_overstated(kept, copies), *lacks)
    return Landing(hosts=tuple(kept), copies=copies, doubts=doubts, choose=choose)


def _list_overstated(hosts: Sequence[Host], copies: Copies) -> list[str]:
    """Partitions of which a host says that it read further than what it read of them goes.

    A segment that is complete may end before the next one's first offset: the cleaner took what was between.
    """
    found = []
    for host, of_host in zip(hosts, copies.of, strict=True):
        begins = _list_beginnings(host)
        for progress in host.manifest.progress:
            last = progress.totals.row.get("last_offset")
            ends = {progress.base_offset, *([last + 1] if isinstance(last, int) else []), *begins.get(progress.key, ())}
            is_settled = progress.collected_at_ms <= host.manifest.collected_at_ms
            if progress.key in of_host and progress.key in begins and is_settled and progress.next_offset not in ends:
                found.append(
                    f"{host.name} says it read {progress.topic}-{progress.partition} up to offset "
                    f"{progress.next_offset}, and its batches end at {last}"
                )
    return found


def _list_beginnings(host: Host) -> dict[tuple[str, str, int], set[int]]:
    """First offsets of the segments that are on the host's disks, by partition."""
    tree = LogTree(directories=host.manifest.state.directories)
    return {
        (found.topic, found.topic_id or "", found.partition): {one.base_offset or 0 for one in found.segments}
        for _, found in tree.iter_partitions()
    }


def _compare(summaries: Iterable[Mapping[str, Any]], span: TimeWindow) -> list[str]:
    """Windows of partitions of which the parts hold other batches than the collector counted."""
    totals: dict[tuple[str, str, int, int], dict[str, tuple[int, int]]] = {}
    for row in summaries:
        if row["row_kind"] in {"window", "held"} and span.start_ms <= row["window_start_ms"] < span.end_ms:
            of_window = totals.setdefault(
                (row["topic"], row["topic_id"] or "", row["partition"], row["window_start_ms"]), {}
            )
            count, last = of_window.get(row["row_kind"], (0, -1))
            of_window[row["row_kind"]] = count + (row["batch_count"] or 0), max(last, row["last_offset"])
    nothing = (0, -1)
    return sorted(
        f"{topic}-{partition}: {said[0]} batches up to offset {said[1]} were collected, its parts hold {held[0]} up to {held[1]}"
        for (topic, _, partition, _), both in totals.items()
        if (said := both.get("window", nothing)) != (held := both.get("held", nothing))
    )

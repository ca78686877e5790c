"""What a run learns of a live cluster before it reads records: its state, its groups, the ranges to fetch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pipeline.errors import SourceUnreachableError
from pipeline.model.cluster import LIVE_CLUSTER as STATE_SOURCE
from pipeline.model.cluster import ClusterHistory
from pipeline.model.log import Problem
from pipeline.model.window import instant_of, milliseconds_of, spanning
from pipeline.sources.live.connection import connected
from pipeline.sources.live.describe import ask_groups
from pipeline.sources.live.offsets import OffsetTraffic, read_offset_traffic
from pipeline.sources.live.plan import FetchRead, Shortfall, join_reads, plan_fetches
from pipeline.sources.live.sampling import choose_partitions, choose_slices
from pipeline.sources.live.state import LiveState, describe_failures, read_live_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pipeline.config.live_source import LiveCluster
    from pipeline.config.pipeline_config import Cluster
    from pipeline.model.consumer_group import ConsumerGroupMember
    from pipeline.model.earlier_state import EarlierState
    from pipeline.model.log import TopicPartition
    from pipeline.model.window import TimeWindow
    from pipeline.sources.live.connection import Connection

NAMED = 5
"""So many missing items are named, the others counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReading:
    """What the cluster answered, or why it did not.

    Attributes:
        source: As configured.
        observed_at_ms: The run's now: the state is that of this moment.
        state: None where the cluster could not be reached.
        reads: Ranges to fetch; empty where only offsets are looked up.
        slices: Times whose records are fetched: the span, or a slice of each window.
        offset_traffic: What partitions got that are not fetched, by offsets and sizes.
        shortfalls: What cannot be had whole.
        groups: Consumer groups as they were at the moment.
        problems: What was wrong.
        unreachable: Why the cluster could not be reached, or "".
    """

    source: LiveCluster
    observed_at_ms: int
    state: LiveState | None = None
    reads: tuple[FetchRead, ...] = ()
    slices: tuple[TimeWindow, ...] = ()
    offset_traffic: tuple[OffsetTraffic, ...] = ()
    shortfalls: tuple[Shortfall, ...] = ()
    groups: tuple[tuple[int, ConsumerGroupMember], ...] = ()
    problems: tuple[Problem, ...] = ()
    unreachable: str = ""

    @property
    def history(self) -> ClusterHistory:
        """The cluster's state, empty where it could not be reached."""
        return ClusterHistory(state_source=STATE_SOURCE) if self.state is None else self.state.history

    @property
    def expected_count(self) -> int | None:
        """Brokers and partitions that there are; None where nobody told."""
        if self.state is None:
            return None
        return len(self.state.history.brokers) + len(self.state.in_scope)


@dataclass(frozen=True, slots=True)
class Arrival:
    """What one window got from a live cluster.

    Attributes:
        expected_count: Brokers and partitions.
        arrived_count: Those that answered and could be read whole.
        missing: The others, in words; empty where there are none.
    """

    expected_count: int | None
    arrived_count: int
    missing: str = field(default="")


def read_live_cluster(
    name: str,
    cluster: Cluster,
    source: LiveCluster,
    windows: Sequence[TimeWindow],
    *,
    as_of_ms: int,
    earlier: Sequence[EarlierState] = (),
) -> LiveReading:
    """Asks the brokers for state and groups, and plans the reading of the windows; never raises for a silent cluster.

    Args:
        name: The cluster's name in the configuration.
        cluster: Its section.
        source: Its live source.
        windows: Of the run, ascending.
        as_of_ms: The run's now.
        earlier: What earlier runs saw, oldest first.

    Raises:
        ConfigError: a secret or a certificate is not there.
    """
    path = ",".join(source.bootstrap_servers)
    try:
        with connected(source) as connection:
            state = read_live_state(
                connection, topics=cluster.topics, internal_topics=source.internal_topics, earlier=earlier
            )
            groups = ask_groups(connection, state) if source.groups else ()
            reading = LiveReading(
                source=source,
                observed_at_ms=as_of_ms,
                state=state,
                groups=tuple((as_of_ms, member) for member in groups),
            )
            reading = _plan(connection, reading, name, windows, earlier)
    except SourceUnreachableError as error:
        problem = Problem(path=path, reason=str(error))
        return LiveReading(source=source, observed_at_ms=as_of_ms, problems=(problem,), unreachable=str(error))
    problems = (*describe_failures(state, path), *(_as_problem(shortfall) for shortfall in reading.shortfalls))
    return replace(reading, problems=problems)


def _plan(
    connection: Connection,
    reading: LiveReading,
    name: str,
    windows: Sequence[TimeWindow],
    earlier: Sequence[EarlierState],
) -> LiveReading:
    """Which records are fetched, and what is told of the others by offsets."""
    source, state = reading.source, reading.state
    if state is None:
        return reading
    partitions = state.in_scope
    fetched: frozenset[TopicPartition] = frozenset()
    slices: tuple[TimeWindow, ...] = ()
    if source.read == "record_batches":
        fetched = choose_partitions(partitions, source.sampling.partitions)
        rate = source.sampling.time
        slices = (spanning(windows),) if rate == 1 else choose_slices(windows, rate, cluster=name)
    reads: list[FetchRead] = []
    shortfalls: list[Shortfall] = []
    for piece in slices:
        found, missing = plan_fetches(
            connection,
            state,
            sorted(fetched),
            piece,
            lateness_ms=milliseconds_of(source.lateness) if source.sampling.time == 1 else 0,
            as_of_ms=reading.observed_at_ms,
        )
        reads = join_reads(reads, found)
        shortfalls += missing
    others = [key for key in partitions if key not in fetched]
    traffic, missing = read_offset_traffic(connection, state, windows, others, earlier) if others else ((), ())
    return replace(
        reading,
        reads=tuple(reads),
        slices=slices,
        offset_traffic=traffic,
        shortfalls=tuple(dict.fromkeys((*shortfalls, *missing))),
    )


def iter_live_group_rows(cluster: str, reading: LiveReading, window: TimeWindow) -> Iterator[dict[str, Any]]:
    """Rows of `bronze.consumer_groups`: groups as they were at the run's now, in the run's last window."""
    for observed_at_ms, member in reading.groups:
        yield {
            "cluster": cluster,
            "window_start": instant_of(window.start_ms),
            "observed_at": instant_of(observed_at_ms),
            **asdict(member),
        }


def with_losses(reading: LiveReading, lost: Iterable[Shortfall]) -> LiveReading:
    """The reading with what went missing while records were read."""
    found = tuple(lost)
    problems = (*reading.problems, *(_as_problem(shortfall) for shortfall in found))
    return replace(reading, shortfalls=(*reading.shortfalls, *found), problems=problems)


def _as_problem(shortfall: Shortfall) -> Problem:
    return Problem(path=shortfall.name, reason=shortfall.reason, severity="suspect")


def arrival_of(reading: LiveReading, window: TimeWindow) -> Arrival:
    """What a window got: brokers that answered and partitions that were had whole.

    Args:
        reading: What was planned, and what went missing while records were read.
        window: Which window.
    """
    if reading.state is None:
        return Arrival(None, 0, reading.unreachable)
    reasons = {
        shortfall.name: shortfall.reason
        for shortfall in reading.shortfalls
        if shortfall.until_ms is None or window.start_ms < shortfall.until_ms
    }
    reasons = {f"broker {broker_id}": reason for broker_id, reason in reading.state.silent_brokers.items()} | reasons
    expected = reading.expected_count or 0
    named = [f"{name} ({reason})" for name, reason in list(reasons.items())[:NAMED]]
    if len(reasons) > NAMED:
        named.append(f"{len(reasons) - NAMED} more")
    return Arrival(expected, max(0, expected - len(reasons)), ", ".join(named))

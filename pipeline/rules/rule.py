"""Definition of a rule: a limit on one measure, with everything that measures, judges, words and documents it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline.measures.outages import Outage
from pipeline.model.number_text import format_count
from pipeline.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa


class Appended(NamedTuple):
    """What a broker appended between two moments at which its logs were seen: a row of `sum_appended`."""

    since_ms: int
    at_ms: int
    leader_id: int
    timely_bytes: float  # of the windows between, by record timestamps
    late_bytes: float  # not among them; negative if less was appended
    appended_count: int
    unread_count: float  # records that were deleted or compacted before they were read: their bytes are not known
    partitions: list[str]  # with most of the late bytes
    unread: list[str]  # partitions with most of the unread records


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleInput:
    # rows of a table in the windows to measure and in so many before the first; of `bronze.log_segments` those whose
    # retention is over at the end of the last window, of `gold.topic_health` before the first those with a reassignment
    load: Callable[[Table, int], "pa.Table"]
    starts_ms: Sequence[int]  # starts of the windows to measure, UTC milliseconds
    window_ms: int
    disk_bytes: Mapping[int, int]  # capacity of brokers' disks, where the configuration has it
    appended: Callable[[], Sequence[Appended]] = tuple  # of moments in the windows to measure
    outages: Sequence[Outage] = ()  # of brokers of a live cluster, around the windows to measure
    limit_ratio: float = 1.2  # `gate.limit_ratio`
    broker_zones: Mapping[int, str] = field(default_factory=dict)  # where the configuration names them: `zones.brokers`

    def tuples(self, table: Table, *names: str, history_windows: int = 0) -> Iterator[tuple[Any, ...]]:
        from pipeline.tables.values import tuples_of

        return tuples_of(self.load(table, history_windows), *names)


@dataclass(frozen=True, slots=True)
class RuleMeasure:
    window_start_ms: int
    rule: str
    subject: str
    value: float | None  # None where there was nothing to measure
    detail: str
    topic: str = ""  # "" where it is about none
    p_value: float | None = None  # None where chance plays no part
    is_enough: bool = True


Measure = Callable[[str, RuleInput], Iterator[RuleMeasure]]  # yields a rule's measures, under its name


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    name: str  # key in the configuration, and in tables
    measure: Measure
    limit: float  # value from which a window is above, by default
    k: int = 2  # windows above that make a failure ..
    n: int = 3  # ... among this many; by default.
    meaning: str  # what is wrong beyond the limit, as a mail says it
    advice: str
    doc: str  # what is measured, for `docs/RULES.md`
    format: Callable[[float], str] = format_count  # writes a value of the measure
    is_falling: bool = False  # small values are bad: a window is above at the limit or under it
    needs_all_records: bool = False  # not judged where records are missing or a reassignment runs
    is_clock: bool = False  # grows with time alone, which is no news: its incidents never get worse
    severity: str = "warning"  # `critical` makes incidents, `warning` only makes verdicts; by default


def measure_of_topic(rule: str, start_ms: int, topic: str, value: float, detail: str) -> RuleMeasure:
    return RuleMeasure(start_ms, rule, f"topic {topic}", value, detail, topic)


def measure_broker(rule: str, start_ms: int, broker_id: int, value: float, detail: str) -> RuleMeasure:
    return RuleMeasure(start_ms, rule, f"broker {broker_id}", value, detail)


def measure_column(table: Table, column: str, words: str, *, unknown: Sequence[str] = ()) -> Measure:
    """Measures a column row by row, in `words` over the row; NULL, single clients and 0 with `unknown` are left out."""
    wanted = [column, *unknown, *(name for _, name, _, _ in Formatter().parse(words) if name)]
    for name in wanted:
        table.column(name)
    subject = "topic" if "topic" in table.column_names else "broker_id"
    client = "client_id" if "client_id" in table.column_names else subject

    def measure(rule: str, given: RuleInput) -> Iterator[RuleMeasure]:
        of_subject: Callable[..., RuleMeasure] = measure_of_topic if subject == "topic" else measure_broker
        for start_ms, named, client_id, *told in given.tuples(table, "window_start_ms", subject, client, *wanted):
            is_known = told[0] or (told[0] is not None and not any(told[1 : 1 + len(unknown)]))
            if is_known and (client == subject or client_id == "*"):
                detail = words.format_map(dict(zip(wanted, told, strict=True)))
                yield of_subject(rule, start_ms, named, float(told[0]), detail)

    return measure

"""Parses what Kafka's tools print about topics, log directories, offsets and consumer groups.

Lines that are not data are passed over; one that looks like data and does not parse is refused with its number. Tables of
`kafka-consumer-groups` are cut where the header's words begin, as a client id may hold blanks. A client id or group may hold
line ends, too: a line that is no row of its table's group, or a partition's second one, is refused with all the text.
References: `TopicCommand`, `LogDirsCommand`, `GetOffsetShell`, `ConsumerGroupCommand` (Kafka 2.4 to 4.1).
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from pipeline.codec.log.log_directory import parse_directory_name
from pipeline.codec.metrics.metric_names import MOST_LOG_BYTES
from pipeline.errors import InputError, parser
from pipeline.model.cluster import NO_LEADER, ConsumerGroupMember, PartitionState
from pipeline.model.log import TopicPartition, is_partition_number

_NEXT_CONFIG = re.compile(r",(?=[a-z][a-z0-9.]*=)")  # values such as `compact,delete` hold commas themselves
_OFFSET_LINE = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+):(?P<partition>[0-9]{1,10}):(?P<offset>-?[0-9]{1,19}|)")


class TopicsDescription(NamedTuple):
    partitions: tuple[PartitionState, ...]
    configs: Mapping[str, Mapping[str, str]]


class DescribedReplica(NamedTuple):
    broker_id: int
    log_directory: str
    topic_partition: TopicPartition
    size_bytes: int  # of its `.log` files
    offset_lag: int  # how far a follower is behind; of a future replica, behind the current one
    is_future: bool


def is_log_size(size_bytes: int) -> bool:
    return 0 <= size_bytes <= MOST_LOG_BYTES


@parser
def parse_topics_describe(text: str) -> TopicsDescription:
    """Partitions and configs of `kafka-topics --describe`; ids are None without topic lines. `InputError`: the line."""
    topic_ids: dict[str, str] = {}
    configs: dict[str, dict[str, str]] = {}
    partitions: list[PartitionState] = []
    for number, line in enumerate(text.splitlines(), start=1):
        pairs = (part.partition(":") for part in line.split("\t"))
        fields = {name.strip(): value.strip() for name, colon, value in pairs if colon}
        topic = fields.get("Topic")
        if topic is None:
            continue
        if "Partition" not in fields:
            if "TopicId" in fields:
                topic_ids[topic] = fields["TopicId"]
            pairs = (part.partition("=") for part in _NEXT_CONFIG.split(fields.get("Configs", "")) if part)
            configs[topic] = {name: value for name, _, value in pairs}
            continue
        try:
            partitions.append(_parse_partition(fields, topic_ids.get(topic)))
        except (KeyError, ValueError) as error:
            reason = f"a partition line that does not parse{_name_missing(error)}"
            raise InputError(reason, position=number) from None
    if not partitions:
        raise InputError("no partition in the output of kafka-topics")
    return TopicsDescription(tuple(partitions), configs)


@parser
def parse_log_dirs_describe(text: str) -> tuple[DescribedReplica, ...]:
    """Replicas by broker, directory and name, from the line of JSON of `kafka-log-dirs`; `InputError` without one."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("{"):
            try:
                return tuple(sorted(_list_replicas(json.loads(line))))
            except (ValueError, KeyError, TypeError, AttributeError, InputError, RecursionError) as error:
                reason = f"not the JSON that kafka-log-dirs prints{_name_missing(error)}"
                raise InputError(reason, position=number) from None
    raise InputError("no line of JSON in the output of kafka-log-dirs")


@parser
def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """Offsets of `kafka-get-offsets`: lines `topic:partition:offset`, or without an offset; `InputError` for others."""
    matches = [match for line in text.splitlines() if (match := _OFFSET_LINE.fullmatch(line.strip()))]
    if not matches and text.strip():
        raise InputError("no `topic:partition:offset` line")
    return {
        TopicPartition(m["topic"], partition_number(m["partition"])): int64(m["offset"]) for m in matches if m["offset"]
    }


def _name_missing(error: Exception) -> str:
    """The field that is missing; other errors' words are the line's, which is not repeated."""
    return f": no {error}" if isinstance(error, KeyError) else ""


def _parse_partition(fields: Mapping[str, str], topic_id: str | None) -> PartitionState:
    leader = fields["Leader"]
    return PartitionState(
        topic=fields["Topic"],
        topic_id=topic_id,
        partition=partition_number(fields["Partition"]),
        leader_id=NO_LEADER if leader == "none" else int32(leader),
        leader_epoch=None,
        replicas=_parse_brokers(fields["Replicas"]),
        isr=_parse_brokers(fields["Isr"]),
        adding_replicas=_parse_brokers(fields.get("Adding Replicas", "")),
        removing_replicas=_parse_brokers(fields.get("Removing Replicas", "")),
        eligible_leader_replicas=_parse_brokers(fields.get("Elr", "")),
        last_known_elr=_parse_brokers(fields.get("LastKnownElr", "")),
    )


def _parse_brokers(text: str) -> tuple[int, ...]:
    return () if text in {"", "N/A"} else tuple(int32(broker) for broker in text.split(","))


def _list_replicas(document: Mapping[str, Any]) -> list[DescribedReplica]:
    return [
        DescribedReplica(
            broker_id=int32(broker["broker"]),
            log_directory=directory["logDir"].encode().decode(),  # a `ValueError` where it holds half a character
            topic_partition=TopicPartition(*parse_directory_name(replica["partition"])[:2]),
            size_bytes=_check_size(replica["size"]),
            offset_lag=int64(replica["offsetLag"]),
            is_future=replica["isFuture"] is True,
        )
        for broker in document["brokers"]
        for directory in broker["logDirs"]
        for replica in directory["partitions"]
    ]


def _check_size(size: object) -> int:
    if not is_log_size(size_bytes := int64(size)):
        raise ValueError
    return size_bytes


def int64(value: object, bits: int = 64) -> int:
    """A signed integer of so many bits, of offsets, sizes and times; an error for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError
    number = int(value)
    if not -1 << bits - 1 <= number < 1 << bits - 1:
        raise ValueError
    return number


int32 = partial(int64, bits=32)


def partition_number(value: object) -> int:
    if not is_partition_number(number := int32(value)):
        raise ValueError
    return number


_NEEDED = "CURRENT-OFFSET"
_WORD = re.compile(r"\S+")
_FORGED = "a line that is no row of its table, or a partition's second one: a client id or group may hold a line break"


@parser
def parse_consumer_groups(text: str) -> tuple[ConsumerGroupMember, ...]:
    """Rows of `kafka-consumer-groups --describe`; `InputError`, with the line, for no table, or what may be forged."""
    rows, seen = list[ConsumerGroupMember](), set[tuple[object, ...]]()
    for number, columns, is_row in _iter_lines(text):
        try:
            host = columns["HOST"]
            row = ConsumerGroupMember(
                group_id=columns["GROUP"] or "-",
                topic=columns["TOPIC"],
                partition=_number(columns, "PARTITION", int32),
                committed_offset=_number(columns, "CURRENT-OFFSET"),
                log_end_offset=_number(columns, "LOG-END-OFFSET"),
                lag_count=_number(columns, "LAG"),
                member_id=columns["CONSUMER-ID"],
                client_host=None if host is None else host.removeprefix("/"),
                client_id=columns["CLIENT-ID"],
            )
        except ValueError as error:  # names the column; the cell is not repeated
            raise InputError(f"a line whose {error} is not a number", position=number) from None
        key = row.group_id, row.topic, row.partition
        if not is_row or key in seen:
            raise InputError(_FORGED, position=number)
        seen |= {key} if row.topic else set()  # several members of a group may have none
        rows.append(row)
    return tuple(rows)


def _iter_lines(text: str) -> Iterator[tuple[int, Mapping[str, str | None], bool]]:
    """The lines of all tables: number, cells by column, and whether they are a row; a table ends at a blank line."""
    header, padded, group, is_open = list[str](), list[int](), "", False
    for number, line in enumerate(text.split("\n"), start=1):  # not `splitlines`: other characters end no line
        words = line.split()
        if words[:1] == ["GROUP"] and not is_open:
            if _NEEDED not in words:
                raise InputError(f"a table without a column {_NEEDED}", position=number)
            header, group, is_open = words, "", True
            padded = [match.start() for match in _WORD.finditer(line)] if "  " in line.strip() else []
        elif header and words and words[0] not in {"Warning:", "Error:"}:
            cells = _cut_cells(padded, line) if padded else words
            is_whole = len(cells) == len(header)
            named = zip(header, cells if is_whole else words, strict=False)
            is_row = is_whole and is_open and (not padded or group in {"", cells[0]})
            if is_open or is_whole:  # else a message of the tool between two tables
                filled = {name: cell for name, cell in named if cell != "-"}
                yield number, dict.fromkeys(header) | filled, is_row
            group = cells[0] if is_row else group
        elif is_open and not words:
            if not group:
                raise InputError(_FORGED, position=number)
            is_open = False
    if not header:
        raise InputError(f"no table with a column {_NEEDED}")


def _cut_cells(starts: list[int], line: str) -> list[str]:
    if line.startswith(" ") or not all(line[at - 1 : at] == " " != line[at : at + 1] for at in starts[1:]):
        return []
    return [line[start:end].strip() for start, end in zip(starts, [*starts[1:], len(line)], strict=True)]


def _number(columns: Mapping[str, str | None], name: str, read: Callable[[object], int] = int64) -> int | None:
    try:
        return None if columns[name] is None else read(columns[name])
    except ValueError:
        raise ValueError(name) from None

"""Requests to many brokers: pages, all brokers side by side, and errors in words."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from kafka.errors import BrokerResponseError, KafkaError, KafkaTimeoutError, RequestTimedOutError, for_code

from pipeline.model.log import TopicPartition

PAGE_PARTITIONS = 5_000
PAGE_TOPICS = 500
BROKERS_AT_ONCE = 8
PAUSES_S = (0.5, 2.0)
_T = TypeVar("_T")


@dataclass(slots=True)
class Failures:
    """Why brokers, partitions and topics did not answer, in words, collected over all questions."""

    brokers: dict[int, str] = field(default_factory=dict)
    partitions: dict[TopicPartition, str] = field(default_factory=dict)
    questions: dict[str, str] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)
    directories: dict[int, str] = field(default_factory=dict)  # by broker: those of its log directories that failed


def pages(items: Iterable[_T], size: int) -> Iterator[tuple[_T, ...]]:
    """The items in their order, at most so many at a time.

    >>> list(pages("abcde", 2))
    [('a', 'b'), ('c', 'd'), ('e',)]
    """
    rest = iter(items)
    while page := tuple(islice(rest, size)):
        yield page


def group_partitions(page: Iterable[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = defaultdict(list)
    for key in page:
        grouped[key.topic].append(key.partition)
    return grouped


def describe_error(error: BaseException | None) -> str:
    """A client's error in a few words.

    >>> from kafka.errors import NotLeaderForPartitionError
    >>> describe_error(NotLeaderForPartitionError())
    'NotLeaderForPartition'
    """
    if error is None:
        return "no answer"
    name = type(error).__name__.removesuffix("Error")
    text = str(error.args[0]) if error.args else ""
    says_more = text and text != name and not text.startswith("Request ")  # the library's own dump of both messages
    return f"{name}: {text[:200]}" if says_more else name


def refuse_error(code: int) -> None:
    """Raises the `KafkaError` that an error code of a reply means; nothing for 0."""
    if code:
        raise for_code(code)()


def ask_all(
    questions: Sequence[tuple[int, Sequence[TopicPartition]]],
    ask: Callable[[int, Sequence[TopicPartition]], _T],
    refused: dict[int, str] | None = None,
) -> tuple[list[_T], dict[int, str]]:
    """Asks all brokers side by side, page after page; gives the answers, and by broker why it is silent.

    A broker that answers with an error is not silent: where that may happen, `refused` takes it.
    """
    silent: dict[int, str] = {}

    def one(broker_id: int, page: Sequence[TopicPartition]) -> _T | None:
        for pause_s in (*PAUSES_S, 0):
            if broker_id in silent or broker_id in (refused or {}):
                return None
            try:
                return ask(broker_id, page)
            except KafkaError as error:
                last = error
            if isinstance(last, KafkaTimeoutError | RequestTimedOutError) or not last.retriable:
                break
            time.sleep(pause_s)
        is_answer = refused is not None and isinstance(last, BrokerResponseError) and not last.retriable
        (refused if is_answer and refused is not None else silent)[broker_id] = describe_error(last)
        return None

    with ThreadPoolExecutor(BROKERS_AT_ONCE) as pool:
        answers = list(pool.map(one, *zip(*questions, strict=True))) if questions else []
    return [answer for answer in answers if answer is not None], silent

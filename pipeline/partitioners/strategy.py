"""A strategy: what one client does with a key, as a frozen value; and the choice that follows from it."""

import base64
import functools
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from pipeline.errors import ConfigError, InputError
from pipeline.partitioners.hashes import HashName, Mask

_CONFLUENT = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})-c(?:cs|e)")  # a client may tell as many digits as it likes


class KeyRule(Enum):
    HASHED = "hashed"  # like any key; null like the empty one
    FIRST = "partition 0"
    KEYLESS = "not a function of the key"  # drawn, sticky or in turn: see `Strategy.keyless`
    REFUSED = "refused"


class KeyForm(Enum):
    BYTES = "the bytes"
    TEXT = "the text; bytes that are not UTF-8 are refused"
    BASE64 = "the Base64 text of the bytes"
    DECIMALS = "the bytes written as decimal numbers with commas"

    def prepare(self, key: bytes) -> bytes:
        """The bytes to hash; `InputError` where the strategy takes text and the key is not text."""
        if self is KeyForm.BASE64:
            return base64.b64encode(key)
        if self is KeyForm.DECIMALS:
            return ",".join(map(str, key)).encode()
        if self is KeyForm.TEXT:
            try:
                key.decode("utf-8")
            except UnicodeDecodeError as error:
                raise InputError(
                    f"byte {error.start} of the key is not UTF-8; this strategy takes text", first_bytes=key
                ) from error
        return key


class Availability(Enum):
    ALL = "all partitions"
    WITH_LEADER = "partitions with a leader"


@dataclass(frozen=True)
class Use:
    setting: str  # Kafka's (or the client's) own configuration value, class or constructor
    since: str = ""  # first version that has it, or ""
    before: str = ""  # first version that has it no more, or ""
    is_default: bool = False  # the client does so unless configured otherwise

    def covers(self, version: str) -> bool:
        return is_between(version, self.since, self.before)


def is_between(version: str, since: str, before: str) -> bool:
    """Whether a version is in a span of them, whose `before` is the first after it; "" for an open end."""
    number = parse_version(version)
    return (not since or number >= parse_version(since)) and (not before or number < parse_version(before))


@functools.lru_cache(maxsize=1024)  # a replay asks 50,000 times about the same few
def parse_version(version: str) -> tuple[int, ...]:
    """Numbers of a version, without trailing zeros, to compare; `ConfigError` if it is not made of numbers and dots."""
    parts = version.split(".")
    if not all(part.isdecimal() for part in parts):
        raise ConfigError(f"version {version!r}; expected numbers and dots, as in 3.9.1")
    numbers = [int(part) for part in parts]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def read_kafka_version(text: str) -> str:
    """The version of Kafka in what a client tells, else ""; Confluent's 7.x and 8.x are Kafka's 3.x and 4.x."""
    if (own := _CONFLUENT.fullmatch(text)) and int(own[1]) >= 7:
        return f"{int(own[1]) - 4}.{own[2]}.{own[3]}"
    found = re.match(r"\d{1,9}(\.\d{1,9})+", text)
    return found[0] if found else ""


@dataclass(frozen=True)
class Keyless:
    summary: str  # what it does, in a few words
    # what only a simulated producer knows, so that the choice does not follow from the order of records alone; or ""
    simulated: str = ""
    # what the simulator does, by name in `simulator/engine/partitioners.py`; "" where it does not follow
    placement: str = ""
    is_adaptive: bool = False  # it weighs partitions by their queued batches


@dataclass(frozen=True)
class ClientSpan:
    """Versions of a client that behave alike: `version` stands for them, `words` name them and what was configured."""

    version: str
    words: str


@dataclass(frozen=True)
class Strategy:
    name: str  # ours
    client: str  # which library
    uses: tuple[Use, ...]  # its settings and versions, the usual one first
    source: str  # where it is written: class, file, improvement proposal
    hash: HashName | None = None  # None where the key is never looked at
    mask: Mask = Mask.SIGN_BIT  # what is done about the hash's sign
    form: KeyForm = KeyForm.BYTES  # what of the key is hashed
    null_key: KeyRule = KeyRule.KEYLESS
    empty_key: KeyRule = KeyRule.HASHED  # what happens to a key of no bytes
    availability: Availability = Availability.ALL
    # how partitions are picked where the key does not decide, or None where it always does
    keyless: Keyless | None = None
    differs: str = ""  # From Kafka's Java client, in words, or ""
    # a user's own choice from key and partition count, or None; it stands instead of hash and mask
    function: Callable[[bytes, int], int] | None = None
    # versions of the client that a session with this strategy is taken for, the likeliest first
    spans: tuple[ClientSpan, ...] = ()
    described: str = ""  # what it does and in which versions, as a mail names it; or ""
    # newer versions of the client spread records better by default: upgrading is worth advice
    is_outdated: bool = False

    @property
    def is_default(self) -> bool:
        return any(use.is_default for use in self.uses)

    @property
    def ignores_keys(self) -> bool:
        return self.hash is None and self.function is None

    def rule_of(self, key: bytes | None) -> KeyRule:
        if self.ignores_keys:
            return KeyRule.KEYLESS
        if key is None:
            return self.null_key
        return KeyRule.HASHED if key else self.empty_key


def choose_partition(strategy: Strategy, key: bytes | None, partition_count: int) -> int | None:
    """The partition a client chooses for a key, None where it is not a function of the key: the reference.

    `InputError`: the client refuses such a key, or a user's function returned something else than a partition.
    """
    check_partition_count(partition_count)
    rule = strategy.rule_of(key)
    if rule is KeyRule.REFUSED:
        raise InputError(f"{strategy.client} refuses {'a record without a key' if key is None else 'an empty key'}")
    if rule is KeyRule.KEYLESS:
        return None
    if rule is KeyRule.FIRST:
        return 0
    if strategy.function is not None:
        return _ask_function(strategy.name, strategy.function, key or b"", partition_count)
    if strategy.hash is None:
        return None
    import pyarrow as pa  # noqa: PLC0415  (and Numba, which reading the configuration does without)

    from pipeline.partitioners.hash_kernels import hash_keys  # noqa: PLC0415

    hashed = hash_keys(pa.array([strategy.form.prepare(key or b"")], pa.binary()), strategy.hash)
    return strategy.mask.apply(int(hashed.values[0])) % partition_count


def _ask_function(name: str, function: Callable[[bytes, int], int], key: bytes, partition_count: int) -> int:
    answer = function(key, partition_count)
    try:
        partition = operator.index(answer)
    except TypeError as error:
        reason = f"{name} returned {answer!r}; expected a partition, 0 to {partition_count - 1}"
        raise InputError(reason, first_bytes=key) from error
    if not 0 <= partition < partition_count:
        reason = f"{name} returned {partition}; expected a partition, 0 to {partition_count - 1}"
        raise InputError(reason, first_bytes=key)
    return partition


def check_partition_count(partition_count: int) -> None:
    if not 1 <= partition_count <= 0x7FFFFFFF:
        raise ConfigError(f"{partition_count} partitions; expected 1 to 2147483647")

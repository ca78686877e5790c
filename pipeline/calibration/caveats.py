"""Origins of figures, and every sentence about a prediction's assumptions or why it is not trusted."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any


class Origin(StrEnum):
    MEASURED = "measured"
    INFERRED = "inferred"
    CONFIGURED = "configured"
    DEFAULT = "default"
    ASSUMED = "assumed"
    UNKNOWN = "unknown"
    NONE = "none"


@dataclass(frozen=True)
class Statement:
    """A caveat with its figures filled in: code looks at the kind, people read the text."""

    kind: "Caveat"
    text: str


class Caveat(Enum):
    """Assumptions, and reasons not to trust a prediction; the texts are stored in the tables."""

    # The keyed replay
    NOT_REPLAYABLE = "the current strategy is not known, so it cannot be replayed on another partition count"
    KEYS_AS_RECORDED = "no known strategy explains the recorded keys: the current partitioner stands as recorded"
    EMPTY_KEY_STAYS = "an empty key stays where it was: strategies of this family differ over it"
    KEYLESS_STAYS = "records without a key stay where they were"
    SPREAD_EVENLY = "records whose key has no name, no hash or no partition any more are spread evenly"
    RANGES_HOLD = "ranges hold any spread"
    KEYS_UNKNOWN = "keys of {count} records are not known: they may go anywhere"
    KEYS_UNANSWERED = "the partitioner gave no answer for keys of {count} records: they stay where they are"
    LEADERS_DRAWN = "leaders of new partitions are drawn"
    # The partitioner and the settings of a session
    SESSIONS_POOLED = "batches without producer ids: all such producers are taken for one"
    TIMES_OF_APPEND = "LogAppendTime: when records were sent within a batch is not known"
    JAVA_ALIKE = "records with keys alone do not distinguish one Java partitioner from another; their places are known"
    CLIENTS_ALIKE = "a log does not name its client: {clients} place such records alike"
    OTHER_VERSION = "the client tells that it is {told}, which has no {strategy}: the batches are believed"
    OTHER_STRATEGY = "configured is {strategy}, but the data say: {reason}"
    OTHER_PLACES = "configured is {strategy}, but keys of {count} records lie where it does not put them"
    SETTING_UNKNOWN = "{name} is not known, the data leave it open: {value} is taken"
    # The brokers
    DELAY_UNKNOWN = "broker {broker}: no metrics show its delay; it is assumed to be none"
    DELAY_OF_OTHERS = (
        "broker {broker}: no metrics show its delay for this producer; for another one it is {low:.1f} to {high:.1f} ms"
    )
    FOLLOWED = (
        "broker {broker}: its delay is followed over {count} spans between scrapes, from {least:.1f} to {most:.1f} ms"
    )
    TRAILING_AVERAGE = "broker {broker}: its latency is mostly that of the minute before: Kafka's averages trail"
    PARTLY_BUSY = (
        "broker {broker}: its connection is neither idle nor saturated: a delay of {low:.1f} to {high:.1f} ms fits"
    )
    PARTLY_SLOW = (
        "broker {broker}: slow for a part of the time, then with a delay of {low:.1f} to {high:.1f} ms, "
        "found by simulation"
    )
    SIMULATED_LATENCY = (
        "broker {broker}: requests take as long as the metrics say with a delay of {low:.1f} to {high:.1f} ms, "
        "found by simulation"
    )
    SMALL_BATCHES = "broker {broker}: its batches are no larger than other brokers': taken to have no delay"
    BATCHES_FIT = "broker {broker}: its batches fit a delay of {low:g} {high}{doubt}"
    # The producer under a candidate
    DEFAULTS_OF_CLIENT = "settings of {old} that {new} does not share have {new}'s defaults"
    RACKS_DRAWN = (
        "in which racks producers are is not known: in each run each is put into one of the brokers' racks, at random"
    )
    RATIO_UNKNOWN = "{codec} is taken to halve these records: they were not compressed, so its ratio is not known"
    COMMITS_UNKNOWN = "how often the application commits is not known, so no commit is replayed: say commit_every"
    OF_SIMULATOR = "{text}"
    # The recorded data
    NOT_SIMULATED = "{reason}"
    NO_RECORDS = "the window holds no record"
    NO_ARRIVALS = "no arrivals are stored"
    ARRIVALS_MISSING = "the arrivals of {missing} of {total} records are not known"
    NO_CREATE_TIME = "LogAppendTime: when its records were sent is lost"
    SAMPLED = "a sample of the window's time was read and stands for all of it"
    OUTLIERS = "{count} timestamps are far off: their records are placed by append order"
    LATE_RECORDS = "{count} records are earlier than the one before in their batch: several threads"
    ABORTED_RECORDS = "{count} records of aborted transactions are replayed: they were load"
    NO_PRODUCER_IDS = "no producer ids: all producers of the topic are replayed as one"
    PRODUCERS_DEALT = (
        "no producer ids: records are dealt to {count} producers at random, by the bytes that their clients sent"
    )
    ONE_PARTITION = "one partition: every candidate puts all records there"
    INCOMPLETE = "the window is incomplete: {lack}"
    OFFSETS_GONE = "{count} offsets are gone from the log ({why}): what is left is not all that was sent"
    COMPACTED_TOPIC = "the topic is compacted: none of the window's records is taken to be gone yet"
    CRC_ERRORS = "{count} batches do not match their checksums"
    LATE_LOG_START = "the log of {partitions} begins inside the window: what was before is not known"
    LEADERS_ELECTED = (
        "leaders of {partitions} were elected in the window: every record is replayed to the one at its end"
    )
    LEADERS_UNKNOWN = "who led {partitions} for a part of the window is not known: shares of brokers are not whole"
    EMPTY_MINUTES = "{count} minutes of the window hold no record: taken for silence, not for loss"
    NO_METRICS = "no producer metrics of this window: brokers' delays are inferred from batches or assumed"
    OTHER_CLIENTS = (
        "metrics contradict the log: {count} clients sent bytes that are in no session, and a session has none"
    )
    SESSION_WITHOUT_METRICS = "a producer without metrics: how long brokers take for it is known from other producers, its batches, or assumed"
    OTHER_BYTES = "metrics contradict the log: a producer's bytes differ by {percent:.0f} %"
    PARTITIONER_NOT_TESTED = "{candidate} was not back-tested here: the current partitioner is {in_use}"
    # The back-test
    NOT_PREDICTED = "the current setup could not be replayed"
    SHARE_OFF = "{place}'s share is predicted {error:.2f} points off, {bar:.2f} are allowed"
    BATCHES_OFF = "records per batch are predicted {ratio:.2f} times the observed"
    TOO_UNCERTAIN = (
        "too uncertain: broker {broker}'s share is predicted within {width:.1f} points, {most:g} are allowed"
    )
    LATENCY_NOT_TESTED = "no metrics say how long producers waited: nothing tests it"
    LATENCY_OF_OTHERS = "under another client or other settings latencies did not hold on blind pairs"
    WITHIN_RANGES = "broker {broker}'s share changes by {change:+.1f} points, their ranges leave {open:.1f} open"
    MEAN_LATENCY_OFF = "the mean latency is predicted {ratio:.2f} times the observed"

    def say(self, **figures: Any) -> Statement:  # noqa: ANN401 - whatever the text names
        """The sentence with its figures.

        >>> Caveat.CRC_ERRORS.say(count=3).text
        '3 batches do not match their checksums'
        """
        return Statement(self, self.value.format(**figures))


def join_statements(statements: Iterable[Statement]) -> str:
    """Each text once, parted by semicolons; one within a text becomes a comma.

    >>> join_statements([Caveat.OF_SIMULATOR.say(text="a; b"), Caveat.NO_RECORDS.say(), Caveat.NO_RECORDS.say()])
    'a, b; the window holds no record'
    """
    return "; ".join(dict.fromkeys(one.text.replace("; ", ", ") for one in statements if one.text))

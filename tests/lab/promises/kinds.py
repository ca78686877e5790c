"""`make promises ARGS=kinds`: each kind of advice carried out three times in the states that call for it, wherever it ranks.

A try has a cluster of its own: three real brokers, producers and a Prometheus. The product judges two minutes of traffic. Of
its advice for the broker with the largest share the laboratory carries out the kind that the try is about, and nothing else;
two whole minutes later the product judges again.

Oracle: the broker's share by the batch headers in the leaders' logs, as the lab reads them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipeline.model.number_text import format_percent
from pipeline.tables.gold import BROKER_SHARE
from pipeline.tables.health import RECOMMENDATIONS
from tests.lab.live_traffic import MINUTE_MS, coming_minutes
from tests.lab.process import LabError
from tests.lab.promises.bed import TOPICS, Bed, Load, outage, start_bed
from tests.lab.promises.carry_out import PLAN_FILES, carry_out
from tests.lab.promises.walk import LAG_MS, NEWEST, PLAIN, STICKY, Walk, find_decided
from tests.lab.recording import say, sleep_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AFTER_MINUTES = 2
WITHIN = 0.02  # of all bytes, where the advice has no range
KINDS = {
    "elect preferred leaders": "elect preferred",
    "hand over leadership": "hand over",
    "move replicas": "move replicas",
    "upgrade producers": "upgrade producers",
    "more partitions": "give ",
    "re-key": "re-key",
    "look at a slow broker": "broker ",
}
"""How the titles of each kind of advice begin."""


@dataclass(frozen=True)
class Try:
    """A state of the cluster that calls for a kind of advice."""

    kind: str
    state: str
    loads: tuple[Load, ...]
    topics: Mapping[str, str] = field(default_factory=lambda: TOPICS)
    begin: Callable[[Bed], None] = lambda _: None


KEYLESS = Load("orders", NEWEST, 250, 300)
KEYED = Load("payments", NEWEST, 250, 300, keys="account-:2000:0")
OLDER = Load("orders", STICKY, 250, 300)
EVENTS = Load("events", PLAIN, 120, 300)
_ON_ONE = {"orders": "1:0:2,1:2:0,1:0:2,0:1:2,1:2:0,2:0:1", "payments": "1:0:2,1:2:0,0:1:2,1:0:2,1:2:0,2:1:0"}
_SINGLE = {"orders": "1,1,0,1,2,1", "payments": "1,0,1,1,2,1"}
_NEW_BROKER = {"orders": "1:0,0:1,1:0,0:1,1:0,0:1", "payments": "1:0,0:1,1:0,0:1,1:0,0:1"}
_FEW = {"orders": "1:2,0:1,2:0,1:0", "payments": "1:2,0:1,2:0,1:0"}


def _slow(broker_id: int, delay_ms: float) -> Callable[[Bed], None]:
    return lambda bed: bed.slow(broker_id, delay_ms)


def _away(broker_id: int) -> Callable[[Bed], None]:
    return lambda bed: outage(bed, broker_id, 15)


TRIES = (
    Try("elect preferred leaders", "broker 0 was restarted; keys", (KEYED,), begin=_away(0)),
    Try("elect preferred leaders", "broker 0 was restarted; no keys", (KEYLESS,), begin=_away(0)),
    Try("elect preferred leaders", "broker 2 was restarted; both", (KEYED, KEYLESS, EVENTS), begin=_away(2)),
    Try("hand over leadership", "broker 1 leads most; keys", (KEYED,), _ON_ONE),
    Try("hand over leadership", "broker 1 leads most; no keys", (KEYLESS,), _ON_ONE),
    Try(
        "hand over leadership",
        "broker 1 leads most, broker 2 answers late; both",
        (KEYED, KEYLESS),
        _ON_ONE,
        _slow(2, 15),
    ),
    Try("move replicas", "one replica each; keys", (KEYED,), _SINGLE),
    Try("move replicas", "one replica each; no keys", (KEYLESS,), _SINGLE),
    Try("move replicas", "broker 2 is new and empty; both", (KEYED, KEYLESS), _NEW_BROKER),
    Try("upgrade producers", "broker 1 late by 100 ms; client 3.2.3", (OLDER, KEYED), begin=_slow(1, 100)),
    Try("upgrade producers", "broker 2 late by 50 ms; client 3.2.3", (OLDER,), begin=_slow(2, 50)),
    Try("upgrade producers", "broker 0 late by 150 ms; client 3.2.3", (OLDER, EVENTS), begin=_slow(0, 150)),
    Try("more partitions", "four partitions; keys", (KEYED,), _FEW),
    Try("more partitions", "four partitions; no keys", (KEYLESS,), _FEW),
    Try("more partitions", "four partitions; both", (KEYED, KEYLESS), _FEW),
    Try(
        "re-key",
        "a key with 60 % of the records",
        (Load("payments", NEWEST, 400, 400, "account-:2000:0", 0.6), KEYLESS),
    ),
    Try("re-key", "a key with half of the records", (Load("payments", PLAIN, 250, 300, "user-:500:0", 0.5), EVENTS)),
    Try("re-key", "a key with a third of the records", (Load("payments", NEWEST, 300, 300, "shop-:900:0.5", 0.35),)),
    Try("look at a slow broker", "broker 1 late by 100 ms; client 3.2.3", (OLDER, KEYED), begin=_slow(1, 100)),
    Try("look at a slow broker", "broker 2 late by 50 ms; client 3.2.3", (OLDER,), begin=_slow(2, 50)),
    Try("look at a slow broker", "broker 0 late by 150 ms; client 3.2.3", (OLDER, EVENTS), begin=_slow(0, 150)),
)


def attempt(this: Try, folder: Path) -> str:
    """One try; returns its row of the table."""
    topics = {load.topic: this.topics.get(load.topic, TOPICS[load.topic]) for load in this.loads}
    with start_bed(folder, this.loads, topics) as bed:
        way = Walk(bed, folder, "sail")
        this.begin(bed)
        start_ms = coming_minutes() + MINUTE_MS
        bed.start(*this.loads, at_ms=start_ms - MINUTE_MS // 2)
        sleep_until(start_ms + MINUTE_MS + LAG_MS)
        way.init(start_ms)
        way.run_until(start_ms + 2 * MINUTE_MS)
        action = _find_advice(way, this.kind)
        files = {name: action[name.replace(".", "_")] for name in PLAN_FILES if action[name.replace(".", "_")]}
        say(carry_out(bed, action, folder, files))
        from_ms = coming_minutes()
        way.run_until(from_ms + AFTER_MINUTES * MINUTE_MS)
        broker = int(action["subject"].removeprefix("broker "))
        shares = [found.get(broker, 0.0) for found in bed.measure_shares(from_ms, AFTER_MINUTES)]
        return " | ".join(["", this.kind, this.state, *_compare(way, action, shares), ""]).strip()


def _find_advice(way: Walk, kind: str) -> dict[str, Any]:
    """The newest advice of a kind for the broker with the largest share."""
    shares = way.rows(BROKER_SHARE)
    last = max(row["window_start"] for row in shares)
    hot = max((row for row in shares if row["window_start"] == last), key=lambda row: row["share_ratio"] or 0.0)
    subject = f"broker {hot['broker_id']}"
    rows = [row for row in way.rows(RECOMMENDATIONS) if (row["window_start"], row["subject"]) == (last, subject)]
    rows.sort(key=lambda row: row["rank"])
    for row in rows:
        say(f"{row['rank']}. {row['title']}: {row['predicted_ratio']}")
    chosen = [row for row in rows if row["title"].startswith(KINDS[kind])]
    if not chosen:
        advised = "; ".join(row["title"] for row in rows)
        raise LabError(f"{subject} at {hot['share_ratio']:.2f}x: not advised, but {advised or 'nothing'}")
    return chosen[0]


def _compare(way: Walk, action: dict[str, Any], shares: list[float]) -> Iterator[str]:
    mean = sum(shares) / len(shares)
    yield str(action["rank"])
    yield format_percent(action["share_ratio"] / 3, 1)
    said = [action[name] for name in ("predicted_ratio_low", "predicted_ratio", "predicted_ratio_high")]
    if None in said:
        yield "no figure"
        inside = None
    else:
        low, middle, high = (ratio / 3 for ratio in said)
        has_range = high - low > 1e-9
        yield f"{format_percent(middle, 1)}" + (
            f" [{format_percent(low, 1)}, {format_percent(high, 1)}]" if has_range else ""
        )
        inside = low <= mean <= high if has_range else abs(mean - middle) <= WITHIN
    yield f"{format_percent(mean, 1)} ({', '.join(format_percent(share, 1) for share in shares)})"
    yield {None: "nobody said", True: "yes", False: "**MISSES**"}[inside]
    yield ", ".join(sorted({row["outcome"] for row in find_decided(way, action)})) or "undecided"


def run(folder: Path, numbers: list[str]) -> str:
    """The tries, as a table."""
    lines = [
        "| kind of advice | state | rank | share before | promised | by logs after it: mean (each minute) | as promised | "
        "`gold.promises` |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for number, this in enumerate(TRIES, 1):
        if numbers and str(number) not in numbers:
            continue
        own = folder / f"try-{number}"
        own.mkdir(parents=True)
        say(f"{time.strftime('%H:%M:%S')} try {number}: {this.kind}: {this.state}")
        try:
            lines.append(attempt(this, own))
        except LabError as error:
            lines.append(f"| {this.kind} | {this.state} | | | | **MISSES**: {error} | | |")
        say(lines[-1])
    return "\n".join(lines)

"""`make promises ARGS=walk`: a stranger's way from a clone to a mail whose first advice, carried out, resolves the incident.

Three real brokers, one of them slow, one killed for two minutes; real producers and a Prometheus all the time. The product is
called as README and docs/FIRST-RUN.md say, in a clone of the repository: `init`, then `run` over the windows since. Three tries
with different causes. What the newest mail says first is carried out as it stands there, and nothing else.

Oracle: the broker's share by the batch headers in the leaders' logs, as the lab reads them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from pipeline.config_file import load_config
from pipeline.model.number_text import format_clock, format_percent
from pipeline.model.window import TimeWindow, instant_of
from pipeline.tables.health import PROMISES, RECOMMENDATIONS
from tests.lab.live_traffic import MINUTE_MS, coming_minutes
from tests.lab.process import LabError
from tests.lab.promises.bed import Bed, Load, outage, start_bed
from tests.lab.promises.carry_out import PLAN_FILES, carry_out
from tests.lab.recording import read_clock_ms, say, sleep_until
from tests.mail_parts import attached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from email.message import EmailMessage

REPOSITORY = Path(__file__).parents[3]
LAG_MS = 12_000  # after a window's end, as cron would have it
PATIENCE_MINUTES = 8  # for a mail, and for the end of the incident
AFTER_MINUTES = 3  # whole minutes after the action, before somebody looks
STICKY, PLAIN, NEWEST = "3.2.3", "3.9.1", "4.1.1"


@dataclass(frozen=True)
class Cause:
    """A try: its producers, who is slow from the start, and what happens once a broker was away."""

    name: str
    loads: tuple[Load, ...]
    begin: Callable[[Bed], None]
    slow: dict[int, float] = field(default_factory=dict)  # ms by broker, from the start
    is_elected: bool = True  # somebody elects the leaders back after the outage


def _everyday(**changed: Load) -> tuple[Load, ...]:
    loads = {
        "orders": Load("orders", NEWEST, 250, 300),
        "payments": Load("payments", NEWEST, 80, 300, keys="account-:2000:0"),
        "events": Load("events", PLAIN, 80, 300),
    }
    return tuple((loads | changed).values())


CAUSES = (
    Cause(
        "slow broker, sticky clients", _everyday(orders=Load("orders", STICKY, 250, 300)), lambda bed: bed.slow(1, 100)
    ),
    Cause(
        "leaders, after an outage that nobody tidied up", _everyday(), lambda _: None, slow={2: 15}, is_elected=False
    ),
    Cause(
        "a heavy key",
        _everyday(payments=Load("payments", NEWEST, 400, 400, keys="account-:2000:0")),
        lambda bed: bed.change("payments", heavy=0.6),
        slow={2: 15},
    ),
)


class Walk:
    """One try: the clone, what the product said, and what was done."""

    def __init__(self, bed: Bed, folder: Path, engine: str) -> None:
        self.bed, self.folder, self.engine = bed, folder, engine
        self.clone = folder / "clone"
        self.next_ms = 0  # first window that no command has run
        self.lines: list[str] = []
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", REPOSITORY.as_uri(), self.clone], check=True)

    def note(self, text: str) -> None:
        """Keeps a line, and shows it."""
        self.lines.append(f"{format_clock(read_clock_ms())[11:16]}  {text}")
        say(f"{time.strftime('%H:%M:%S')}  {text}")

    def call(self, *arguments: str) -> str:
        """Calls the product in the clone; returns what it printed.

        Raises:
            LabError: it says that something failed other than health.
        """
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "pipeline", *arguments],
            cwd=self.clone, env=dict(os.environ), capture_output=True, text=True, check=False,
        )  # fmt: skip
        with (self.folder / "product.log").open("a") as log:
            log.write(f"$ partition-health {' '.join(arguments)}\n{done.stdout}{done.stderr}\n")
        first = next((line for line in done.stdout.splitlines() if line.strip() and "|" not in line), "")
        self.note(f"`{arguments[0]}` exit {done.returncode} after {time.monotonic() - began:.0f} s: {first[:140]}")
        if done.returncode not in {0, 3, 4}:
            raise LabError(f"partition-health {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def init(self, start_ms: int) -> None:
        """The first command, over the newest window."""
        addresses = ("--bootstrap-servers", self.bed.cluster.bootstrap, "--prometheus", self.bed.prometheus.url)
        if self.engine == "sail":
            self.call("init", *addresses, "--window", "PT1M", "--no-run")
            with (self.clone / "partition-health.yaml").open("a") as file:
                file.write("spark: {engine: sail}\n")
            self.run_until(start_ms + MINUTE_MS, start_ms)
        else:
            self.call("init", *addresses, "--window", "PT1M")
            self.next_ms = start_ms + MINUTE_MS

    def run_until(self, end_ms: int, start_ms: int | None = None) -> None:
        """`run` over the windows since the last one, once they are over."""
        from_ms = self.next_ms if start_ms is None else start_ms
        end_ms = max(end_ms, (read_clock_ms() - LAG_MS) // MINUTE_MS * MINUTE_MS)
        sleep_until(end_ms + LAG_MS)
        self.call("run", "--config", "partition-health.yaml", "--window", str(TimeWindow(from_ms, end_ms)))
        self.next_ms = end_ms

    def mails(self, badge: str) -> list[EmailMessage]:
        """Mails about broker shares so far, oldest first."""
        outbox = load_config(self.clone / "partition-health.yaml").outbox
        found = [message_from_bytes(path.read_bytes(), policy=default) for path in Path(outbox).glob("*.eml")]
        chosen = [mail for mail in found if mail["Subject"].startswith(f"[{badge}]") and "roker" in mail["Subject"]]
        return sorted(chosen, key=lambda mail: mail["X-Partition-Health-Window"])  # type: ignore[no-any-return]

    def rows(self, table: Any) -> list[dict[str, Any]]:
        """Rows of a table."""
        warehouse = load_config(self.clone / "partition-health.yaml").warehouse
        return DeltaTable(Path(warehouse) / table.name.replace(".", "/")).to_pyarrow_table().to_pylist()


def walk(cause: Cause, folder: Path, engine: str) -> list[str]:
    """One try; returns what happened, a line each."""
    with start_bed(folder, cause.loads) as bed:
        way = Walk(bed, folder, engine)
        start_ms = coming_minutes() + MINUTE_MS
        bed.start(*cause.loads, at_ms=start_ms)
        for broker, delay_ms in cause.slow.items():
            bed.slow(broker, delay_ms)
        sleep_until(start_ms + MINUTE_MS + LAG_MS)
        way.init(start_ms)
        events = threading.Thread(target=_happen, args=(bed, cause), daemon=True)
        events.start()
        way.run_until(coming_minutes() + MINUTE_MS)  # while a broker is away
        events.join()
        way.note("the cause begins")
        begin_ms = coming_minutes()
        mail, action = _wait_for_mail(way, begin_ms + 3 * MINUTE_MS)
        done = carry_out(bed, action, folder, _plan_files(mail))
        way.note(f"carried out: {done}")
        from_ms = coming_minutes()
        way.run_until(from_ms + AFTER_MINUTES * MINUTE_MS)
        over = _wait_for_end(way, action)
        minutes = (way.next_ms - from_ms) // MINUTE_MS
        shares = bed.measure_shares(from_ms, minutes)
        way.lines += _compare(way, action, over, [one.get(_broker(action), 0.0) for one in shares])
        return way.lines


def _happen(bed: Bed, cause: Cause) -> None:
    outage(bed, 0, 120)
    if cause.is_elected:
        bed.elect()
    sleep_until(coming_minutes())
    cause.begin(bed)


def _broker(action: dict[str, Any]) -> int:
    return int(action["subject"].removeprefix("broker "))


def _wait_for_mail(way: Walk, end_ms: int) -> tuple[EmailMessage, dict[str, Any]]:
    """The newest mail about a broker and the advice that it names first."""
    for _ in range(PATIENCE_MINUTES):
        way.run_until(end_ms)
        if mails := way.mails("FAIL"):
            mail = mails[-1]
            way.lines += ["", f"    {mail['Subject']}", *_first_screen(mail), ""]
            return mail, _first_action(way, mail)
        end_ms = way.next_ms + MINUTE_MS
    raise LabError("no mail about a broker")


def _plan_files(mail: EmailMessage) -> dict[str, str]:
    names = {str(part.get_filename()) for part in mail.iter_attachments()}
    return {name: attached(mail, name) for name in PLAN_FILES if name in names}


def _first_screen(mail: EmailMessage) -> Iterator[str]:
    body = mail.get_body(("plain",))
    assert body is not None
    for line in body.get_content().splitlines()[:22]:
        yield f"    {line}".rstrip()


def _first_action(way: Walk, mail: EmailMessage) -> dict[str, Any]:
    """The row behind *Do first*: that of the mail's window, as it was promised to whoever reads it."""
    broker = next(word for word in mail["Subject"].split() if word.isdigit())
    window_start = datetime.fromisoformat(mail["X-Partition-Health-Window"])
    text = " ".join("\n".join(_first_screen(mail)).split())
    for row in way.rows(RECOMMENDATIONS):
        about = (row["rank"], row["subject"], row["window_start"]) == (1, f"broker {broker}", window_start)
        if about and row["title"].replace("`", "") in text:
            return row
    raise LabError(f"no advice of rank 1 about broker {broker} in the mail's window stands in the mail:\n{text}")


def _wait_for_end(way: Walk, action: dict[str, Any]) -> bool:
    for _ in range(PATIENCE_MINUTES):
        if any(action["subject"] in mail["Subject"].lower() for mail in way.mails("RESOLVED")):
            return True
        way.run_until(way.next_ms + MINUTE_MS)
    return False


def find_decided(way: Walk, action: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of `gold.promises` about an advice that say whether it was kept, by window."""
    names = ("window_start", "subject", "action")
    found = [
        row
        for row in way.rows(PROMISES)
        if (row["promised_at"], row["subject"], row["action"]) == tuple(action[name] for name in names)
        and row["outcome"] in {"kept", "broken"}
    ]
    return sorted(found, key=lambda row: row["window_start"])


def _compare(way: Walk, action: dict[str, Any], is_over: bool, shares: list[float]) -> Iterator[str]:
    kept = find_decided(way, action)
    fair = 1 / 3
    said = [action[name] for name in ("predicted_ratio", "predicted_ratio_low", "predicted_ratio_high")]
    came = ", ".join(format_percent(share, 1) for share in shares)
    if None in said:
        yield f"promised: nothing; came {came}: MISSES"
        return
    middle, low, high = (ratio * fair for ratio in said)
    inside = sum(low <= share <= high for share in shares)
    mean = sum(shares) / len(shares)
    found = "within its range" if low <= mean <= high else "MISSES its range"
    yield f"promised {format_percent(middle, 1)} [{format_percent(low, 1)}, {format_percent(high, 1)}]"
    yield f"came by logs, minute by minute: {came}; mean {format_percent(mean, 1)}: {found} ({inside} of {len(shares)} minutes)"
    outcomes = ", ".join(f"{row['window_start']:%H:%M} {row['outcome']}" for row in kept)
    yield f"gold.promises: {outcomes or 'undecided: MISSES'}"
    yield "a RESOLVED mail left" if is_over else "no RESOLVED mail: MISSES"


def run(folder: Path, names: list[str], engine: str) -> str:
    """The tries, as text."""
    texts = []
    for number, cause in enumerate(CAUSES, 1):
        if names and str(number) not in names:
            continue
        own = folder / f"try-{number}"
        own.mkdir(parents=True)
        say(f"try {number}: {cause.name}")
        try:
            lines = walk(cause, own, engine)
        except LabError as error:
            lines = [f"MISSES: {error}"]
        texts.append("\n".join([f"try {number}: {cause.name} ({instant_of(read_clock_ms()):%Y-%m-%d})", *lines]))
        say(texts[-1])
    return "\n\n".join(texts)

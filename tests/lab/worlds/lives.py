"""Draws lives of a small Kafka, and how it is read: from disks or by collectors, some of them old, absent or cut.

`Life.readings` are made while its time passes; what each may say at most and at least is what its `Kafka` knows.
"""

import random
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import yaml

from pipeline.config_file import load_config
from pipeline.errors import PipelineError
from pipeline.model.window import MINUTE_MS, TimeWindow
from pipeline.sources.collected.collector import CollectRequest, collect
from pipeline.sources.collected.stored_folder import StoredFolder
from tests.lab.worlds.disks import write_disk
from tests.lab.worlds.events import END_MS, EVENTS, WINDOWS, Acts, draw_configs, send
from tests.lab.worlds.kafka import Kafka
from tests.unit.sources.collected.disks import DAY_MS, FAST, FIRST_MS, HOUR_MS

_BEAT_MS = 20_000  # between two records of the metadata log at most


@dataclass(frozen=True)
class Reading:
    """A run: when, of what, and its sources."""

    as_of_ms: int
    span: TimeWindow
    sources: list[dict[str, object]]


@dataclass
class Life:
    """A cluster's life in a folder, drawn by a seed."""

    folder: Path
    kafka: Kafka
    readings: list[Reading] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    left_out: str = ""  # a topic, by the configuration
    is_odd: bool = False  # some host's collector is not as it should be


def live(seed: int, folder: Path) -> Life:
    """Draws a life and lets it pass; the folder holds what was copied or collected of it."""
    chance = random.Random(seed)
    begin_ms = FIRST_MS - 40 * MINUTE_MS
    kafka = Kafka(chance, chance.choice((3, 3, 4)), chance.choice((1, 1, 2)), begin_ms)
    life = Life(folder, kafka)
    weights = {}
    for topic in ("orders", "jobs", "audit")[: chance.randint(2, 3)]:
        kafka.create(topic, chance.randint(2, 3), chance.choice((1, 2, 2, 3)), draw_configs(chance))
    acts = [(at_ms, kafka.beat) for at_ms in range(begin_ms, END_MS + 20 * MINUTE_MS, _BEAT_MS)]
    acts += [(at_ms, kafka.retain) for at_ms in range(begin_ms, END_MS, 5 * MINUTE_MS)]
    off = chance.choice((0, 0, 0.03, 0.1))
    life.faults += [f"{off:.0%} of times off"] * (off > 0)
    for at_ms in range(begin_ms + MINUTE_MS, END_MS + 5 * MINUTE_MS, 3 * MINUTE_MS):
        acts.append((at_ms + chance.randrange(MINUTE_MS), lambda: send(kafka, weights, off)))
    for _ in range(chance.randint(0, 7)):
        act = chance.choice(EVENTS)
        at_ms = chance.randrange(begin_ms + 10 * MINUTE_MS, END_MS)
        if chance.random() < 0.5:  # while hosts are read for a run
            at_ms = FIRST_MS + chance.randint(1, WINDOWS) * HOUR_MS + chance.randint(-2, 5) * MINUTE_MS
        life.faults.append(f"{act.__name__[1:]} at {(at_ms - FIRST_MS) // MINUTE_MS}")
        acts += act(kafka, at_ms)
    life.left_out = chance.choice(("", "", "", "audit"))
    acts += (_read_disks if chance.random() < 0.5 else _collect)(life)
    for at_ms, act in sorted(acts, key=lambda one: one[0]):
        kafka.now_ms = at_ms
        act()
    return life


def _draw_spans(chance: random.Random) -> list[tuple[int, TimeWindow]]:
    """When runs are, and of which windows: one of all, or two that may overlap."""
    whole = END_MS + 6 * MINUTE_MS, TimeWindow(FIRST_MS, END_MS)
    if chance.random() < 0.5:
        return [whole]
    early = FIRST_MS + chance.randint(1, WINDOWS - 1) * HOUR_MS
    begin = FIRST_MS + chance.randrange(WINDOWS) * HOUR_MS
    return [(early + 6 * MINUTE_MS, TimeWindow(FIRST_MS, early)), (whole[0], TimeWindow(begin, END_MS))]


def _read_disks(life: Life) -> Acts:
    kafka, chance = life.kafka, life.kafka.chance
    acts: Acts = []
    for number, (as_of_ms, span) in enumerate(_draw_spans(chance)):
        root, is_faulty = life.folder / f"reading-{number}", chance.random() < 0.5
        places = [(broker, disk) for broker, disks in kafka.disks.items() for disk in range(len(disks))]
        paths = [root / f"b{broker}" / f"d{disk}" for broker, disk in places]
        chosen = chance.choice(paths)
        how = chance.choice(DISK_FAULTS) if is_faulty else None
        old_ms = chance.randint(1, 150) * MINUTE_MS
        for (broker, disk), path in zip(places, paths, strict=True):
            old = {"old copy": path == chosen, "old copies of a broker": path.parent == chosen.parent, "all old": True}
            before_ms = old_ms if old.get(how or "") else chance.randrange(20_000)
            since_ms = kafka.up[1][0][0] + MINUTE_MS  # before, there was nothing to copy
            acts.append((max(as_of_ms - before_ms, since_ms), partial(write_disk, kafka, broker, disk, path)))
        if how:
            life.faults.append(f"reading {number}: {how}, {chosen.relative_to(root)}, {old_ms // MINUTE_MS} min")
            acts.append((as_of_ms, partial(_damage, chance, how, chosen)))
        acts.append((as_of_ms + 1, partial(_list_disks, life, Reading(as_of_ms, span, []), [root], paths)))
    return acts


def _list_disks(life: Life, reading: Reading, roots: list[Path], paths: list[Path]) -> None:
    listed = roots if life.kafka.chance.random() < 0.5 else [path for path in paths if path.parent.exists()]
    reading.sources.append({"kind": "log_directories", "paths": [*map(str, listed or roots)]})
    life.readings.append(reading)


DISK_FAULTS = (
    *("old copy", "old copies of a broker", "all old", "not mounted", "gone", "broker gone"),
    *("a log gone", "a segment gone", "a segment cut", "a segment damaged", "a log closed"),
)


def _damage(chance: random.Random, how: str, disk: Path) -> None:
    if how in {"gone", "not mounted"}:
        shutil.rmtree(disk, ignore_errors=True)
        if how == "not mounted":
            (disk / "lost+found").mkdir(parents=True)
    elif how == "broker gone":
        shutil.rmtree(disk.parent, ignore_errors=True)
    logs = [log for log in sorted(disk.glob("*-*/")) if not log.name.startswith("__")] if disk.exists() else []
    if not logs:
        return
    log = chance.choice(logs)
    segment = chance.choice(sorted(log.glob("*.log")))
    if how == "a log gone":
        shutil.rmtree(log)
    elif how == "a segment gone":
        segment.unlink()
    elif how == "a segment cut":
        segment.write_bytes(segment.read_bytes()[: segment.stat().st_size * 2 // 3])
    elif how == "a segment damaged":
        data = bytearray(segment.read_bytes())
        data[len(data) // 2 : len(data) // 2 + 40] = bytes(min(40, len(data) // 2))
        segment.write_bytes(data)
    elif how == "a log closed":
        segment.unlink()
        segment.symlink_to("/nowhere")


def _collect(life: Life) -> Acts:
    kafka, chance = life.kafka, life.kafka.chance
    odd = chance.choice([*kafka.disks])
    how = chance.choice(HOST_FAULTS) if chance.random() < 0.5 else None
    life.is_odd = how is not None
    life.faults += [f"host {odd}: {how}"] * life.is_odd
    acts: Acts = []
    for broker in kafka.disks:
        is_odd = how if broker == odd else None
        since_ms = FIRST_MS + chance.randint(-30, 90) * MINUTE_MS
        times_ms = [*range(since_ms, END_MS, chance.choice((20, 60, 130)) * MINUTE_MS)]
        if chance.random() < 0.6:  # a minute or some after each window's end
            times_ms = [FIRST_MS + n * HOUR_MS + chance.randrange(5 * MINUTE_MS) for n in range(WINDOWS)]
        times_ms.append(END_MS + chance.randrange(5 * MINUTE_MS))
        if is_odd == "down for hours":
            down_ms = FIRST_MS + chance.randint(-30, 90) * MINUTE_MS
            times_ms = [one for one in times_ms if not down_ms <= one < down_ms + 150 * MINUTE_MS]
        if is_odd == "stopped":
            times_ms = times_ms[: chance.randint(0, len(times_ms) - 1)]
        for at_ms in times_ms:
            acts.append((at_ms, partial(_visit_host, life, broker, is_odd, is_last=at_ms >= END_MS)))
    return acts + [(as_of_ms, partial(_read_landing, life, as_of_ms, span)) for as_of_ms, span in _draw_spans(chance)]


def _visit_host(life: Life, broker: int, how: str | None, *, is_last: bool) -> None:
    kafka, chance = life.kafka, life.kafka.chance
    if not kafka.up[broker] or (how == "away while dead" and broker not in kafka.alive):
        return
    roots = [life.folder / "hosts" / str(broker) / str(disk) for disk in range(len(kafka.disks[broker]))]
    for disk, root in enumerate(roots):
        write_disk(kafka, broker, disk, root)
    if how == "disks swapped" and len({*roots}) > 1 and kafka.now_ms > FIRST_MS + 2 * HOUR_MS and roots[1].exists():
        other = roots[0].rename(roots[0].with_name("other"))
        roots[1].rename(roots[0])
        other.rename(roots[1])
    if how in DISK_FAULTS and (is_last or chance.random() < 0.4):
        _damage(chance, how, chance.choice(roots))
    _collect_host(life, broker, roots, how, is_last=is_last)


def _read_landing(life: Life, as_of_ms: int, span: TimeWindow) -> None:
    copy = life.folder / f"landing-{len(life.readings)}"
    (life.folder / "landing").mkdir(exist_ok=True)
    shutil.copytree(life.folder / "landing", copy)
    life.readings.append(Reading(as_of_ms, span, [{"kind": "collected", "path": str(copy)}]))


HOST_FAULTS = (
    *(
        "down for hours",
        "begins anew",
        "disks swapped",
        "stopped",
        "keeps for an hour",
        "other topics",
        "clock ahead",
        "clock behind",
        "away while dead",
        "old folder",
    ),
    *("not mounted", "a log gone", "a segment gone", "a segment cut", "a segment damaged", "a log closed"),
)


def _collect_host(life: Life, broker: int, roots: list[Path], how: str | None, *, is_last: bool) -> None:
    landing = StoredFolder(str(life.folder / "landing"))
    chance, now_ms = life.kafka.chance, life.kafka.now_ms
    if how == "clock ahead" and not is_last:
        now_ms += chance.choice((3 * MINUTE_MS, 2 * HOUR_MS, 3 * DAY_MS))
    if how == "clock behind":
        now_ms -= chance.choice((3 * MINUTE_MS, 2 * HOUR_MS, 3 * DAY_MS))
    host = Path(landing.location, f"broker-{broker}")
    if how == "old folder" and is_last and host.exists() and chance.random() < 0.7:
        return
    if how == "begins anew" and chance.random() < 0.4:
        shutil.rmtree(host, ignore_errors=True)
    is_other = how == "other topics" and (is_last or chance.random() < 0.5)
    topics = ["jobs"] if is_other else list_topics(life)
    request = CollectRequest(
        paths=[root for root in roots if root.exists()],
        config=write_config(life.folder, [{"kind": "collected", "path": landing.location}], topics),
        cluster="demo",
        host=f"broker-{broker}",
        keep_ms=HOUR_MS if how == "keeps for an hour" else 7 * DAY_MS,
        as_of_ms=now_ms,
        run_id=f"{life.kafka.now_ms:015d}",
        unit_bytes=1 << 16,
        commit_bytes=1 << 18,
    )
    with suppress(PipelineError):  # no log on this host
        collect(request, landing, FAST)


def list_topics(life: Life) -> list[str]:
    """`topics` of the configuration."""
    return [f"!{life.left_out}"] if life.left_out else []


def write_config(folder: Path, sources: list[dict[str, object]], topics: Sequence[str] = (), **cluster: object):
    """A configuration in a life's folder."""
    (folder / "secret").write_text("a7" * 32)
    (folder / "secret").chmod(0o600)
    demo = {"sources": sources, "topics": [*topics], **cluster}
    document = {"warehouse": "w", "outbox": "o", "keys": {"secret": "secret"}, "clusters": {"demo": demo}}
    document["mail"] = {"to": ["kafka-platform@example.org"]}
    (folder / "partition-health.yaml").write_text(yaml.safe_dump(document))
    return load_config(folder / "partition-health.yaml")

"""Draws worlds: three brokers' hosts collected into a landing folder, one of them, and a metrics server, hostile."""

import json
import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.errors import InputError
from pipeline.sources.collected.manifest import MANIFEST, read_manifest
from pipeline.sources.collected.stored_folder import StoredFolder
from tests.lab.fuzz.mutations import mutate
from tests.unit.sources.collected.disks import DAY_MS, HOUR_MS, NOW_MS
from tests.unit.sources.collected.forgery import pack, unpack
from tests.unit.sources.collected.test_landing import claim_all
from tests.unit.sources.collected.test_landing_parts import ODD_HOSTS

ODD_VALUES = (
    *(None, True, [], {}, "", 0, -1, 1, 2, 3, 2**31, 2**53, 2**62, 2**63 - 1, 2**63, 10**400, 1.5, 1e300),
    *("\x1b[31m", "a\nb", "\0", "../../broker-1", "orders", "broker-1", "x" * 70_000, NOW_MS, NOW_MS + 1, [[[]]]),
)
HEADS = (
    "",
    "Content-Encoding: gzip\r\n",
    "Content-Encoding: gzip, gzip\r\n",
    "Date: Mon, 01 Jan 99999999999 00:00:00 GMT\r\n",
)
BODIES = (
    *(b"", b"\xff\xfe", b"[" * 100_000, b'{"status":"success","data":{"resultType":"matrix","result":[]}}'),
    *(b'{"data":{"resultType":"matrix","result":[{"metric":{},"values":[[1e300,"1"]]}]}}', b"kafka_brokers 3\n"),
    b'{"data":{"resultType":"matrix","result":7},"warnings":["\\u001b[31m"]}',
)


def edit_manifest(chance: random.Random, host: Path) -> None:
    """Puts odd values, or others of the same document, in some places of the manifest."""
    document = json.loads(unpack(host / MANIFEST))
    places = list(_iter_places(document))
    for _ in range(chance.randint(1, 4)):
        holder, key = chance.choice(places)
        other, name = chance.choice(places)
        odd = chance.choice(ODD_VALUES) if chance.random() < 0.7 else other[name]
        holder[key] = odd
    try:
        text = json.dumps(document)
    except (ValueError, RecursionError):  # a value that holds itself
        text = "{}"
    (host / MANIFEST).write_bytes(pack(text.encode()))


def _iter_places(value):
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in list(pairs):
        yield value, key
        yield from _iter_places(below)


def damage_part(chance: random.Random, host: Path) -> None:
    """Changes bytes of a part, of its own length or of another."""
    part = chance.choice(sorted((host / "parts").iterdir()))
    data = part.read_bytes()
    changed = mutate(data, chance)
    part.write_bytes(changed[: len(data)].ljust(len(data), b"\0") if chance.random() < 0.8 else changed)


def swap_parts(chance: random.Random, host: Path) -> None:
    """Puts another host's, or another kind's, part in the place of one."""
    part = chance.choice(sorted((host / "parts").iterdir()))
    part.write_bytes(chance.choice(sorted(host.parent.glob("broker-*/parts/*"))).read_bytes())
    _tell_sizes(host)


def forge_part(chance: random.Random, host: Path) -> None:
    """Makes its batches those of another partition, epoch or offset."""
    for part in (host / "parts").glob("*batches*"):
        rows = pq.read_table(part)
        name = chance.choice(("partition", "leader_epoch", "base_offset", "last_offset", "record_count", "topic"))
        place = rows.column_names.index(name)
        number = chance.choice((0, 1, 2, 7, 2**62))
        values = pa.repeat("other", len(rows)) if name == "topic" else pa.repeat(number, len(rows))
        pq.write_table(rows.set_column(place, name, pc.cast(values, rows.schema.field(place).type)), part)
    _tell_sizes(host)


def impersonate(chance: random.Random, host: Path) -> None:
    """Is the host of another broker, with records that it did not write."""
    shutil.rmtree(host)
    shutil.copytree(host.parent / f"broker-{chance.choice((1, 2))}", host)
    if chance.random() < 0.5:
        forge_part(chance, host)
    document = json.loads(unpack(host / MANIFEST))
    document["collected_at_ms"] += chance.choice((-10_000_000, 0, 1, 10_000_000))
    (host / MANIFEST).write_bytes(pack(json.dumps(document).encode()))


def be_another_too(chance: random.Random, host: Path) -> None:
    """Is its own broker and another's, with records of that one which it did not write."""
    other = host.parent / f"broker-{chance.choice((1, 2))}"
    mine, theirs = (json.loads(unpack(folder / MANIFEST)) for folder in (host, other))
    for part in theirs["parts"]:
        name = f"parts/another-{Path(part['path']).name}"
        shutil.copy2(other / part["path"], host / name)
        mine["parts"].append(part | {"path": name})
    mine["progress"] += [
        one | {"next_offset": one["next_offset"] + chance.choice((0, 1, 2**40))} for one in theirs["progress"]
    ]
    if chance.random() < 0.7:
        mine["state"]["directories"] += theirs["state"]["directories"]
        mine["state"]["replicas"] += theirs["state"]["replicas"]
    mine["collected_at_ms"] += chance.choice((0, 1, 10_000_000))
    (host / MANIFEST).write_bytes(pack(json.dumps(mine).encode()))
    for part in (host / "parts").glob("another-*batches*"):
        rows = pq.read_table(part)
        place = rows.column_names.index("size_bytes")
        pq.write_table(rows.set_column(place, "size_bytes", pc.multiply(rows["size_bytes"], 3)), part)
    _tell_sizes(host)


def claim(_chance: random.Random, host: Path) -> None:
    """Says that it read all partitions."""
    claim_all(StoredFolder(str(host.parent)), host.name)


def be_odd(chance: random.Random, host: Path) -> None:
    """One of the folders that a test has by name."""
    chance.choice([act for name, act, _ in ODD_HOSTS if "GiB" not in name])(host)


def drop(chance: random.Random, host: Path) -> None:
    """Takes a part away, or puts something there that no manifest names."""
    part = chance.choice(sorted((host / "parts").iterdir()))
    if chance.random() < 0.5:
        part.unlink()
    else:
        (host / "parts" / os.fsdecode(b"\xff\n.parquet")).write_bytes(part.read_bytes())


def _tell_sizes(host: Path) -> None:
    manifest = read_manifest(StoredFolder(str(host)))
    sizes = {f"parts/{part.name}": part.stat().st_size for part in (host / "parts").iterdir()}
    rows = {f"parts/{part.name}": _count_rows(part) for part in (host / "parts").iterdir()}
    document = json.loads(unpack(host / MANIFEST))
    for part in document["parts"]:
        part["size_bytes"] = sizes.get(part["path"], part["size_bytes"])
        part["row_count"] = max(rows.get(part["path"], 0), part["row_count"] if part["kind"] == "arrivals" else 0)
    assert manifest is not None
    (host / MANIFEST).write_bytes(pack(json.dumps(document).encode()))


def _count_rows(part: Path) -> int:
    return pq.read_metadata(part).num_rows


FAULTS = (
    edit_manifest,
    edit_manifest,
    damage_part,
    swap_parts,
    forge_part,
    impersonate,
    be_another_too,
    claim,
    be_odd,
    drop,
)


_IN_ITS_WAY = (
    RecursionError,
    InputError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    pa.ArrowException,
)


@dataclass(frozen=True)
class Surroundings:
    """What is not as usual around a run.

    Attributes:
        clock_ms: By how much the machine's clock is off.
        zone: The machine's time zone, as `TZ` says it.
        shown_in: The zone whose times mails show.
        is_read_only: Whether the warehouse cannot be written at first.
    """

    clock_ms: int
    zone: str
    shown_in: str
    is_read_only: bool


_CLOCKS_MS = (0, 0, 0, 0, -365 * DAY_MS, -3 * DAY_MS, -2 * HOUR_MS, -1, 1, 40 * DAY_MS, 5000 * 365 * DAY_MS)
_REPEATED = "AAA-1BBB-2,M3.1.0,M11.3.3/3"  # on the worlds' night: what is shown as 02:00 to 03:00 comes twice
_SKIPPED = "AAA-1BBB-2,M11.3.3/1,M12.5.0"  # 01:00 to 02:00 never comes
_ZONES = ("UTC", "UTC", _REPEATED, _SKIPPED, "Pacific/Kiritimati", "America/St_Johns")
_READ_ONLY = 0.08


def draw_surroundings(chance: random.Random) -> Surroundings:
    """Draws what is around a run."""
    return Surroundings(
        clock_ms=chance.choice(_CLOCKS_MS),
        zone=chance.choice(_ZONES),
        shown_in=chance.choice(("UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia")),
        is_read_only=chance.random() < _READ_ONLY,
    )


def make_hostile(chance: random.Random, host: Path) -> list[str]:
    """Does one to three things to a host's folder; returns which. A later one may find no folder that it can act on."""
    done = []
    for _ in range(chance.randint(1, 3)):
        if any(path.is_fifo() for path in host.rglob("*")):
            break  # whoever opens it waits
        act = chance.choice(FAULTS)
        try:
            act(chance, host)
        except _IN_ITS_WAY as error:  # what was done before: that is a world too
            done.append(f"{act.__name__} ({type(error).__name__})")
        else:
            done.append(act.__name__)
    return done


def draw_answer(chance: random.Random) -> bytes:
    """What a metrics server sends to whoever asks."""
    body = chance.choice(BODIES)
    body = mutate(body, chance) if chance.random() < 0.3 else body
    head = (
        f"HTTP/1.1 {chance.choice(('200 OK', '200 OK', '503 x', '404 n', '302 F', '999 x'))}\r\n{chance.choice(HEADS)}"
    )
    return head.encode() + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body

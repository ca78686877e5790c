"""Names, keys and texts that producers, consumers and hosts choose, through a whole run: in nothing it leaves do they act.

The recording is a minute of the capture, with such names in place of the real ones. Oracles: the standard library's readers
of mail, HTML and shell words, prometheus_client's of metrics.
"""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import unicodedata
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from pipeline.cli import main
from pipeline.model.number_text import escape_hidden
from pipeline.sources.files.directory_walk import HIDDEN
from tests.batches import make_batch, make_records
from tests.lab.archive import unpack_once
from tests.lab.fuzz.targets import seal_batches
from tests.mail_parts import read_mail
from tests.spark.capture_runs import Capture, stored

ROOT = Path(__file__).parents[3]
TAG, CALL = "<script>alert(1)</script>", "$(touch${IFS}pwned)`id`"
PRINTABLE = f"{TAG}';DROP TABLE gold.verdicts;--{CALL}{{{{7*7}}}}{{%raw%}}=cmd|'/C calc'!A0%s%n{{0}}"
HOSTILE = PRINTABLE + "\x1b[31m\r\nkafka_brokers 77 \r\u202e"
TOPIC = "--help"  # in place of `orders`
FOLDER = "a b;" + HOSTILE.replace("/", "")
ODD = FOLDER[:200] + "-0"  # on a broker's disk
NOT_UTF_8 = os.fsdecode(b"ord\xffers-0")
WAREHOUSE_FOLDER = "c d;$(touch pwned)`id`'&<b>"
ALIKE = {  # names of equal length, in files that say how long a name is, or where a column begins
    b"orders": TOPIC.encode(),
    b"127.0.0.1": b"<b>$(x)\n\x1b",
    b"clicks-readers": b"<i>''$(x)\x1b`x`;",
    b"clicks-reader-a": b"<b>{{7*7}}\x1b`x`",
    b"clicks ": b"ledger ",
}
SOURCES = ("log_directories", "topics_describe", "consumer_groups", "producer_metrics", "broker_metrics")


def change(path, names, seal=bytes):
    """Writes a file anew with other names; the capture's own is a link to it."""
    data = path.read_bytes()
    for name, other in names.items():
        data = data.replace(name, other)
    path.unlink()
    path.write_bytes(seal(data))


def forget_other_copies(folder, ledger):
    """Those of the partition that is written anew would have more than it."""
    for path in folder.glob("brokers/*/replication-offset-checkpoint"):
        path.write_text(re.sub(r"(?m)^ledger 1 \d+$", "ledger 1 2500", path.read_text()))
    for path in {*folder.glob("brokers/*/ledger-1")} - {ledger}:
        shutil.rmtree(path)


def write_recording(folder):
    """A part of the capture and a minute of it, in which one hostile key makes broker 1 hot."""
    capture = unpack_once(ROOT / "tests/data/capture.tar.zst", ROOT / "build")
    manifest = json.loads((capture / "manifest.json").read_text())
    clock = manifest["clock"]
    whole = Capture(capture, clock["start_ms"], clock["end_ms"], clock["recorded_until_ms"])
    part = whole.part(folder, topics=("orders", "ledger"), scrapes=("producers/orders", "brokers/1"))
    client = HOSTILE.replace("\\", "\\\\").replace("\n", "\\n").encode()
    for path in sorted(part.folder.rglob("*")):
        if path.parent.name == "__cluster_metadata-0" and path.suffix == ".log":
            change(path, {name: ALIKE[name] for name in (b"orders", b"127.0.0.1")}, seal_batches)
        elif path.suffix == ".prom":
            change(path, {b"orders-producer": client, b"orders": TOPIC.encode()})
        elif path.suffix == ".txt" or path.name.endswith("-checkpoint"):
            change(path, ALIKE | {b"Configs: ": b"Configs: a=" + TAG.encode() + b","})
    for path in part.folder.glob("brokers/*/orders-*"):
        path.rename(path.with_name(path.name.replace("orders", TOPIC)))
    minute = whole.minute_of(manifest["slow"]["to_ms"]) - 2  # consumer groups were described then
    span = whole.span(minute, minute + 1)
    records = [
        replace(record, timestamp_ms=span.start_ms + 20 * number, key=HOSTILE.encode())
        for number, record in enumerate(make_records(2_500, value=b"v" * 300, headers=((TAG, CALL.encode()),)))
    ]
    ledger = part.folder / "brokers/1/ledger-1"
    for path in ledger.iterdir():
        if path.stem.isdigit():
            path.unlink()
    forget_other_copies(part.folder, ledger)
    (ledger / f"{0:020d}.log").write_bytes(b"".join(make_batch(records[at : at + 50]) for at in range(0, 2_500, 50)))
    (part.folder / "brokers/2" / ODD).mkdir()
    (part.folder / "brokers/2" / ODD / f"{0:020d}.log").write_bytes(b"\xff" * 100)
    page = next((part.folder / "scrapes/producers/orders").glob("*.prom"))
    for other in (part.folder / "brokers/2" / NOT_UTF_8, part.folder / "scrapes/producers" / NOT_UTF_8):
        other.mkdir()
        (other / page.name).write_bytes(page.read_bytes())
        (other / f"{0:020d}.log").write_bytes(b"\xff" * 100)
    (ledger / f"{NOT_UTF_8}.log").write_bytes(b"\xff" * 100)
    return part, span


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The folder of the configuration of a run, and what commands about it print."""
    root = tmp_path_factory.mktemp("hostile")
    part, span = write_recording(root / FOLDER)
    folder = root / WAREHOUSE_FOLDER
    keys, gate = {"secret": str(folder / "partition-health.secret")}, {"k": 1, "n": 1}
    part.write_config(folder, topics=(TOPIC, "ledger"), sources=SOURCES, gate=gate, keys=keys)
    config = folder / "partition-health.yaml"
    document = yaml.safe_load(config.read_text())
    document["clusters"] = {HOSTILE: document["clusters"]["demo"] | {"owner": HOSTILE}}
    document["keys"] |= {"clear_topics": {HOSTILE: ["ledger"]}}
    document["candidates"] = [{"name": HOSTILE, "partitioner": "java-builtin"}]
    config.write_text(yaml.safe_dump(document | {"metrics": {"textfile_folder": "metrics"}}))
    given, disk = ("--config", str(config)), part.folder / "brokers/2"
    printed = [
        call("run", *given, "--window", str(span), "--notify"),
        call("outbox", *given),
        call("mute", *given),
        call("inspect", str(disk)),
        call("inspect", str(disk / "nowhere")),
        call("report", *given, "--window", str(span), "--output", str(folder / "again.html")),
    ]
    return folder, printed


def call(*words):
    """What a command prints, to both streams."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        main(words)
    return out.getvalue() + err.getvalue()


def hidden(text):
    """Characters that a terminal obeys or hides."""
    return {char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Cs") and char != "\n"}


class Page(HTMLParser):
    """Tags, names of attributes, where links lead and what scripts hold."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.links, self.scripts = set(), set(), [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value for name, value in attrs if name in ("href", "src", "action")]

    def handle_data(self, data):
        if self.lasttag == "script":
            self.scripts.append(data)


def assert_harmless(html):
    page = Page(html)
    assert not any(name.startswith("on") for name in page.attributes)
    assert not any((link or "").lower().startswith(("javascript:", "vbscript:")) for link in page.links)
    assert not any("<script>alert" in text or text.startswith("alert(1)") for text in page.scripts)
    assert not page.tags & {"iframe", "object", "embed", "form", "base"}
    assert hidden(html.replace("\r\n", "\n")) == set()
    return page


def test_tables_hold_the_names_as_they_are_and_nothing_that_they_forge(ran):
    warehouse = ran[0] / "warehouse"
    samples = stored(warehouse, "bronze.metric_samples", "name", "labels", "value")
    assert HOSTILE in {value for sample in samples for name, value in sample["labels"] if name == "client_id"}
    assert [sample for sample in samples if sample["name"] == "kafka_brokers" and sample["value"] == 77] == []
    quarantine = stored(warehouse, "bronze.quarantine")
    assert not any(hidden(row["path"] + row["reason"]) for row in quarantine)
    for name, count in ((ODD, 1), (NOT_UTF_8, 3)):
        named = [row for row in quarantine if escape_hidden(name) in row["path"]]
        assert [row["reason"] for row in named] == [HIDDEN] * count
    assert HOSTILE.encode() in {row["clear_key"] for row in stored(warehouse, "silver.key_hashes")}
    assert {row["topic"] for row in stored(warehouse, "gold.topic_health")} >= {TOPIC, "ledger"}
    assert {row["verdict"] for row in stored(warehouse, "gold.verdicts") if row["rule"] == "broker_share"} >= {"fail"}


def test_terminals_get_no_control_characters(ran):
    texts = ran[1]
    assert [hidden(text) for text in texts] == [set()] * len(texts)
    assert "mail:" in texts[0]
    assert "\\x1b[31m" in texts[3]
    assert "\\x1b[31m" in texts[4]


def test_a_mail_has_its_own_headers_tags_and_commands(ran):
    folder, _ = ran
    (path,) = folder.glob("outbox/*.eml")
    mail = read_mail(path.read_bytes())
    assert {name.lower() for name in mail.keys()} == HEADERS  # noqa: SIM118 - a message is no mapping
    assert hidden(mail["Subject"]) == set()
    assert "script" not in assert_harmless(mail.get_body(("html",)).get_content()).tags
    (report,) = (part for part in mail.iter_attachments() if part.get_filename() == "report.html")
    assert_harmless(report.get_payload(decode=True).decode())
    text = mail.get_body(("plain",)).get_content().replace("\r\n", "\n")
    assert hidden(text) == set()
    commands = [shlex.split(line) for line in text.splitlines() if line.startswith("kafka-")]
    assert not any(TOPIC in words or CALL in word for words in commands for word in words)
    for part in mail.iter_attachments():
        if part.get_content_type() == "application/json":
            json.loads(part.get_payload(decode=True))


HEADERS = {
    *("from", "to", "subject", "date", "message-id", "mime-version", "content-type", "auto-submitted"),
    *("x-auto-response-suppress", "x-partition-health-incident", "x-partition-health-state"),
    "x-partition-health-window",
}


def test_the_report_has_its_own_tags(ran):
    (path,) = ran[0].glob("warehouse/reports/*.html")
    page = assert_harmless(path.read_bytes().decode())
    (docs,) = ran[0].glob("warehouse/reports/data-docs/*/index.html")
    to_docs = docs.relative_to(path.parent).as_posix()
    assert all(not link or link.startswith(("#", "data:")) or link == to_docs for link in page.links)


def test_data_docs_have_their_own_tags(ran):
    paths = {path.name: path for path in ran[0].glob("warehouse/reports/data-docs/*/*.html")}
    assert {"index.html", "health_gate.html", "record_batches_gate.html", "suite.health_gate.html"} <= set(paths)
    for path in paths.values():
        page = assert_harmless(path.read_bytes().decode())
        assert "script" not in page.tags
        assert {link.partition("#")[0] for link in page.links} <= {"", *paths}


def test_metrics_have_their_own_names(ran):
    (path,) = ran[0].glob("metrics/*.prom")
    families = list(text_string_to_metric_families(path.read_bytes().decode()))
    assert families
    assert {family.name.startswith("partition_health_") for family in families} == {True}
    assert {sample.labels["cluster"] for family in families for sample in family.samples} == {HOSTILE}

"""The mail. Oracle: RFC 5322/2046/2387 as the standard library's parser reads them, an HTML parser, and plain reading."""

import unicodedata
from dataclasses import replace

import pytest

from pipeline.alerting.incident_mail import describe_broker_share
from pipeline.alerting.message import attach_report, render_message
from pipeline.evidence.incident import HotPartition, rank_topics
from tests.mail_parts import read_mail
from tests.placements import load_of
from tests.unit.alerting.examples import broker_load, new_evidence, resolved_evidence
from tests.unit.alerting.rendered_mail import Reader, html_of, parse, render, text_of


@pytest.mark.parametrize(
    ("evidence", "subject"),
    [
        (
            new_evidence(),
            "[FAIL] demo broker 1 carries 55 % of bytes in, fair share 33 % (1.65x, limit 1.20x) #K-JKT62CWA",
        ),
        (
            resolved_evidence(),
            "[RESOLVED] demo broker 1 is back to 34 % of bytes in, fair share 33 % (1.02x, limit 1.20x) #K-JKT62CWA",
        ),
    ],
)
def test_the_subject_tells_state_cluster_broker_share_limit_and_incident(evidence, subject):
    message = render(evidence)
    assert message.subject_line == subject
    assert parse(message)["Subject"] == subject


def test_headers():
    new, resolved = parse(render(new_evidence())), parse(render(resolved_evidence()))
    assert new["Message-ID"] == "<K-JKT62CWA-new.demo@partition-health.local>"
    assert resolved["Message-ID"] == "<K-JKT62CWA-resolved.demo@partition-health.local>"
    assert resolved["References"] == resolved["In-Reply-To"] == new["Message-ID"]
    assert new["References"] is None
    assert new["Auto-Submitted"] == "auto-generated"
    assert new["Date"].datetime.isoformat() == "2026-11-21T09:08:00+00:00"
    assert [address.addr_spec for address in new["To"].addresses] == ["ops@x.org", "team@x.org"]
    assert {part.defects for part in map(tuple_of_defects, new.walk())} == {()}


def tuple_of_defects(part):
    part.defects = tuple(part.defects)
    return part


def test_structure_is_text_beside_html_without_pictures():
    parsed = parse(render(new_evidence()))
    assert [(part.get_content_type(), part.get_filename()) for part in parsed.walk()] == [
        ("multipart/alternative", None),
        ("text/plain", None),
        ("text/html", None),
    ]
    assert "img" not in Reader(html_of(render(new_evidence()))).tags


def test_the_same_arguments_give_the_same_bytes():
    assert render(new_evidence()).payload == render(new_evidence()).payload


def test_lines_are_short_enough_for_every_server():
    for evidence in (new_evidence(), resolved_evidence(cluster="c" * 300)):
        lines = render(evidence).payload.split(b"\r\n")
        assert max(map(len, lines)) <= 78
        assert b"\n" not in b"".join(lines)
        assert not [line for line in lines if line in (b"Message-ID:", b"Content-ID:", b"In-Reply-To:")]


def test_a_report_joins_a_mail_as_a_file_and_changes_nothing_else():
    payload, page = render(new_evidence()).payload, b"<!doctype html>\r\n" + "größer ".encode() * 999
    joined = attach_report(payload, page)
    assert joined == attach_report(payload, page)
    before, after = (read_mail(one) for one in (payload, joined))
    assert {name: before[name] for name in before if name != "Content-Type"} == {
        name: after[name] for name in after if name != "Content-Type"
    }
    assert [before.get_body((kind,)).get_content() for kind in ("plain", "html")] == [
        after.get_body((kind,)).get_content() for kind in ("plain", "html")
    ]
    (file,) = (part for part in after.iter_attachments() if part.get_filename() == "report.html")
    assert file.get_payload(decode=True) == page
    assert max(map(len, joined.split(b"\r\n"))) <= 78


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a\r\nBcc: everyone@x.org\r\n\r\nbody",
    "\u202egnp.exe\u202c",
    "null\x00byte\x1b[31m",
    "\ud800unpaired",
    "=?utf-8?q?=0D=0ABcc:_everyone@x.org=0D=0A=0D=0Abody?=",
    "=?raw_unicode_escape?q?=5Cud800?=",
    "=\u200b?utf-8?q?=0D=0ABcc:_everyone@x.org?=",
    "{{ 7*7 }}{% raw %}",
    "'; DROP TABLE gold.incidents; --",
    "`code`",
    "t" * 249,
    "snow\u2603\U0001f600\u200dman",
    "שלום",
]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_stay_text(name):
    """The tags and header names of the mail are those of a harmless one."""
    hostile = new_evidence(
        cluster=name, owner=name, topics=(name,), partitions=(HotPartition(topic=name, partition=0, size_bytes=9),)
    )
    harmless = replace(
        hostile, cluster="x", owner="x", topics=("x",), partitions=(replace(hostile.partitions[0], topic="x"),)
    )
    message = render(hostile)
    brief, expected = (Reader(html_of(one)) for one in (message, render(harmless)))
    assert brief.tags == expected.tags
    assert [name for _, name, _ in brief.attributes] == [name for _, name, _ in expected.attributes]
    assert parse(message).keys() == parse(render(harmless)).keys()
    assert parse(message)["Subject"] == message.subject_line
    joined = read_mail(attach_report(message.payload, b""))
    assert [joined[header] for header in ("Subject", "Bcc")] == [message.subject_line, None]
    assert len(message.subject_line) <= 200
    for shown in (message.subject_line, text_of(message), brief.text):
        hidden = {c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c != "\n"}
        assert hidden == set()


def test_a_huge_cluster_gives_a_mail_of_bounded_length():
    brokers = [broker_load(number, 0.002, expected_share=0.002) for number in range(2, 500)]
    loads = {(f"topic-{number:05}", number % 500): number for number in range(20_000)}
    evidence = new_evidence(
        brokers=(broker_load(1, 0.004, expected_share=0.002), *brokers),
        topics=rank_topics(loads, broker_id=1, expected_share=0.002),
    )
    message = render(evidence)
    assert len(message.payload) < 250_000
    assert "487 other brokers are below these." in " ".join(text_of(message).split())


def test_evidence_without_the_broker_or_its_share_is_refused():
    with pytest.raises(ValueError, match="broker 9 is not among"):
        render(new_evidence(broker_id=9))
    with pytest.raises(ValueError, match="has no share"):
        render(new_evidence(brokers=(load_of(1, 0, 0),)))


def test_a_line_break_in_an_address_is_refused():
    with pytest.raises(ValueError, match=r"linefeed|newline|carriage"):
        render_message(
            describe_broker_share(new_evidence()), sender="a@x.org\r\nBcc: b@x.org", recipients=["c@x.org"], now_ms=0
        )

"""One mail for many changes. Oracle: the order and the units worked out by hand."""

import csv
import io
from dataclasses import replace

import pytest

from pipeline.alerting.digest import describe_digest
from tests.incident_rows import new_change
from tests.unit.alerting.examples import T0_MS

NEW = (("broker_share", 1.5, 1.2), ("disk_hours_to_full", 12.0, 48.0), ("leaderless", 3.0, 1.0))
MORE = (("preferred_leader", 0.25, 0.1), ("source_arrival", 0.5, 0.0), ("topic_peak", None, 2.0))


def change(rule, value, limit):
    of = {"rule": rule, "subject": rule.replace("_", " "), "incident_id": f"K-{rule}"}
    return new_change("new", T0_MS, value=value, limit_value=limit, **of)


def test_the_most_severe_come_first_by_how_far_they_are_beyond_their_limits_each_in_its_unit():
    """A source's limit is 0: any lack is beyond it without bound. 12 h of 48 are four times beyond, 3 of 1 three times."""
    content = describe_digest("demo", [change(*told) for told in NEW + MORE])
    (table,) = [section.table for section in content.sections if section.table]
    assert [(row[0], row[3], row[4]) for row in table.rows] == [
        ("K-source_arrival", "50 %", "0 %"),
        ("K-disk_hours_to_full", "12 h", "48 h"),
        ("K-leaderless", "3", "1"),
        ("K-preferred_leader", "25 %", "10 %"),
        ("K-broker_share", "1.50x", "1.20x"),
        ("K-topic_peak", "", "2.00x"),
    ]
    assert "Most severe: source arrival, source arrival." in content.headline


def test_the_file_holds_as_many_of_the_most_severe_as_a_mail_carries():
    """Mail servers refuse mails of ten megabytes. One incident for each topic, with the longest name there is."""
    given = [replace(change("leaderless", 9000.0 - at, 1.0), subject=f"topic {'t' * 243}{at:06}") for at in range(9000)]
    content = describe_digest("demo", given)
    (file,) = content.attachments
    assert 1_000_000 < len(file.text) < 1_001_000
    header, *rows, last = csv.reader(io.StringIO(file.text))
    subject = header.index("subject")
    assert [row[subject][-6:] for row in rows] == [f"{at:06}" for at in range(len(rows))]
    left = 9000 - len(rows)
    assert last == [f"{left:,} more are in gold.incidents"]
    (note,) = [section.table.note for section in content.sections if section.table]
    assert note.endswith(f"It lacks {left:,} others: gold.incidents has all.")


@pytest.mark.parametrize(
    ("states", "expected"), [(("resolved", "withdrawn"), "nothing"), (("resolved", "new"), "look for")]
)
def test_of_incidents_that_are_all_over_nothing_is_to_be_done(states, expected):
    """A mail that all is well again had people look for a broker that is down."""
    ended = [replace(change("leaderless", 0.0, 1.0), state=state) for state in states]
    assert dict(describe_digest("demo", ended).brief.facts)["Do first"].startswith(expected)


@pytest.mark.parametrize(
    ("subject", "cell"),
    [
        ("client a", "client a"),
        ("=1+1", "'=1+1"),
        ("client a;=1+1", "client a;'=1+1"),
        ('client a;"; @x', "client a;'\";' @x"),
        ("client a,=1+1", "client a,=1+1"),
        ("client a-b", "client a-b"),
    ],
)
def test_no_name_is_a_formula_in_a_spreadsheet(subject, cell):
    """Where the comma is the sign of decimals, spreadsheets part lines at semicolons."""
    (file,) = describe_digest("demo", [replace(change("leaderless", 3.0, 1.0), subject=subject)]).attachments
    assert next(csv.DictReader(io.StringIO(file.text)))["subject"] == cell
    assert file.text.count('"') - cell.count('"') * 2 == 2 * 2 * 8

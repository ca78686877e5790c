"""Mails of the capture and of two captures made from it.

Oracle: the rule of docs/MEASURES.md, written out here, over shares counted by `tests/lab/facts.py`.
"""

import re
from pathlib import Path

import pytest

from pipeline.model.window import milliseconds_of, parse_instant
from tests.engines import sail
from tests.lab.facts import measure_share_ratios
from tests.mail_parts import read_mail, text_of
from tests.spark.capture_runs import plan, run_all, stored

LIMIT, RESOLVES_AT, K, N = 1.20, 1.10, 3, 4
PERMUTED = {0: 2, 1: 0, 2: 1}


def expected_changes(ratios):
    """(broker, state, minute, since minute) of every change: chance and floor play no part at these volumes."""
    changes = []
    for broker in next(iter(ratios.values())):
        since, calm = None, 0
        for minute in ratios:
            last = [m for m in range(max(0, minute - N + 1), minute + 1) if ratios[m][broker] >= LIMIT]
            if since is None and len(last) >= K and minute in last:
                since, calm = last[0], 0
                changes.append((broker, "new", minute, since))
            elif since is not None:
                calm = calm + 1 if ratios[minute][broker] < RESOLVES_AT else 0
                if calm == K:
                    changes.append((broker, "resolved", minute, since))
                    since = None
    return changes


def told_changes(ran, capture):
    rows = stored(ran.warehouse, "gold.incidents", "subject", "state", "window_start", "since")
    minute = lambda instant: capture.minute_of(milliseconds_of(instant))  # noqa: E731
    return [
        (int(row["subject"].split()[1]), row["state"], minute(row["window_start"]), minute(row["since"]))
        for row in sorted(rows, key=lambda row: row["window_start"])
    ]


def read_mails(ran):
    """State → (subject, plain text) of the files that were delivered."""
    mails = {}
    for _, place in ran.deliveries:
        message = read_mail(Path(place).read_bytes())
        text = text_of(message)
        assert {part.get_content_type() for part in message.walk()} >= {"text/html", "text/plain"}
        mails[re.match(r"\[(\w+)\]", text)[1]] = (message["Subject"], text)
    assert len(mails) == len(ran.deliveries) == len(list(ran.config.outbox.glob("*")))
    return mails


def since_minute(text, capture):
    instant = re.search(r"Since (\S+) (\S+) UTC", " ".join(text.split()))
    return capture.minute_of(milliseconds_of(parse_instant(f"{instant[1]}T{instant[2]}Z")))


def test_the_rule_written_out_here_by_hand():
    ratios = {minute: {1: ratio} for minute, ratio in enumerate([1, 1.3, 1, 1.3, 1.3, 1.15, 1, 1, 1.05, 1])}
    assert expected_changes(ratios) == [(1, "new", 4, 1), (1, "resolved", 8, 1)]


def test_the_capture_leaves_two_mails_about_the_slow_broker(ingested, facts, capture, manifest):
    slow = manifest["slow"]["broker_id"]
    changes = told_changes(ingested, capture)
    assert changes == expected_changes(measure_share_ratios(facts))
    assert [(broker, state) for broker, state, *_ in changes] == [(slow, "new"), (slow, "resolved")]
    mails = read_mails(ingested)
    assert mails.keys() == {"FAIL", "RESOLVED"}
    subject, text = mails["FAIL"]
    assert f"broker {slow} carries" in subject
    assert since_minute(text, capture) in {4, 5}
    assert ", most in topic orders" in " ".join(text.split())
    assert f"broker {slow} is back" in mails["RESOLVED"][0]
    assert not ingested.health.success


def test_without_orders_the_numbers_speak_for_themselves(capture, facts, tmp_path):
    others = ("refunds", "audit")  # all others together lie even closer to even
    ran = run_all(sail(), plan(capture.write_config(tmp_path, topics=others), capture.span()), check_data=False)
    expected = expected_changes(measure_share_ratios(facts, others))
    assert told_changes(ran, capture) == expected
    assert len(read_mails(ran)) == len(expected)
    assert ran.health.success is (expected == [])


@pytest.fixture(scope="module")
def permuted(capture, tmp_path_factory):
    """The same disks under other broker ids; who leads is known from the tool's text alone."""
    part = capture.part(
        tmp_path_factory.mktemp("permuted") / "capture", topics=("orders", "audit"), with_metadata=False
    )
    for properties in (part.folder / "brokers").glob("*/meta.properties"):
        replace_text(properties, r"(?<=^node\.id=)(\d+)$")
    replace_text(part.folder / "tools/topics-describe.txt", r"(?:(?<=Leader: )|(?<=Replicas: )|(?<=Isr: ))([\d,]+)")
    return part


def replace_text(path, ids):
    text = re.sub(
        ids,
        lambda found: ",".join(str(PERMUTED[int(broker)]) for broker in found[1].split(",")),
        path.read_text(),
        flags=re.MULTILINE,
    )
    path.unlink()  # it may be a link to the capture's own
    path.write_text(text)


def test_permuted_broker_ids_change_the_broker_in_the_mails(permuted, facts, manifest, tmp_path):
    topics = ("orders", "audit")
    config = permuted.write_config(tmp_path, topics=topics, sources=("log_directories", "topics_describe"))
    ran = run_all(sail(), plan(config, permuted.span()), check_data=False)
    ratios = {
        minute: {PERMUTED[broker]: ratio for broker, ratio in of_minute.items()}
        for minute, of_minute in measure_share_ratios(facts, topics).items()
    }
    changes = told_changes(ran, permuted)
    assert changes == expected_changes(ratios)
    accused = PERMUTED[manifest["slow"]["broker_id"]]
    assert [(broker, state) for broker, state, *_ in changes] == [(accused, "new"), (accused, "resolved")]
    subject, text = read_mails(ran)["FAIL"]
    assert f"broker {accused} carries" in subject
    assert ", most in topic orders" in " ".join(text.split())
    assert {row["state_source"] for row in stored(ran.warehouse, "bronze.cluster_state")} == {"topics_describe"}

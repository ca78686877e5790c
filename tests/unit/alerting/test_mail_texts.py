"""What a mail says, in its body and in the files attached. Oracle: plain reading, and an HTML parser."""

from dataclasses import replace

import pytest

from pipeline.alerting.brief import describe_brief
from pipeline.alerting.broker_share import describe_broker_share
from pipeline.alerting.content import MailColumn, MailTable, render_table
from pipeline.alerting.evidence import ShareCauses, excess_by_topic
from pipeline.alerting.message import render_html, render_text
from pipeline.config_file import load_config
from tests.unit.alerting.examples import (
    LOADS,
    new_evidence,
    new_recommendation,
    resolved_evidence,
    source_arrival,
)
from tests.unit.alerting.rendered_mail import Reader, brief_of, html_of, render, text_of

SAID_WHEN_NEW = [
    "Broker 1 of cluster demo carried 55.0 % of the bytes produced from 2026-11-21 09:06 to 09:07 UTC",
    "33.3 % would be fair",
    "above the limit of 1.20x since 2026-11-21 09:04 UTC, in 3 of the last 4 windows",
    "This incident is new.",
    "The cause: partition skew, most in topic orders.",
    "Producers waited 23 ms on average for an answer of broker 1, 11.0x the 2.1 ms for the other brokers.",
    "the cluster can carry 61 % of what its brokers could together",
    "orders",
    "+567 B",
    "orders-0",
    "partition skew",
    "+21.7",
    "Chance alone takes a broker to 1.07x once in a thousand windows.",
    "worth 1,812 independent batches",
    "FROM gold.broker_share",
    "FROM silver.partition_traffic",
    "partition-health run --window 2026-11-21T09:04:00Z/2026-11-21T09:07:00Z",
    "Owner: platform team.",
]
SAID_WHEN_RESOLVED = [
    "Broker 1 of cluster demo recovered: 34.0 % of the bytes produced, where 33.3 % is fair (1.02x)",
    "below 1.10x for 3 windows in a row",
    "The incident began at 2026-11-21 09:04 UTC and peaked at 1.65x.",
    "It is resolved as of 2026-11-21 09:11 UTC, 7 minutes later.",
]


@pytest.mark.parametrize(
    ("evidence", "sentences"), [(new_evidence(), SAID_WHEN_NEW), (resolved_evidence(), SAID_WHEN_RESOLVED)]
)
def test_both_files_say_all_of_it(evidence, sentences):
    message = render(evidence)
    text, html = " ".join(text_of(message).split()), Reader(html_of(message)).text

    for sentence in sentences:
        assert sentence in text
        assert sentence in html


def test_no_markup_shows_as_text():
    seen = Reader(html_of(render(new_evidence())))

    assert "Paste into partition-health sql :" in seen.text
    assert "</" not in seen.text
    assert "code" in seen.tags


ANSWERS_WHEN_NEW = [
    "Broker 1 carries 55.0 % of the bytes, 33.3 % would be fair (1.65x, limit 1.20x)",
    "Since 2026-11-21 09:04 UTC (3 minutes), in 3 of the last 4 windows",
    "Why partition skew, most in topic orders",
    "Effect producers wait 23 ms for it, 2.1 ms for the others",
    "Do first set linger.ms=5 on producers of orders",
    "Predicted share then 35.0 % [34.0, 37.0], enough to resolve it",
    "Basis The replay says so.",
    "Details details.html, attached",
]
ANSWERS_WHEN_RESOLVED = [
    "Broker 1 recovered: 34.0 % of the bytes, 33.3 % would be fair (1.02x)",
    "Over since 2026-11-21 09:11 UTC",
    "Began 2026-11-21 09:04 UTC (7 minutes)",
    "At most 1.65x, limit 1.20x",
    "Do nothing",
]
LINES_OF_A_SCREEN = 16


@pytest.mark.parametrize(
    ("evidence", "answers"),
    [
        (new_evidence(recommendations=(new_recommendation(),)), ANSWERS_WHEN_NEW),
        (resolved_evidence(), ANSWERS_WHEN_RESOLVED),
    ],
)
def test_the_body_answers_what_since_when_why_and_what_to_do_on_one_screen(evidence, answers):
    message = render(evidence)
    shown, _, small_print = brief_of(message).partition("\n-- \n")
    assert len(shown.splitlines()) <= LINES_OF_A_SCREEN
    text, html = " ".join(shown.split()), Reader(brief_of(message, "html")).text
    for parts in (text, html):
        places = [parts.index(answer) for answer in answers]
        assert places == sorted(places)
    assert "Owner: platform team." in small_print
    assert max(map(len, shown.splitlines())) <= 76


def test_without_an_action_the_cause_says_where_to_look():
    said = "Do first look at keys, partitioner and batching of the producers (no action was found"
    assert said in " ".join(brief_of(render(new_evidence())).split())
    assert "Do first" not in brief_of(render(new_evidence(causes=None)))


BASES = {
    "what the figure above it says": ("The replay puts the highest broker at 1.07x. 9% of its keys would move.", "9% of its keys would move."),
    "what the effect says": ("Producers wait 20 ms for broker 1, 2 ms for the others. It is slow since then.", "It is slow since then."),
    "what has no room": (f"Its disk. {'A long tale ' * 9}. It ends.", "Its disk."),
    "a name with a dot": ("Topic orders.v2 takes it all.", "Topic orders.v2 takes it all."),
}  # fmt: skip


@pytest.mark.parametrize(("text", "basis"), BASES.values(), ids=BASES)
def test_the_basis_leaves_out(text, basis):
    """Details have all of it."""
    evidence = new_evidence(recommendations=(new_recommendation(text=text),))
    assert dict(describe_brief(evidence).facts)["Basis"] == basis
    assert text.split(".")[0] in " ".join(text_of(render(evidence)).split())


def test_a_plan_says_what_it_copies_and_another_action_what_to_do_else():
    plan = new_recommendation(election_json="{}", action="move_leaders")
    other = new_recommendation(rank=2, title="upgrade", is_enough=False)
    facts = dict(describe_brief(new_evidence(recommendations=(plan, other))).facts)
    assert facts["Predicted"].endswith("enough to resolve it; copies nothing")
    assert facts["Do else"] == "upgrade (then 35.0 %, not enough alone)"
    moved = new_recommendation(moved_bytes=39_500_000)
    assert dict(describe_brief(new_evidence(recommendations=(moved,))).facts)["Predicted"].endswith("; copies 39.5 MB")


def test_what_happened_in_the_window_stands_before_what_to_do():
    event = "broker 2 was out of the cluster for 30 s"
    text = " ".join(brief_of(render(new_evidence(events=(event, "another")))).split())
    assert text.index(f"Happened {event}") < text.index("Do first")
    assert event in text_of(render(new_evidence(events=(event, "another"))))


def test_the_text_part_can_be_read_alone():
    text = text_of(render(new_evidence()))

    assert "> 1 55.0 % 33.3 % 1.65x 1.10 kB ████████████████████████" in " ".join(text.split())
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "<" not in text.replace("window_start <", "")


def test_a_table_too_wide_for_the_text_wraps_its_widest_words_only():
    table = MailTable(
        columns=(MailColumn("", is_number=True), MailColumn("action"), MailColumn("share", is_number=True)),
        rows=(("1.", "upgrade the producers of orders to a newer client", "35.5 %"), ("2.", "t" * 30, "9 %")),
        marked=frozenset({0}),
    )
    assert render_table(table, width=44).splitlines() == [
        "      action                           share",
        "> 1.  upgrade the producers of        35.5 %",
        "      orders to a newer client",
        "  2.  tttttttttttttttttttttttttttttt     9 %",
    ]


def test_topics_come_by_excess_and_the_tail_in_one_row():
    loads = LOADS | {(f"t{number}", 2): 30 for number in range(9)}
    content = describe_broker_share(new_evidence(topics=excess_by_topic(loads, broker_id=1, expected_share=1 / 3)))
    table = next(s.table for s in content.sections if s.title == "Topics that carry the excess")

    assert [row[0] for row in table.rows] == ["orders", "t0", "t1", "t2", "t3", "t4", "5 other topics"]
    assert sum(float(row[4].replace("\N{MINUS SIGN}", "-")) for row in table.rows) == pytest.approx(
        100 * (1100 / 2270 - 1 / 3), abs=0.35
    )


@pytest.mark.parametrize(
    ("terms", "marked", "said"),
    [
        ((0.01, -0.01, 0.2), 2, "Most of it is partition skew: its partitions get more than their topics' mean"),
        ((0.2, -0.01, 0.01), 0, "Most of it is leaders: it leads more partitions than its part"),
        ((-0.2, 0.4, 0.0), 1, "Most of it is topic mix: it leads partitions of busier topics"),
    ],
)
def test_the_largest_cause_is_marked_with_what_it_means(terms, marked, said):
    causes = ShareCauses(leaders_term=terms[0], topic_mix_term=terms[1], partition_skew_term=terms[2])
    content = describe_broker_share(new_evidence(causes=causes))
    section = next(section for section in content.sections if section.title == "Why it is hot")

    assert section.table.marked == {marked}
    assert said in section.text[0]
    assert "The +20.0 points above its fair share split exactly" in section.text[0]


@pytest.mark.parametrize(
    ("average_ms", "ratio", "said"),
    [
        (2.2, 1.05, "2.1 ms for the other brokers: producers do not wait longer for it than for its peers"),
        (5.0, 2.0, "2.00x the 2.5 ms"),
    ],
)
def test_latency_is_told_beside_peers(average_ms, ratio, said):
    latency = replace(new_evidence().latency, request_latency_avg_ms=average_ms, ratio_to_peers=ratio)

    assert said in " ".join(text_of(render(new_evidence(latency=latency))).split())


def test_room_left_disk_and_completeness_are_told_where_they_are_known():
    known = new_evidence(
        peak_ratio=2.1,
        idle_ratio=0.43,
        hours_to_full=31.4,
        source_statuses=(
            source_arrival("log_directories", arrived=3, expected=3),
            source_arrival("producer_metrics", arrived=40, expected=1_440),
        ),
    )
    text = " ".join(text_of(render(known)).split())
    assert "In its busiest moments it took 2.10x its fair part of the mean load." in text
    assert "Its request handlers were idle 43 % of the time." in text
    assert "At the pace of the last windows its disk is full in 31 h." in text
    assert "Not all that was expected arrived: log_directories 3 of 3, producer_metrics 40 of 1,440." in text
    whole = render(replace(known, source_statuses=known.source_statuses[:1]))
    assert "Everything that was expected arrived: log_directories 3 of 3." in " ".join(text_of(whole).split())
    over = " ".join(text_of(render(resolved_evidence(hours_to_full=31.4))).split())
    assert "Head-room" not in over
    assert "31 h" not in over


def test_the_first_action_is_in_the_first_sentences_and_its_shares_beside_those_of_now():
    content = describe_broker_share(new_evidence(recommendations=(new_recommendation(),)))
    said = "First thing to do: set linger.ms=5 on producers of orders (share then 35.0 % [34.0, 37.0])."
    assert content.headline.endswith(said)
    table = next(section.table for section in content.sections if section.title.startswith("Brokers, "))
    after = [column.title for column in table.columns].index("after 1.")
    assert [row[after] for row in table.rows] == ["35.0 %", "33.3 %", ""]
    resolved = describe_broker_share(resolved_evidence(recommendations=(new_recommendation(),)))
    assert "after 1." not in {column.title for s in resolved.sections if s.table for column in s.table.columns}


def test_what_is_not_known_is_not_told():
    bare = new_evidence(latency=None, causes=None, topics=(), partitions=(), chance_ratio=None, owner="")
    text = text_of(render(bare))

    assert "Producers waited" not in text
    assert "idle" not in text
    assert "disk" not in text
    assert "busiest" not in text
    assert "expected arrived" not in text
    assert "WHY IT IS HOT" not in text
    assert "Chance alone" not in text
    assert "Owner" not in text
    assert "None" not in text


def test_what_to_do_counts_from_one_without_a_gap():
    """The second and third move nothing and are enough: they were left out, and 4. came after 1."""
    actions = tuple(
        new_recommendation(rank=rank, moved_bytes=1_000 if rank == 4 else 0, is_enough=rank < 4) for rank in range(1, 5)
    )
    content = describe_broker_share(new_evidence(recommendations=actions))
    section = next(section for section in content.sections if section.title == "What to do")
    assert [text[:3] for text in section.text] == ["1. ", "2. ", "3. "]
    assert [row[0] for row in section.table.rows] == ["1.", "2.", "3.", "4."]


def test_commands_name_the_configuration_the_incident_was_found_with(tmp_path):
    path = tmp_path / "our clusters.yaml"
    path.write_text("{warehouse: w, outbox: o, clusters: {a: {sources: [{kind: log_directories, paths: [b]}]}}}")
    evidence = new_evidence(command=load_config(path).command)
    content = describe_broker_share(evidence)
    said = {section.title: section for section in content.sections}
    assert said["Do it again"].code == f"partition-health run --config '{path}' --window {evidence.span}"
    assert f"`partition-health sql --config '{path}'`" in said["See the rows"].text[0]
    assert f"partition-health mute --config '{path}' K-" in " ".join(content.footer)


def test_a_mail_names_the_report_of_its_window():
    address = "https://reports.example.org/demo-2026-11-21T09-43Z.html"
    content = describe_broker_share(new_evidence(report=address))
    for is_brief in (True, False):
        named = f"report {address}" if is_brief else f"All of this window, drawn: {address}"
        assert named in " ".join(render_text(content, is_brief=is_brief).split())
        assert address in render_html(
            content, dict.fromkeys(("broker_shares", "shares_over_windows"), "x"), is_brief=is_brief
        )
        bare = render_text(describe_broker_share(new_evidence()), is_brief=is_brief)
        assert "drawn:" not in bare
        assert "report " not in bare

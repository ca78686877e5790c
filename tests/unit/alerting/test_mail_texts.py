"""What a mail says, in its body and in the files attached. Oracle: plain reading, and an HTML parser."""

import re
from dataclasses import replace

import pytest

from pipeline.alerting.incident_mail import describe_broker_share
from pipeline.alerting.message import MailColumn, MailTable, render_table
from pipeline.config_file import load_config
from pipeline.evidence.brief import describe_brief
from pipeline.evidence.incident import ShareCauses
from tests.unit.alerting.examples import broker_load, latency, new_evidence, new_recommendation, resolved_evidence
from tests.unit.alerting.rendered_mail import Reader, html_of, render, text_of

ANSWERS_WHEN_NEW = [
    "Broker 1 carries 55.0 % of the bytes, 33.3 % would be fair (1.65x, limit 1.20x)",
    "Since 2026-11-21 09:04 UTC (3 minutes), in 3 of the last 4 windows",
    "Why its partitions get more than others of their topics, most in topic orders",
    "Effect producers wait 23 ms for it, 2.1 ms for the others",
    "Do first set linger.ms=5 on producers of orders",
    "Predicted share then 35.0 % [34.0, 37.0], enough to resolve it",
    "Basis The replay says so.",
]
ANSWERS_WHEN_RESOLVED = [
    "Broker 1 recovered: 34.0 % of the bytes, 33.3 % would be fair (1.02x)",
    "Over since 2026-11-21 09:11 UTC",
    "Began 2026-11-21 09:04 UTC (7 minutes)",
    "Peak 1.65x, limit 1.20x",
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
    shown, _, small_print = text_of(message).partition("\n-- \n")
    assert len(shown.partition("\n\nBROKERS, ")[0].splitlines()) <= LINES_OF_A_SCREEN
    text, html = " ".join(shown.split()), Reader(html_of(message)).text
    for parts in (text, html):
        places = [parts.index(answer) for answer in answers]
        assert places == sorted(places)
    assert "Owner: platform team." in small_print
    assert max(map(len, shown.splitlines())) <= 76


def test_without_an_action_the_cause_says_where_to_look():
    said = "Do first look at keys, partitioner and batching of the producers (no action was found"
    assert said in " ".join(text_of(render(new_evidence())).split())
    assert "Do first" not in text_of(render(new_evidence(causes=None)))


BASES = {
    "what the figure above it says": ("The replay puts the highest broker at 1.07x. 9% of its keys would move.", "9% of its keys would move."),
    "what the effect says": ("Producers wait 20 ms for broker 1, 2 ms for the others. It is slow since then.", "It is slow since then."),
    "what has no room": (f"Its disk. {'A long tale ' * 9}. It ends.", "Its disk."),
    "a name with a dot": ("Topic orders.v2 takes it all.", "Topic orders.v2 takes it all."),
}  # fmt: skip


@pytest.mark.parametrize(("text", "basis"), BASES.values(), ids=BASES)
def test_the_basis_leaves_out(text, basis):
    """The report has all of it."""
    evidence = new_evidence(recommendations=(new_recommendation(text=text),))
    assert dict(describe_brief(evidence).facts)["Basis"] == basis


def test_a_plan_says_what_it_copies_and_another_action_what_to_do_else():
    plan = new_recommendation(election_json="{}", action="move_leaders")
    other = new_recommendation(rank=2, title="upgrade", is_enough=False)
    facts = dict(describe_brief(new_evidence(recommendations=(plan, other))).facts)
    assert facts["Predicted"].endswith("enough to resolve it; copies nothing")
    assert facts["Or"] == "upgrade (then 35.0 %, not enough alone)"


def test_commands_of_a_plan_that_is_not_the_first_advice_say_so():
    """A reader of the commands alone would else carry out what comes third."""
    plan, first = new_recommendation(election_json="{}", action="move_leaders"), new_recommendation(election_json=None)
    for rows, is_later in (((plan, first), False), ((first, plan), True)):
        text = " ".join(text_of(render(new_evidence(recommendations=rows))).split())
        assert ("This is not the first advice" in text) is is_later
        assert "Use the files that are attached" in text


def test_it_says_why_a_low_share_is_not_enough_and_where_nobody_waits():
    even = new_recommendation(is_enough=False, predicted_peak_ratio=1.31)
    facts = dict(describe_brief(new_evidence(recommendations=(even,), latency=latency(7.8, 0.11))).facts)
    assert facts["Predicted"] == "share then 35.0 % [34.0, 37.0], not enough: another broker is then at 1.31x"
    assert facts["Effect"] == "none yet: producers wait 7.8 ms for it, 71 ms for the others"
    moved = new_recommendation(moved_bytes=39_500_000)
    assert dict(describe_brief(new_evidence(recommendations=(moved,))).facts)["Predicted"].endswith("; copies 39.5 MB")


def test_what_happened_in_the_window_stands_before_what_to_do():
    event = "broker 2 was out of the cluster for 30 s"
    text = " ".join(text_of(render(new_evidence(events=(event, "another")))).split())
    assert text.index(f"Happened {event}") < text.index("Do first")


def test_the_text_part_can_be_read_alone():
    text = text_of(render(new_evidence(recommendations=(new_recommendation(),))))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "share fair share limit after action 1" in lines
    assert "> broker 1 55.0 % 33.3 % 40.0 % 35.0 %" in lines
    assert "broker 2 22.5 % 33.3 % 40.0 % 33.3 %" in lines
    assert "broker 3 22.5 % 33.3 % 40.0 %" in lines
    assert max(len(line) for line in text.splitlines() if "partition-health" not in line) <= 80
    assert "<" not in text


def bars_of(evidence):
    """Colour and width of each bar of a mail, in per cent of the longest."""
    html = html_of(render(evidence))
    found = re.findall(
        r'<table role="presentation" width="(\d+)%"[^>]*><tr><td style="height:16px;[^"]*background:(#\w+)', html
    )
    return [(colour, int(width)) for width, colour in found]


def test_bars_are_as_long_as_the_shares_and_only_a_failing_brokers_stands_out():
    (own, longest), *others = bars_of(new_evidence())
    assert longest == 100
    assert [width for _, width in others] == [41, 41]
    assert own not in {colour for colour, _ in others}
    assert len({colour for colour, _ in bars_of(resolved_evidence())}) == 1


@pytest.mark.parametrize(
    ("brokers", "widths"),
    [
        ([broker_load(1, 0.0)], [0]),
        ([broker_load(1, 1.0)], [100]),
        ([broker_load(1, 0.55), replace(broker_load(2, 0.0), share=None)], [100, 0]),
    ],
    ids=["no traffic", "one", "a share that is not known"],
)
def test_odd_brokers_have_bars(brokers, widths):
    assert [width for _, width in bars_of(new_evidence(brokers=tuple(brokers)))] == widths


def test_of_many_brokers_the_failing_one_and_the_highest_are_shown():
    loads = [replace(broker_load(number, 0.01 + number / 1000), share_ratio=0.5 + number / 20) for number in range(40)]
    (section, *_) = describe_broker_share(new_evidence(broker_id=3, brokers=tuple(loads))).sections
    assert [row[0] for row in section.table.rows] == [f"broker {number}" for number in (3, *range(29, 40))]
    assert section.table.note == "28 other brokers are below these."


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


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ((0.01, -0.01, 0.2), "Most of the excess is partition skew: its partitions get more than their topics' mean"),
        ((0.2, -0.01, 0.01), "Most of the excess is leaders: it leads more than its part of the partitions"),
        ((-0.2, 0.4, 0.0), "Most of the excess is topic mix: it leads partitions of busier topics"),
    ],
)
def test_the_largest_cause_is_told_with_what_it_means(terms, said):
    causes = ShareCauses(leaders_term=terms[0], topic_mix_term=terms[1], partition_skew_term=terms[2])
    assert said in " ".join(text_of(render(new_evidence(causes=causes))).split())


def test_other_channels_get_the_brief_as_a_paragraph():
    content = describe_broker_share(new_evidence(recommendations=(new_recommendation(),)))
    assert content.headline.startswith("demo: Broker 1 carries 55.0 % of the bytes")
    assert (
        "Do first: set linger.ms=5 on producers of orders. Predicted: share then 35.0 % [34.0, 37.0]"
        in content.headline
    )


def test_what_is_not_known_is_not_told():
    bare = new_evidence(latency=None, causes=None, topics=(), partitions=(), owner="")
    text = text_of(render(bare))
    for words in ("producers wait", "WHY IT IS HOT", "Why ", "Owner", "None", "report", "Once action"):
        assert words not in text


def test_small_print_says_when_it_ends_and_how_to_judge_again(tmp_path):
    path = tmp_path / "our clusters.yaml"
    path.write_text("{warehouse: w, outbox: o, clusters: {a: {sources: [{kind: log_directories, paths: [b]}]}}}")
    evidence = new_evidence(command=load_config(path).command)
    small_print = " ".join(describe_broker_share(evidence).footer)
    assert "It is resolved after 3 windows below 1.10x." in small_print
    assert f"partition-health run --config '{path}' --window {evidence.span}" in small_print
    assert f"partition-health mute --config '{path}' K-" in small_print


def test_a_mail_names_the_report_of_its_window():
    address = "https://reports.example.org/demo-2026-11-21T09-43Z.html"
    message = render(new_evidence(report=address))
    assert address in text_of(message)
    assert address in Reader(html_of(message)).text

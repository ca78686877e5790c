"""Why a broker is hot, in a mail: terms, partitions and keys, as the evidence has them."""

from dataclasses import replace

from pipeline.alerting.broker_share import describe_broker_share
from pipeline.alerting.causes import advise_cause, causes_section, keys_section, name_cause, partitions_section
from pipeline.alerting.evidence import HotKey, HotPartition, ShareCauses
from tests.unit.alerting.examples import new_evidence

SPLIT = ShareCauses(
    leaders_term=0.01,
    topic_mix_term=-0.01,
    partition_skew_term=0.2,
    heavy_keys_term=0.15,
    hash_luck_term=0.03,
    remainder_term=0.02,
)
PARTITION = HotPartition(
    topic="orders",
    partition=3,
    size_bytes=9_000,
    ratio_to_mean=3.0,
    heavy_keys_bytes=4_500.0,
    hash_luck_bytes=1_000.0,
    remainder_bytes=500.0,
)
KEY = HotKey(key="66e0567d", topic="orders", partition=3, size_bytes=5_000, topic_ratio=0.4, is_heavy=True)


def test_the_largest_part_of_the_skew_is_what_the_mail_explains():
    section = causes_section(replace(new_evidence(), causes=SPLIT))
    assert "Most of it is partition skew, of that heavy keys: single keys hold more" in section.text[0]
    assert [row[0] for row in section.table.rows] == [
        "leaders",
        "topic mix",
        "partition skew",
        "· heavy keys",
        "· hash luck",
        "· remainder",
    ]
    unsplit = replace(SPLIT, heavy_keys_term=None)
    section = causes_section(replace(new_evidence(), causes=unsplit))
    assert len(section.table.rows) == 3
    assert "look at keys, partitioner and batching" in section.text[0]


def test_partitions_are_split_by_what_makes_them_hot_where_that_is_known():
    table = partitions_section(replace(new_evidence(), partitions=(PARTITION,))).table
    assert table.rows == (("orders-3", "9.00 kB", "3.00x", "+4.50 kB", "+1.00 kB", "+500 B"),)
    older = replace(PARTITION, remainder_bytes=None)
    assert len(partitions_section(replace(new_evidence(), partitions=(PARTITION, older))).table.columns) == 3


def test_heavy_keys_are_told_by_pseudonym_and_only_where_one_is_heavy():
    evidence = replace(new_evidence(), hot_keys=(KEY, replace(KEY, key="dbc7b367", is_heavy=False)))
    table = keys_section(evidence).table
    assert table.rows[0] == ("66e0567d", "orders-3", "5.00 kB", "40.0 %")
    assert table.marked == {0}
    assert keys_section(replace(evidence, hot_keys=(replace(KEY, is_heavy=False),))) is None
    assert "Its heaviest keys" in [section.title for section in describe_broker_share(evidence).sections]


def test_the_partitioner_is_named_where_placing_is_what_matters():
    known = {"orders": "java-sticky-2.4"}
    batching = replace(SPLIT, heavy_keys_term=0.0, remainder_term=0.17)
    _, said = causes_section(replace(new_evidence(), causes=batching, partitioners=known)).text
    assert said.startswith("The producers of orders use the sticky partitioner of Kafka clients 2.4 to 3.2")
    assert len(causes_section(replace(new_evidence(), causes=SPLIT, partitioners=known)).text) == 1
    assert len(causes_section(replace(new_evidence(), causes=batching)).text) == 1


def test_rack_aware_producers_are_the_cause_where_no_key_is():
    batching = replace(SPLIT, heavy_keys_term=0.0, remainder_term=0.17)
    aware = replace(new_evidence(), partitioners={"orders": "java-builtin-rack-aware"})
    for causes in (batching, replace(batching, heavy_keys_term=None)):
        hot = replace(aware, causes=causes)
        assert name_cause(hot) == "partition skew, most in topic orders (rack-aware producers)"
        assert advise_cause(hot).startswith("give each rack leaders and capacity as it has producers, or set")
        said, partitioner = causes_section(hot).text
        assert (
            "Most of it is partition skew, of that rack-aware producers: its topic's producers keep to leaders" in said
        )
        assert partitioner.startswith("The producers of orders use the rack-aware partitioner of Kafka clients 4.4")
    assert name_cause(replace(aware, causes=SPLIT)).endswith("(heavy keys)")
    plain = replace(aware, causes=batching, partitioners={"orders": "java-builtin"})
    assert name_cause(plain).endswith("(neither heavy keys nor hash luck)")

"""Why a broker is hot, in a mail: terms, partitions and keys, as the evidence has them."""

from dataclasses import replace

from pipeline.evidence.brief import WITHDRAWN, describe_brief, explain_cause
from pipeline.evidence.incident import HotPartition, ShareCauses
from tests.unit.alerting.examples import new_evidence

SKEW = {"heavy_keys_term": 0.15, "hash_luck_term": 0.03, "remainder_term": 0.02}
SPLIT = ShareCauses(leaders_term=0.01, topic_mix_term=-0.01, partition_skew_term=0.2, **SKEW)
PARTITION = HotPartition(topic="orders", partition=3, size_bytes=9_000, hash_luck_bytes=1_000.0)


def answer_of(evidence, question):
    return dict(describe_brief(evidence).facts)[question]


def test_the_largest_part_of_the_skew_is_what_is_explained():
    (said,) = explain_cause(replace(new_evidence(), causes=SPLIT))
    assert said.startswith("Most of the excess is partition skew, and most of that is heavy keys: single keys")
    (said,) = explain_cause(replace(new_evidence(), causes=replace(SPLIT, heavy_keys_term=None)))
    assert "look at keys, partitioner and batching" in said
    assert explain_cause(replace(new_evidence(), causes=None)) == ()


def test_what_is_left_as_hash_luck_that_the_gate_excuses_is_called_so():
    evidence = new_evidence()
    lucky = tuple(replace(one, ratio_without_luck=1.0) for one in evidence.brokers)
    excused = evidence.gate.model_copy(update={"hash_luck": "warn"})
    over = replace(evidence, change=replace(evidence.change, state="withdrawn"))
    assert answer_of(over, "Over") == WITHDRAWN
    assert answer_of(replace(over, brokers=lucky), "Over") == WITHDRAWN
    said = answer_of(replace(over, brokers=lucky, gate=excused), "Over")
    assert said == "withdrawn: it is above the limit by hash luck alone, which gate.hash_luck excuses"


def test_the_partitioner_is_named_where_placing_is_what_matters():
    known = {"orders": "java-sticky-2.4"}
    batching = replace(SPLIT, heavy_keys_term=0.0, remainder_term=0.17)
    _, said = explain_cause(replace(new_evidence(), causes=batching, partitioners=known))
    assert said.startswith("The producers of orders use the sticky partitioner of Kafka clients 2.4 to 3.2")
    assert len(explain_cause(replace(new_evidence(), causes=SPLIT, partitioners=known))) == 1
    assert len(explain_cause(replace(new_evidence(), causes=batching))) == 1


def test_rack_aware_producers_are_the_cause_where_no_key_is():
    batching = replace(SPLIT, heavy_keys_term=0.0, remainder_term=0.17)
    aware = replace(new_evidence(), partitioners={"orders": "java-builtin-rack-aware"})
    for causes in (batching, replace(batching, heavy_keys_term=None)):
        hot = replace(aware, causes=causes)
        why = "rack-aware producers send to leaders in their own rack, most in topic orders"
        assert answer_of(hot, "Why") == why
        to_do = "give each rack leaders and capacity in proportion to its producers, or set"
        assert answer_of(replace(hot, recommendations=()), "Do first").startswith(to_do)
        said, partitioner = explain_cause(hot)
        assert "and most of that is rack-aware producers: the topic's producers send to leaders" in said
        assert partitioner.startswith("The producers of orders use the rack-aware partitioner of Kafka clients 4.4")
    crowded = replace(aware, causes=replace(batching, rack_aware_term=0.16), topics=("payments", "orders"))
    assert answer_of(crowded, "Why").endswith("most in topic orders")  # nobody sends payments by racks
    assert answer_of(replace(aware, causes=SPLIT), "Why").startswith("its partitions hold heavy keys")
    plain = replace(aware, causes=batching, partitioners={"orders": "java-builtin"})
    assert answer_of(plain, "Why") == "producers send more to its partitions, not because of keys, most in topic orders"

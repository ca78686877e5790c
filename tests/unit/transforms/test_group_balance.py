"""What a hot partition costs its consumer group. Figures are worked out by hand."""

from datetime import UTC, datetime, timedelta

import pytest

from pipeline.measures.assignors import hash_map_order
from pipeline.transforms.topic_health import measure_groups


class Counted(str):
    """A name that counts how often it is looked up or compared."""

    __slots__ = ()
    uses = 0

    def __hash__(self):
        Counted.uses += 1
        return str.__hash__(self)

    def __eq__(self, other):
        Counted.uses += 1
        return str.__eq__(self, other)


START = datetime(2026, 11, 23, 1, tzinfo=UTC)


def described(minute, topic, partition, lag, member, *, group="g"):
    start = START if minute >= 0 else START - timedelta(hours=1)
    return start, START + timedelta(minutes=minute), group, topic, partition, lag, member


def loaded(topic, *sizes):
    return [(topic, number, size) for number, size in enumerate(sizes)]


def test_a_hot_partition_bounds_what_more_members_give():
    """Partition 0 has 60 of 100 bytes: two members are worth having, whoever assigns them."""
    before = [described(-10, "a", 0, 100, "x"), described(-10, "a", 1, None, "x")]
    rows = [described(50, "a", number, 700 if number == 0 else 0, "x" if number < 2 else "y") for number in range(4)]
    (row,) = measure_groups(
        [*before, described(5, "a", 0, 0, "x"), *rows], loaded("a", 60, 20, 15, 5), START
    ).to_pylist()
    assert (row["partition_count"], row["member_count"], row["idle_member_count"]) == (4, 2, 0)
    assert (row["lag_count"], row["lag_growth"]) == (700, [("0", 600 / 3600)])
    assert (row["busiest_ratio"], row["useful_member_count"]) == (0.8, 2)
    assert dict(row["busiest_ratio_under"]) == {
        "range": 0.8, "roundrobin": 0.75, "sticky": 0.8, "cooperative-sticky": 0.8, "uniform": 0.8,
    }  # fmt: skip  # fields of a value, several a line


def test_partitions_that_do_not_exist_are_dealt_out_to_nobody():
    """Of 0, 1 and 9 the first member gets two, as of any three partitions."""
    loads = [("a", number, 10) for number in (0, 1, 9)]
    rows = [described(0, "a", number, 0, member) for number, member in ((0, "x"), (1, "x"), (9, "y"))]
    (row,) = measure_groups(rows, loads, START).to_pylist()
    assert row["partition_count"] == 3
    assert dict(row["busiest_ratio_under"])["range"] == pytest.approx(2 / 3)


def test_assignors_differ_where_topics_are_many():
    """Range gives the first partition of both topics to x, as it is now; each has all of its topic's bytes."""
    rows = [described(0, topic, number, 0, "xyz"[number]) for topic in "ab" for number in range(2)]
    rows.append(described(0, "c", 0, 0, "z"))
    found = measure_groups(rows, [*loaded("a", 9, 1), *loaded("b", 9, 1), *loaded("c", 1)], START).to_pylist()
    assert [(row["topic"], row["member_count"], row["idle_member_count"]) for row in found] == [
        ("a", 2, 1),
        ("b", 2, 1),
        ("c", 1, 2),
    ]
    assert [row["busiest_ratio"] for row in found] == [0.9, 0.9, 1.0]
    assert [row["useful_member_count"] for row in found] == [2, 2, 1]


def test_a_topic_that_a_group_reads_no_longer_is_dealt_out_to_nobody():
    """Its offsets stay for a week: by them each assignor seemed to make an even group uneven, or the other way round."""
    rows = [described(0, "a", 0, 0, "x"), described(0, "a", 1, 0, "y"), described(0, "old", 0, 9, None)]
    reads, old = measure_groups(rows, [*loaded("a", 5, 5), *loaded("old", 90)], START).to_pylist()
    assert reads["group_busiest_to_mean"] == 1.0
    assert {ratio for _, ratio in reads["group_busiest_to_mean_under"]} == {1.0}
    assert (old["member_count"], old["busiest_ratio"], old["busiest_ratio_under"]) == (0, None, [])
    assert (old["lag_count"], old["partition_count"]) == (9, 1)


@pytest.mark.parametrize("members_per_topic", [0, 0.5], ids=["nobody reads", "every other topic has a member"])
def test_work_grows_as_the_topics_do(members_per_topic):
    def count_uses(topic_count):
        topics, members = [Counted(f"t{n}") for n in range(topic_count)], int(topic_count * members_per_topic)
        owners = [f"m{n % members}" if members else None for n in range(topic_count)]
        before, now = (
            [described(minute, topic, 0, 1, owner) for topic, owner in zip(topics, owners, strict=True)]
            for minute in (-10, 50)
        )
        loads = [each for topic in topics for each in loaded(topic, 9)]
        Counted.uses = 0
        assert measure_groups([*before, *now], loads, START).num_rows == topic_count
        return Counted.uses

    assert count_uses(400) < 2.5 * count_uses(200)


@pytest.mark.parametrize(
    ("rows", "loads", "expected"),
    [
        ([], loaded("a", 1), []),
        ([described(-5, "a", 0, 1, "x")], loaded("a", 1), []),
        ([described(5, "a", 0, None, None)], loaded("a", 1), [(0, None, [], None, [], 1)]),
        ([described(5, "a", 0, 3, "x")], [], [(1, 3, [], None, [], None)]),
        ([described(5, "a", 0, 3, "x")], loaded("a", 0), [(1, 3, [], None, [], None)]),
    ],
    ids=["no group", "described before only", "no member", "topic without bytes known", "no traffic"],
)
def test_what_is_not_known_stays_open(rows, loads, expected):
    names = ("member_count", "lag_count", "lag_growth", "busiest_ratio", "busiest_ratio_under", "useful_member_count")
    found = measure_groups(rows, loads, START).to_pylist()
    assert [tuple(row[name] for name in names) for row in found] == expected


@pytest.mark.parametrize("sign", [-1, 1])
def test_offsets_that_a_member_made_up_end_no_run(sign):
    """Kafka takes any offset that a group commits: the sum over two partitions would be no integer of 64 bits."""
    rows = [described(5, "a", number, sign * (2**63 - 1), "x") for number in range(3)]
    (row,) = measure_groups(rows, loaded("a", 1, 1, 1), START).to_pylist()
    assert row["lag_count"] == sign * 2**62


def test_groups_that_a_broker_makes_up_are_not_assigned_anew_without_end(monkeypatch):
    monkeypatch.setattr("pipeline.transforms.topic_health.MOST_DEALT", 30, raising=False)
    rows = [described(5, "a", number, 1, f"m{number}", group=f"g{n}") for n in range(9) for number in (0, 1)]
    found = measure_groups(rows, loaded("a", *range(10)), START).to_pylist()
    assert [bool(row["busiest_ratio_under"]) for row in found] == [True] * 3 + [False] * 6
    assert all(row["busiest_ratio"] for row in found)


def test_a_group_now_and_under_the_assignors():
    """Of all its topics x has 50 of 60 bytes, y 10, z none; dealt out in turn, z gets the 40 of b."""
    rows = [described(0, "a", 0, 0, "x"), described(0, "b", 0, 0, "x"), described(0, "a", 1, 0, "y")]
    rows.append(described(0, "c", 0, 0, "z"))
    found = measure_groups(rows, [*loaded("a", 10, 10), *loaded("b", 40), *loaded("c", 0)], START).to_pylist()
    assert [row["group_busiest_to_mean"] for row in found] == pytest.approx([2.5] * 3)
    as_now = dict.fromkeys(("range", "sticky", "cooperative-sticky", "uniform"), 2.5)
    assert dict(found[0]["group_busiest_to_mean_under"]) == pytest.approx({"roundrobin": 2.0, **as_now})


def test_members_in_the_order_of_javas_map():
    assert hash_map_order(["a", "b", "q"]) == ["a", "q", "b"]  # 97, 98 and 113 of 16 buckets

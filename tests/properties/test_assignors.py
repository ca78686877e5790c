"""Laws of Kafka's consumer assignors; `tests/kafka/test_assignors.py` asks Kafka's own classes."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.measures.assignors import ASSIGNORS, assign_consumers


@st.composite
def groups(draw):
    """Topics with the numbers of their partitions, and what each member owns: any part of all, by any members."""
    numbers = st.lists(st.integers(0, 200_000), min_size=1, max_size=9, unique=True).map(sorted)
    topics = draw(st.dictionaries(st.sampled_from(["orders", "bills", "clicks"]), numbers, min_size=1))
    members = draw(st.lists(st.text("abcxyz019-", min_size=1, max_size=8), min_size=1, max_size=14, unique=True))
    owned = {member: [] for member in members}
    for partition in list_partitions(topics):
        owner = draw(st.sampled_from([None, *members]))
        if owner is not None:
            owned[owner].append(partition)
    return topics, owned


def list_partitions(topics):
    return [(topic, number) for topic, numbers in sorted(topics.items()) for number in numbers]


@pytest.mark.parametrize("assignor", ASSIGNORS)
@given(group=groups())
def test_every_partition_has_one_reader(assignor, group):
    topics, owned = group
    found = assign_consumers(assignor, topics, owned, owned)
    assert set(found) == set(owned)
    assert sorted(chain.from_iterable(found.values())) == list_partitions(topics)


@pytest.mark.parametrize("assignor", ["roundrobin", "sticky"])
@given(group=groups())
def test_members_read_as_many_as_each_other_or_one_more(assignor, group):
    topics, owned = group
    sizes = [len(parts) for parts in assign_consumers(assignor, topics, owned, owned).values()]
    assert max(sizes) - min(sizes) <= 1


@given(group=groups())
def test_ranges_are_neighbours_and_the_first_members_get_one_more(group):
    topics, owned = group
    found = assign_consumers("range", topics, owned)
    for topic, numbers in topics.items():
        dealt = [[number for name, number in found[member] if name == topic] for member in sorted(owned)]
        assert list(chain.from_iterable(dealt)) == numbers
        assert [len(part) for part in dealt] == sorted((len(part) for part in dealt), reverse=True)
        assert len(dealt[0]) - len(dealt[-1]) <= 1


@given(group=groups())
def test_sticky_assignment_moves_no_more_than_it_must(group):
    """A member keeps what it owns up to its quota; some have a quota of one more, and those that can use it get it."""
    topics, owned = group
    quota, larger_count = divmod(len(list_partitions(topics)), len(owned))
    needy_count = sum(len(parts) > quota for parts in owned.values())
    most_kept = sum(min(len(parts), quota) for parts in owned.values()) + min(needy_count, larger_count)

    found = assign_consumers("sticky", topics, owned, owned)
    assert sum(len(set(found[member]) & set(parts)) for member, parts in owned.items()) == most_kept


@given(group=groups())
def test_a_second_sticky_assignment_changes_nothing(group):
    topics, owned = group
    once = assign_consumers("sticky", topics, owned, owned)
    twice = assign_consumers("sticky", topics, owned, once)
    assert {m: sorted(parts) for m, parts in twice.items()} == {m: sorted(parts) for m, parts in once.items()}

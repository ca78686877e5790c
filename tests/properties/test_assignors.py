"""Laws of Kafka's consumer assignors; `tests/kafka/test_assignors.py` asks Kafka's own classes."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.measures.assignors import ASSIGNORS, assign_consumers


@st.composite
def groups(draw):
    """Topics with their partition counts, and what each member owns: any part of all, by any members."""
    counts = draw(st.dictionaries(st.sampled_from(["orders", "bills", "clicks"]), st.integers(1, 9), min_size=1))
    members = draw(st.lists(st.text("abcxyz019-", min_size=1, max_size=8), min_size=1, max_size=14, unique=True))
    owned = {member: [] for member in members}
    for partition in list_partitions(counts):
        owner = draw(st.sampled_from([None, *members]))
        if owner is not None:
            owned[owner].append(partition)
    return counts, owned


def list_partitions(counts):
    return [(topic, number) for topic, count in sorted(counts.items()) for number in range(count)]


@pytest.mark.parametrize("assignor", ASSIGNORS)
@given(group=groups())
def test_every_partition_has_one_reader(assignor, group):
    counts, owned = group
    found = assign_consumers(assignor, counts, owned, owned)
    assert set(found) == set(owned)
    assert sorted(chain.from_iterable(found.values())) == list_partitions(counts)


@pytest.mark.parametrize("assignor", ["roundrobin", "sticky"])
@given(group=groups())
def test_members_read_as_many_as_each_other_or_one_more(assignor, group):
    counts, owned = group
    sizes = [len(parts) for parts in assign_consumers(assignor, counts, owned, owned).values()]
    assert max(sizes) - min(sizes) <= 1


@given(group=groups())
def test_ranges_are_neighbours_and_the_first_members_get_one_more(group):
    counts, owned = group
    found = assign_consumers("range", counts, owned)
    for topic, count in counts.items():
        dealt = [[number for name, number in found[member] if name == topic] for member in sorted(owned)]
        assert list(chain.from_iterable(dealt)) == list(range(count))
        assert [len(numbers) for numbers in dealt] == sorted((len(numbers) for numbers in dealt), reverse=True)
        assert len(dealt[0]) - len(dealt[-1]) <= 1


@given(group=groups())
def test_sticky_assignment_moves_no_more_than_it_must(group):
    """A member keeps what it owns up to its quota; some have a quota of one more, and those that can use it get it."""
    counts, owned = group
    quota, larger_count = divmod(sum(counts.values()), len(owned))
    needy_count = sum(len(parts) > quota for parts in owned.values())
    most_kept = sum(min(len(parts), quota) for parts in owned.values()) + min(needy_count, larger_count)

    found = assign_consumers("sticky", counts, owned, owned)
    assert sum(len(set(found[member]) & set(parts)) for member, parts in owned.items()) == most_kept


@given(group=groups())
def test_a_second_sticky_assignment_changes_nothing(group):
    counts, owned = group
    once = assign_consumers("sticky", counts, owned, owned)
    twice = assign_consumers("sticky", counts, owned, once)
    assert {m: sorted(parts) for m, parts in twice.items()} == {m: sorted(parts) for m, parts in once.items()}

"""Strategies over stored hashes; oracle: `choose_partition` over the keys themselves."""

import random

import pytest

from pipeline.errors import ConfigError, InputError
from pipeline.partitioners.registry import (
    HASH_COLUMNS,
    STRATEGIES,
    choose_for_no_key,
    is_replayable,
    key_function_of,
    list_families,
)
from pipeline.partitioners.strategy import KeyRule, choose_partition


def test_every_strategy_is_in_one_family_or_refused():
    named = [name for family in list_families() for name in family.strategies]
    assert len(named) == len(set(named))
    for name, strategy in STRATEGIES.items():
        assert (name in named) == is_replayable(strategy)
        if name not in named:
            with pytest.raises(ConfigError, match=name):
                key_function_of(strategy)


def test_families_are_those_people_know():
    families = list_families()
    assert [family.name for family in families[:2]] == ["java-compatible", "librdkafka-consistent"]
    assert {family.function.hash_column for family in families} == set(HASH_COLUMNS.values())
    assert all(family.name.startswith(("java-", "librdkafka-")) or family.name in STRATEGIES for family in families)


@pytest.mark.parametrize("family", list_families(), ids=lambda family: family.name)
def test_members_of_a_family_agree_on_every_key_with_bytes_and_families_differ(family):
    rng = random.Random(5)
    keys = [rng.randbytes(rng.randrange(1, 30)) for _ in range(50)] + [f"key-{n}".encode() for n in range(50)]

    def choices(name):
        return [_choose(STRATEGIES[name], key) for key in keys]

    first = choices(family.strategies[0])
    assert all(choices(name) == first for name in family.strategies[1:])
    assert all(choices(other.strategies[0]) != first for other in list_families() if other != family)


def _choose(strategy, key):
    try:
        return choose_partition(strategy, key, 13)
    except InputError:
        return None


def test_a_missing_key_goes_to_one_partition_or_none():
    for strategy in STRATEGIES.values():
        if is_replayable(strategy):
            expected = None
            if strategy.null_key in {KeyRule.HASHED, KeyRule.FIRST}:
                expected = choose_partition(strategy, None, 13)
            assert choose_for_no_key(strategy, 13) == expected, strategy.name

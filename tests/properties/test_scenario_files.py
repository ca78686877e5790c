"""Scenario files with anything anywhere: understood, or refused with file and line; never anything else."""

import copy
import re

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import ConfigError
from pipeline.simulator.scenario.scenario_file import parse_scenario
from tests.unit.simulator.scenario.test_schema import EVERY_KEY

PLACE = re.compile(r"s\.yaml:\d+:\d+: \S")
DOCUMENT = yaml.safe_load(EVERY_KEY)


def list_paths(value, path=()):
    """Every place in the document, the root left out."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from list_paths(child, (*path, key))


PATHS = list(list_paths(DOCUMENT))
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(-2, 5), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(-2, 5), max_size=3),
    st.dictionaries(st.sampled_from([0, 0.5, 1, "exponential"]), st.floats(), max_size=3),
)


def find_lines_without_a_place(text):
    """What of the refusal says no file and line; nothing if the text is understood."""
    try:
        parse_scenario(text, "s.yaml")
    except ConfigError as error:
        return [line for line in str(error).splitlines() if not PLACE.match(line)]
    return []


@settings(max_examples=150)
@given(st.sampled_from(PATHS), JUNK, st.booleans())
def test_anything_anywhere(path, junk, is_removed):
    document = copy.deepcopy(DOCUMENT)
    parent = document
    for key in path[:-1]:
        parent = parent[key]
    if is_removed:
        del parent[path[-1]]
    else:
        parent[path[-1]] = junk
    assert find_lines_without_a_place(yaml.safe_dump(document, allow_unicode=True)) == []


@settings(max_examples=100)
@given(st.integers(0, len(EVERY_KEY)), st.integers(0, 30), st.text(alphabet="{}[]:-&*<#'\"\n\t 0a", max_size=6))
def test_any_edit_of_the_text(start, length, inserted):
    assert find_lines_without_a_place(EVERY_KEY[:start] + inserted + EVERY_KEY[start + length :]) == []

"""YAML files against models: every refused value with file, line, column and key, what was found and what was expected."""

import os
import time
from datetime import UTC, datetime
from typing import Annotated, Literal

import pytest
from pydantic import Field, model_validator

from pipeline.config.section import Duration, Instant, NodeId, Section, WrongValuesError
from pipeline.config.yaml_file import parse_yaml, read_yaml
from pipeline.errors import ConfigError


class Cat(Section):
    kind: Literal["cat"]
    lives: int = Field(9, ge=1, le=9)


class Dog(Section):
    kind: Literal["dog"]
    name: str


class Zoo(Section):
    name: str
    opened: Instant | None = None
    tour: Duration | None = None
    is_open: bool = True
    animals: tuple[Annotated[Cat | Dog, Field(discriminator="kind")], ...] = ()
    prices: dict[NodeId, float] = Field(default_factory=dict)
    best: Dog | None = None

    @model_validator(mode="after")
    def _affordable(self) -> "Zoo":
        dear = [(("prices", age), "too dear") for age, price in self.prices.items() if price > 1000]
        if dear:
            raise WrongValuesError(*dear)
        return self


def refused(text):
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, "zoo.yaml").validate(Zoo)
    assert caught.value.exit_code == 2
    return str(caught.value).splitlines()


def test_scalars_are_what_their_key_says():
    text = "{name: 3.10, opened: 2026-12-01, tour: PT90M, is_open: no, prices: {6: 1e1, 7: 2}, best: ~}"
    zoo = parse_yaml(text, "zoo.yaml").validate(Zoo)
    assert (zoo.name, zoo.is_open, zoo.prices, zoo.best) == ("3.10", False, {6: 10.0, 7: 2.0}, None)
    assert zoo.opened == datetime(2026, 12, 1, tzinfo=UTC)
    assert zoo.tour.total_seconds() == 5400


def test_merge_keys_give_way_to_own_keys():
    text = "name: z\nanimals:\n- &cat {kind: cat, lives: 3}\n- {<<: *cat, lives: 4}\n- {lives: 5, <<: *cat}\n- *cat\n"
    assert [cat.lives for cat in parse_yaml(text, "zoo.yaml").validate(Zoo).animals] == [3, 4, 5, 3]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", ["zoo.yaml:1:1: found nothing; expected a mapping with name"]),
        ("# only this", ["zoo.yaml:1:1: found nothing; expected a mapping with name"]),
        ("- 1", ["zoo.yaml:1:1: found a list; expected a mapping with name"]),
        ("{}", ["zoo.yaml:1:1: key name is missing"]),
        ("name: {}", ["zoo.yaml:1:1: name: found nothing; expected a text"]),
        (
            "name: a\nnme: b",
            [
                "zoo.yaml:2:1: nme: unknown key; nearest: name; expected name, opened, tour, is_open, animals, prices, best"
            ],
        ),
        (
            "name: a\nwxyz: b",
            ["zoo.yaml:2:1: wxyz: unknown key; expected name, opened, tour, is_open, animals, prices, best"],
        ),
        ("name: a\nname: b", ["zoo.yaml:2:1: not YAML: key name twice; first in line 1"]),
        ("name: a\nbest: &x {name: *x}", ["zoo.yaml:2:7: not YAML: found unconstructable recursive node"]),
        ("name: a\n? [b]\n: c", ["zoo.yaml:2:3: not YAML: expected a text as key"]),
        ("name: a\n---\nname: b", ["zoo.yaml:2:1: not YAML: but found another document"]),
        ("name: a\n\tb", ["zoo.yaml:2:1: not YAML: found character '\\t' that cannot start any token"]),
        ("name: a\nb: \0", ["zoo.yaml:2:4: not YAML: special characters are not allowed"]),
        (
            "name: a\nanimals:\n- {kind: cow}\n- lives: 3\n- {kind: cat, lifes: 3}\n- {kind: cat, lives: 3.5}\n- {kind: dog}\n",
            [
                "zoo.yaml:3:4: animals[0].kind: found cow; expected 'cat', 'dog'",
                "zoo.yaml:4:3: animals[1]: key kind is missing",
                "zoo.yaml:5:15: animals[2].lifes: unknown key; nearest: lives; expected kind, lives",
                "zoo.yaml:6:15: animals[3].lives: found 3.5; expected a whole number",
                "zoo.yaml:7:3: animals[4]: key name is missing",
            ],
        ),
        (
            "name: a\nopened: soon\ntour: 5 min\nis_open: perhaps\nprices: {6: 1e9, x: 1, 7: y}\nbest: 3\n",
            [
                "zoo.yaml:2:1: opened: 'soon' is not an instant; write one as 2026-11-21T09:00:00Z",
                "zoo.yaml:3:1: tour: '5 min' is not a duration; write one as PT1H, PT15M or P1D",
                "zoo.yaml:4:1: is_open: found perhaps; expected true or false",
                "zoo.yaml:5:18: prices.x: found x; expected a whole number",
                "zoo.yaml:5:24: prices.7: found y; expected a number",
                "zoo.yaml:6:1: best: found a text; expected a mapping with kind, name",
            ],
        ),
        (
            "name: a\nprices: {6: 1, 7: 2000, 8: 3000}",
            ["zoo.yaml:2:16: prices.7: too dear", "zoo.yaml:2:25: prices.8: too dear"],
        ),
        ("name: a\nbest: {<<: [1]}", ["zoo.yaml:2:13: not YAML: expected a mapping for merging, but found scalar"]),
    ],
)
def test_every_refused_value_has_its_place(text, lines):
    assert refused(text) == lines


def test_what_is_found_is_shown_short_and_on_one_line():
    [line] = refused(f'name: a\nis_open: "x\\ny{100 * "z"}"')
    assert line == f"zoo.yaml:2:1: is_open: found x\\ny{57 * 'z'}…; expected true or false"


def test_a_file_that_cannot_be_read(tmp_path):
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9")
    with (tmp_path / "giant.yaml").open("wb") as file:
        file.truncate((16 << 20) + 1)
    os.mkfifo(tmp_path / "fifo.yaml")
    for name in ("latin.yaml", "none.yaml", ".", "giant.yaml", "/dev/zero", "/dev/null", "fifo.yaml"):
        with pytest.raises(ConfigError, match="cannot be read"):
            read_yaml(tmp_path / name)


@pytest.mark.parametrize(
    "tag", ["!!python/object/apply:os.mkdir", "!!python/object/new:os.mkdir", "!!python/name:os.mkdir"]
)
def test_a_tag_runs_no_code(tag, tmp_path):
    made = tmp_path / "made"
    (line,) = refused(f"name: {tag} ['{made}']")
    assert line == "zoo.yaml:1:1: name: found a list; expected a text"  # what the tag says is not even looked at
    assert not made.exists()


@pytest.mark.parametrize("key", ["01", "'+1'", "' 1'", "1_0", "0x1", "1.0", "1e0", "'１'"])  # noqa: RUF001
def test_a_number_as_key_is_written_in_one_way(key):
    """`{1: 2, 01: 3}` was `{1: 3}`."""
    (line,) = refused(f"{{name: z, prices: {{1: 2, {key}: 3}}}}")
    assert "expected a whole number in plain digits" in line


def test_fifty_thousand_unknown_keys_take_no_minute():
    began_s = time.process_time()
    first, *others = refused("name: z\n" + "".join(f"key{number}: 1\n" for number in range(50_000)))
    assert first == "zoo.yaml:1:1: 50,000 values are wrong; the first 100 follow"
    assert len(others) == 100
    assert time.process_time() - began_s < 20

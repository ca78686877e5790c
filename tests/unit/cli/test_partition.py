"""`partition` by its output; oracle: the table of the clients at 12 partitions."""

import json

import pytest

from pipeline.cli import main
from pipeline.partitioners.registry import STRATEGIES


def run(*arguments, strategy):
    return main(["partition", *arguments, "--strategy", strategy, "--partitions", "12"])


def choose(capsys, *arguments, strategy="java-builtin"):
    assert run(*arguments, "--json", strategy=strategy) == 0
    return [tuple(row.values()) for row in json.loads(capsys.readouterr().out)]


def test_keys_as_text_hex_empty_and_null(capsys):
    found = choose(capsys, "kafka", "hex:6B61666b61", "", "20", "text:hex:61", "é", "--null")
    assert [(key_hex, partition) for key_hex, _, _, partition in found[:4]] == [
        ("6b61666b61", 4),
        ("6b61666b61", 4),
        ("", 9),
        ("3230", 10),
    ]
    assert [key_hex for key_hex, *_ in found[4:]] == ["6865783a3631", "c3a9", None]
    assert found[6] == (None, "java-builtin", 12, None)


@pytest.mark.parametrize("key", ["hex:2061", "hex:610962"])
def test_a_key_whose_text_would_not_show_all_of_it_is_shown_in_hex(capsys, key):
    """A space that it begins with, and a tab."""
    assert run(key, strategy="java-builtin") == 0
    assert capsys.readouterr().out.splitlines()[1].split()[0] == key


def test_field_names_of_json(capsys):
    assert main(["partition", "a", "--strategy", "sarama-hash", "--partitions", "12", "--json"]) == 0
    document = [{"key_hex": "61", "strategy": "sarama-hash", "partitions": 12, "partition": 0}]
    assert json.loads(capsys.readouterr().out) == document


def test_a_file_of_keys_in_hex(capsys, tmp_path):
    (tmp_path / "keys").write_text("6b61666b61\n\nFOO\n3230\n")
    assert run("--keys-file", str(tmp_path / "keys"), "--json", strategy="kafkajs") == 0
    out, err = capsys.readouterr()
    rows = [(row["key_hex"], row["partition"]) for row in json.loads(out)]
    assert rows == [("6b61666b61", 4), ("", 9), ("3230", 10)]
    assert "skipped" in err
    assert "at 3: not hex" in err


def test_many_keys_give_what_few_give(capsys, tmp_path):
    """Many go through the kernels, few through plain Python."""
    few = [b"", b"\xff", b"kafka", "é".encode()]
    (tmp_path / "keys").write_text("".join(f"{key.hex()}\n" for key in few) * 60)
    many = choose(capsys, "--keys-file", str(tmp_path / "keys"), "--null", strategy="all")
    assert set(many) == set(choose(capsys, *(f"hex:{key.hex()}" for key in few), "--null", strategy="all"))
    assert len(many) == 241 * len(STRATEGIES)


def test_comparison_groups_those_that_agree(capsys):
    assert run("kafka", strategy="all") == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line.split()[1] for line in lines if line.startswith("kafka ")]
    assert heads == ["-", "0", "1", "3", "4", "5", "6", "7", "11"]
    assert len(lines) == 1 + len(STRATEGIES)


def test_refused_keys_are_told_on_stderr(capsys):
    assert run("hex:ff", strategy="spring-cloud-stream") == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[1].split()[:3] == ["hex:ff", "spring-cloud-stream", "refused"]
    assert "byte 0 of the key is not UTF-8" in err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("a --strategy sarma-hash --partitions 12", 2, "near: sarama-hash"),
        ("a --strategy java-builtin --partitions 0", 2, "expected 1 to"),
        ("a --strategy java-builtin", 2, "--strategy and --partitions are needed"),
        ("--strategy java-builtin --partitions 3", 2, "no key"),
        ("hex:abc --strategy java-builtin --partitions 3", 2, "is not hex"),
        ("--keys-file /nowhere/at/all --strategy java-builtin --partitions 3", 2, "No such file"),
    ],
)
def test_what_cannot_be_used(capsys, arguments, code, said):
    assert main(["partition", *arguments.split()]) == code
    assert said in capsys.readouterr().err


def test_a_file_without_a_key_that_can_be_read(capsys, tmp_path):
    (tmp_path / "keys").write_text("x\n")
    assert main(["partition", *f"--keys-file {tmp_path}/keys --strategy kafkajs --partitions 3".split()]) == 3
    assert "no key in it" in capsys.readouterr().err


def test_the_list_of_strategies(capsys):
    assert main(["partition", "--strategies", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [row["strategy"] for row in listed] == list(STRATEGIES)
    assert main(["partition", "--strategies"]) == 0
    out = capsys.readouterr().out
    assert all(f"\n{name} " in out for name in STRATEGIES)

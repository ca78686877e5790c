"""User-defined strategies: what they answer, and what they are refused for; oracle: the functions below, by hand."""

import json

import pyarrow as pa
import pytest

from pipeline.cli import main
from pipeline.errors import ConfigError, InputError
from pipeline.partitioners.assignment import assign_partitions
from pipeline.partitioners.registry import check_determinism, find_strategy
from pipeline.partitioners.strategy import choose_partition

FUNCTIONS = """
import itertools
import numba

ASKED, TURNS = [], itertools.count()
not_a_function = 3

def by_business_key(key, partition_count):
    "The big customer has the last partition for itself."
    ASKED.append(key)
    return partition_count - 1 if key == b"audit" else sum(key) % (partition_count - 1)

def by_ip_range(key, partition_count, base=0):
    return base + int(key.split(b".")[0]) * partition_count // 256

@numba.njit
def compiled(key, partition_count):
    return len(key) % partition_count

def in_turn(key, partition_count): return next(TURNS) % partition_count
def by_value(key, value): return 0
def by_nothing(key): return 0
def out_of_range(key, partition_count): return partition_count
def negative(key, partition_count): return -1
def no_number(key, partition_count): return "1"
"""


@pytest.fixture(autouse=True)
def functions(tmp_path, monkeypatch):
    """The user's module, under a name of its own in every test."""
    name = "choices_" + tmp_path.name.replace("-", "_")
    (tmp_path / f"{name}.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    return name


@pytest.mark.parametrize(
    ("function", "key", "partition"),
    [
        ("by_business_key", b"audit", 11),
        ("by_business_key", b"\x01\x0c", 2),
        ("by_business_key", b"", 0),
        ("by_business_key", None, None),
        ("by_ip_range", b"10.0.0.1", 0),
        ("by_ip_range", b"192.168.0.1", 9),
        ("compiled", b"0123456789abcd", 2),
    ],
)
def test_answers(functions, function, key, partition):
    assert choose_partition(find_strategy(f"{functions}:{function}"), key, 12) == partition


def test_a_column_asks_once_per_key(functions):
    strategy = find_strategy(f"{functions}:by_business_key")
    keys = pa.array([b"audit", None, b"\x01", b"audit", b"\x01", b""])
    assert assign_partitions(strategy, keys, 12).tolist() == [11, -1, 1, 11, 1, 0]
    assert strategy.function.__globals__["ASKED"] == [b"audit", b"\x01", b""]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("by_value", "needs value; only the key and the partition count are recorded"),
        ("by_nothing", r"takes \(key\); expected a key and a partition count"),
        ("absent", "has no function absent"),
        ("not_a_function", "has no function not_a_function"),
        ("", "has no function"),
    ],
)
def test_functions_that_cannot_be_used(functions, function, said):
    with pytest.raises(ConfigError, match=said):
        find_strategy(f"{functions}:{function}")


@pytest.mark.parametrize("name", ["no_such_module:f", ":f"])
def test_modules_that_are_not_there(name):
    with pytest.raises(ConfigError, match="expected a module on PYTHONPATH"):
        find_strategy(name)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("out_of_range", "returned 12; expected a partition, 0 to 11"),
        ("negative", "returned -1; expected"),
        ("no_number", "returned '1'; expected"),
        ("in_turn", "returned 0, then 1 for one key"),
    ],
)
def test_answers_that_are_no_function_of_the_key(functions, function, said):
    with pytest.raises(InputError, match=said):
        check_determinism(find_strategy(f"{functions}:{function}"), [b"a"], 12)


def test_the_version_changes_with_the_file(functions, tmp_path):
    before = find_strategy(f"{functions}:by_ip_range").source
    assert find_strategy(f"{functions}:compiled").source.split()[-1] == before.split()[-1]
    (tmp_path / f"{functions}.py").write_text(FUNCTIONS + "#\n")
    assert find_strategy(f"{functions}:by_ip_range").source != before


def test_on_the_command_line(functions, capsys):
    options = ["--partitions", "12", "--json"]
    assert main(["partition", "audit", "--strategy", f"{functions}:by_business_key", *options]) == 0
    assert [row["partition"] for row in json.loads(capsys.readouterr().out)] == [11]
    assert main(["partition", "audit", "--strategy", f"{functions}:in_turn", *options]) == 3
    assert "for one key" in capsys.readouterr().err

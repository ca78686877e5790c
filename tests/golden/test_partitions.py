"""Every strategy against what the real client libraries answered; oracle: `oracles/dev.parquet` of the samples."""

import csv
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pipeline.partitioners.assignment import NO_PARTITION, assign_partitions
from pipeline.partitioners.hash_kernels import hash_keys
from pipeline.partitioners.hashes import HashName, Mask, to_signed
from pipeline.partitioners.registry import STRATEGIES, find_strategy
from pipeline.partitioners.strategy import KeyForm, choose_partition

NAMES = Path(__file__).with_name("oracle_strategies.tsv")
HASHES = {
    "String.hashCode": (HashName.JAVA_STRING, KeyForm.TEXT, to_signed),
    "Utils.murmur2": (HashName.MURMUR2, KeyForm.BYTES, to_signed),
    "murmur2(Buffer)": (HashName.MURMUR2, KeyForm.BYTES, to_signed),
    "murmur2(string)": (HashName.MURMUR2, KeyForm.BYTES, to_signed),
    "compatibilityPartitioner.raw": (HashName.MURMUR2, KeyForm.BYTES, Mask.SIGN_BIT.apply),
    "defaultPartitioner.raw": (HashName.MURMUR2, KeyForm.BYTES, Mask.NOTHING.apply),
    "Murmur3Hash32.makeHash(String)": (HashName.MURMUR3, KeyForm.TEXT, Mask.SIGN_BIT.apply),
    "Murmur3Hash32.makeHash(byte[])": (HashName.MURMUR3, KeyForm.BYTES, Mask.SIGN_BIT.apply),
    "JavaStringHash.makeHash(String)": (HashName.JAVA_STRING, KeyForm.TEXT, Mask.SIGN_BIT.apply),
}


def read_names() -> dict[tuple[str, str, str], str]:
    lines = [line for line in NAMES.read_text().splitlines() if not line.startswith("#")]
    rows = csv.DictReader(lines, delimiter="\t")
    return {(row["client"], row["version"], row["strategy"]): row["name"] for row in rows}


@pytest.fixture(scope="module")
def answers(samples):
    """Rows of the table by label: `(key_hex, partitions, partition)` columns."""
    table = pq.read_table(samples / "oracles/dev.parquet")
    labels = ["client", "version", "strategy"]
    found = {}
    for label in table.select(labels).group_by(labels).aggregate([]).to_pylist():
        rows = pc.and_(
            pc.and_(pc.equal(table["client"], label["client"]), pc.equal(table["version"], label["version"])),
            pc.equal(table["strategy"], label["strategy"]),
        )
        found[tuple(label.values())] = table.filter(rows)
    return found


def as_keys(key_hex) -> pa.Array:
    return pa.array([None if key is None else bytes.fromhex(key) for key in key_hex.to_pylist()], pa.binary())


def test_every_name_is_a_strategy():
    assert set(read_names().values()) <= set(STRATEGIES)


def test_no_label_is_unmapped(answers):
    assert set(answers) == set(read_names())
    assert len(answers) == 67


@pytest.mark.parametrize(("label", "name"), read_names().items(), ids="|".join)
def test_every_answer_of_a_client(answers, label, name):
    strategy = find_strategy(name)
    rows = answers[label]
    for count in pc.unique(rows["partitions"]).to_pylist():
        asked = rows.filter(pc.equal(rows["partitions"], count))
        keys = as_keys(asked["key_hex"])
        assert assign_partitions(strategy, keys, count).tolist() == asked["partition"].to_pylist(), count
        if count == 12:
            by_reference = [choose_partition(strategy, key, count) for key in keys.to_pylist()]
            marked = [NO_PARTITION if partition is None else partition for partition in by_reference]
            assert marked == asked["partition"].to_pylist()


def test_every_raw_hash(samples):
    """Oracle: `dev_hashes.parquet`, values as the libraries return them."""
    table = pq.read_table(samples / "oracles/dev_hashes.parquet")
    functions = pc.unique(table["function"]).to_pylist()
    # Pulsar's router never hashes bytes as a Java string: keyBytes travel as Base64 text
    assert set(functions) - set(HASHES) == {"JavaStringHash.makeHash(byte[])"}
    for function, (name, form, shown) in HASHES.items():
        rows = table.filter(pc.equal(table["function"], function))
        keys = as_keys(rows["key_hex"])
        assert all(form.prepare(key) == key for key in keys.to_pylist())
        values = [shown(value) for value in hash_keys(keys, name).values.tolist()]
        assert values == rows["value"].to_pylist(), function

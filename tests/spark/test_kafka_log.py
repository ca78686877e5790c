"""The data source `kafka_log` and the notebook about it, on both engines.

Oracle: batch headers read by `tests/lab/facts.py`, from the leaders' directories; the notebook's own figure.
"""

import json
import os
from collections import Counter
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from pyspark.sql import functions as F

from pipeline.sources.kafka_log import KafkaLog
from tests.engines import on_classic, on_sail
from tests.spark.test_record_batches import unpack_batches

NOTEBOOK = Path(__file__).parents[2] / "docs/kafka_log.ipynb"
TOPICS = ("audit", "ledger")
BROKEN = "regions-0"


@pytest.fixture(scope="module")
def logs(capture, tmp_path_factory):
    """Two topics of three brokers, and a segment of a third whose first batch is no batch."""
    part = capture.part(tmp_path_factory.mktemp("logs") / "capture", topics=(*TOPICS, BROKEN))
    for segment in (part.folder / "brokers").glob(f"*/{BROKEN}/*.log"):
        damaged = b"\x00" * 16 + segment.read_bytes()[16:]
        segment.unlink()
        segment.write_bytes(damaged)
        Path(os.fsdecode(os.fsencode(segment.parent) + b"/\xff\x1b[31m.log")).write_bytes(b"")
    return part.folder / "brokers"


@pytest.fixture(scope="module", params=["classic", "sail"])
def session(request):
    if request.param == "sail":
        with on_sail() as found:
            yield found
    else:
        with on_classic():
            yield request.getfixturevalue("classic_session")


@pytest.fixture
def read(session, logs):
    session.dataSource.register(KafkaLog)

    def read(**options):
        return session.read.format("kafka_log").options(**options).load(str(logs))

    return read


@pytest.fixture(scope="module")
def expected(capture_folder, manifest):
    """Bytes of each partition, from the leader's files."""
    found = Counter()
    for topic in TOPICS:
        for partition, (leader, *_) in enumerate(manifest["topics"][topic]):
            for log in (capture_folder / f"brokers/{leader}/{topic}-{partition}").glob("*.log"):
                for row in unpack_batches(log, topic, partition):
                    found[topic, partition] += row[3]
    return found


def test_batches_are_those_on_disk(read, expected):
    rows = (
        read().where(F.col("topic").isin(*TOPICS)).groupBy("topic", "partition").agg(F.sum("size_bytes").alias("bytes"))
    )
    found = {(row["topic"], row["partition"]): row["bytes"] for row in rows.toArrow().to_pylist()}
    assert found == expected


def test_segments_sum_up_to_their_batches(read):
    (batches,) = read().agg(F.sum("record_count").alias("n"), F.count("*").alias("b")).toArrow().to_pylist()
    segments = read(kind="segments").agg(F.sum("record_count").alias("n"), F.sum("batch_count").alias("b"))
    assert segments.toArrow().to_pylist() == [batches]


def test_what_cannot_be_read_is_a_problem_with_its_file_and_position(read):
    found = read(kind="problems").where(F.col("topic") == "regions").toArrow().to_pylist()
    assert found
    assert all(BROKEN in row["path"] and row["position"] == 0 and row["reason"] for row in found)


def test_a_name_that_hides_something_or_is_not_utf_8_is_a_problem_by_its_escaped_name(read):
    paths = [row["path"] for row in read(kind="problems").select("path").toArrow().to_pylist()]
    assert [path for path in paths if path.endswith(rf"{BROKEN}/\udcff\x1b[31m.log")]
    assert all(path.isprintable() for path in paths)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"kind": "records"}, "expected batches, segments, problems"), ({"window_ms": "an hour"}, "expected whole")],
)
def test_what_is_asked_wrongly_is_refused(read, options, said):
    with pytest.raises(Exception, match=said):  # each engine has a class of its own
        read(**options).count()


def test_the_notebook_draws_bytes_per_partition(session, logs, expected):
    mpl.use("Agg")
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    lines = [line for cell in cells for line in "".join(cell["source"]).splitlines() if line.strip()]
    assert len(lines) <= 10
    code = "\n".join(lines).replace('"/kafka-logs"', repr(str(logs)))
    names = {}
    exec(code.replace("SparkSession.builder.getOrCreate()", "session"), names | {"session": session}, names)
    drawn = sorted(bar.get_height() for bar in plt.gca().patches if bar.get_height() > 0)
    sums = sorted(float(bytes_) for bytes_ in expected.values())
    assert [height for height in drawn if height in sums] == sums
    plt.close("all")

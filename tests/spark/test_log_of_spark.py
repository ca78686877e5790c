"""What Spark logs. Oracle: the bytes on standard error of a process of its own."""

import os
import subprocess
import sys

PROGRAM = """
from pipeline.config.pipeline_config import Spark
from pipeline.storage.session import running_session

with running_session(Spark(master="local[1]")) as spark:
    try:
        spark.sql("SELECT CAST(concat(id, chr(27), '[31mX', chr(155)) AS INT) FROM range(1)").collect()
    except Exception as error:
        print(type(error).__name__)
"""


def test_no_value_of_a_table_acts_on_the_terminal_by_sparks_log():
    # a session of this process, which other tests may have, says by variables what children are to join
    alone = {name: value for name, value in os.environ.items() if "SPARK" not in name}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True, timeout=300, env=alone)
    said = done.stderr.decode()
    assert "0?[31mX?" in said
    assert said.count("CAST_INVALID_INPUT") >= 1
    assert not any((ord(char) < 32 and char not in "\n\t") or 0x7F <= ord(char) < 0xA0 for char in said)

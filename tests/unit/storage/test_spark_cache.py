"""The cache of code that Spark runs. Oracle: the folder's mode."""

import os

from pipeline.environment import make_spark_cache


def test_a_new_cache_of_code_is_for_one_user_whatever_the_umask(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTITION_HEALTH_CACHE", str(tmp_path / "cache"))
    before = os.umask(0)
    try:
        assert make_spark_cache().stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)

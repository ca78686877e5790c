"""The archive of classes: one for each Java, Spark and set of jars; used where it is there."""

from pathlib import Path

import pytest

from pipeline.storage.java import archive_path, use_archive
from pipeline.storage.session import _local_java_options


def test_another_java_or_jar_has_another_archive(tmp_path):
    seen = {
        archive_path(tmp_path, Path(java), jars) for java in ("/java-17", "/java-21") for jars in (["a"], ["b"], [])
    }
    assert len(seen) == 6
    assert archive_path(tmp_path, Path("/java-17"), ["a"]) in seen


def test_an_archive_is_used_where_it_is_there(tmp_path):
    path = tmp_path / "classes.jsa"
    assert use_archive(path) == ""
    path.touch()
    assert use_archive(path).split()[0] == f"-XX:SharedArchiveFile={path}"


@pytest.mark.parametrize(("theirs", "is_ours"), [("", True), ("-Xmn1g", True), ("-XX:+UseG1GC", False)])
def test_a_collector_of_the_configuration_stays_the_only_one(theirs, is_ours):
    assert any("UseSerialGC" in option for option in _local_java_options(theirs)) == is_ours

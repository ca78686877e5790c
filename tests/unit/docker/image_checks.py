"""Checks of the Dockerfile against the tree, the locks and the lab; each returns the problems it found, in words."""

from __future__ import annotations

import re
from fnmatch import fnmatch

from tests.lab.artifacts import BROKER_VERSION, EXPORTER
from tests.unit.docker.compose_checks import SECRET_NAME
from tests.unit.docker.setup_files import ROOT, SetupFiles


def check_copies(files: SetupFiles) -> list[str]:
    """What is copied from the checkout exists and is let into the build context; from stages, the stage exists."""
    ignore = [line for line in files.texts["docker/Dockerfile.dockerignore"].splitlines() if line.strip()]
    allowed = [line[1:] for line in ignore if line.startswith("!")]
    stages = [i.arguments.split()[-1] for i in files.instructions if i.name == "FROM" and " AS " in i.arguments]
    problems = []
    for instruction in files.instructions:
        if instruction.name not in {"COPY", "ADD"}:
            continue
        words = instruction.arguments.split()
        source_stage = [word.removeprefix("--from=") for word in words if word.startswith("--from=")]
        if source_stage:
            problems += [f"COPY from {s}, which is no stage" for s in source_stage if s not in stages]
            continue
        for source in [word for word in words if not word.startswith("--")][:-1]:
            if not (ROOT / source).exists():
                problems.append(f"COPY {source}: not in the repository")
            if not any(fnmatch(source, pattern) for pattern in allowed):
                problems.append(f"COPY {source}: kept out of the build context by Dockerfile.dockerignore")
    return problems


def check_user(files: SetupFiles) -> list[str]:
    """The container runs as a user with a number that is not root's, also after the last instruction."""
    last = max(i.stage for i in files.instructions)
    users = [i.arguments for i in files.instructions if i.stage == last and i.name == "USER"]
    if not users or not re.fullmatch(r"[1-9]\d*(:[1-9]\d*)?", users[-1]):
        return [f"the image runs as {users[-1:] or 'root'}: expected a number above 0"]
    return []


def check_bases(files: SetupFiles) -> list[str]:
    """Bases from a registry are pinned to a patch release."""
    names, problems = set(), []
    for instruction in files.instructions:
        if instruction.name != "FROM":
            continue
        base, *rest = instruction.arguments.split()
        if base not in names and not re.fullmatch(r"[a-z0-9/-]+:\d+\.\d+\.\d+[\w.-]*", base):
            problems.append(f"FROM {base} is not pinned to a patch release")
        names.update(rest[1:])
    return problems


def check_versions(files: SetupFiles) -> list[str]:
    """Python, Spark, Delta, Kafka, the metrics agent and the image's own tag agree with locks, project and lab."""
    locked = files.locked()
    python = next(i.arguments for i in files.instructions if i.name == "FROM").split(":")[1].rsplit(".", 1)[0]
    spark_line = ".".join(locked["pyspark"].split(".")[:2])
    pairs = [
        ("SPARK_LINE", files.build_argument("SPARK_LINE"), {spark_line}),
        ("DELTA_VERSION", files.build_argument("DELTA_VERSION"), {locked["delta-spark"]}),
        ("JMX_EXPORTER_VERSION", files.build_argument("JMX_EXPORTER_VERSION"), {EXPORTER.dependencies[0].rev}),
        ("Python in paths", set(re.findall(r"/python(3\.\d+)/", files.texts["docker/Dockerfile"])), {python}),
        ("apache/kafka", _tags(files, "apache/kafka"), {BROKER_VERSION}),
        ("partition-health", _tags(files, "partition-health"), {files.project["version"]}),
    ]
    problems = [
        f"{name} is {sorted(found)}, expected {sorted(wanted)}" for name, found, wanted in pairs if found != wanted
    ]
    bounds = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", files.project["requires-python"])
    if not int(bounds[1]) <= int(python.split(".")[1]) < int(bounds[2]):
        problems.append(f"Python {python} is outside the project's {bounds[0]}")
    return problems


def check_locks(files: SetupFiles) -> list[str]:
    """Installed are the two locks, with hashes; they agree, and Airflow comes from nowhere else."""
    installs = " ".join(i.arguments for i in files.instructions if i.name == "RUN" and "pip install" in i.arguments)
    problems = []
    for command in re.findall(r"pip install[^&]*", installs):
        if "--require-hashes" not in command and "--no-deps" not in command:
            problems.append(f"installs without hashes: {command.strip()}")
        if re.search(r"\s[a-z-]+==", command):
            problems.append(f"installs beside the locks: {command.strip()}")
    main, extra = files.locked(), files.locked("docker/requirements.lock")
    problems += [f"{name} is locked twice: {main[name]}, {extra[name]}" for name in set(main) & set(extra)]
    entries = re.split(r"^(?=[a-z0-9])", files.texts["docker/requirements.lock"], flags=re.MULTILINE)[1:]
    problems += [f"{entry.split()[0]} has no hash" for entry in entries if "--hash=sha256:" not in entry]
    if "://" in files.texts["docker/requirements.lock"]:
        problems.append("docker/requirements.lock holds an address")
    return problems


def check_image_secrets(files: SetupFiles) -> list[str]:
    """No variable of the image looks like a secret."""
    names = [
        name
        for i in files.instructions
        if i.name in {"ENV", "ARG"}
        for name in re.findall(r"(?:^|\s)([A-Z][A-Z0-9_]*)=", i.arguments)
    ]
    return [f"the image carries {name}" for name in names if SECRET_NAME.search(name)]


def check_start(files: SetupFiles) -> list[str]:
    """An init process in exec form, a health check, and the warm-up without a network, after the last USER."""
    last = max(i.stage for i in files.instructions)
    final = [i for i in files.instructions if i.stage == last]
    problems = [
        f"{name} is not in exec form"
        for i in final
        for name in [i.name]
        if name in {"CMD", "ENTRYPOINT"} and i.arguments[0] != "["
    ]
    entry = [i.arguments for i in final if i.name == "ENTRYPOINT"]
    if not entry or "tini" not in entry[-1]:
        problems.append("no init process: a JVM's orphans would stay")
    if not any(i.name == "HEALTHCHECK" and "CMD" in i.arguments for i in final):
        problems.append("the image has no health check")
    user_at = max((n for n, i in enumerate(final) if i.name == "USER"), default=len(final))
    if not any(i.name == "RUN" and "--network=none" in i.arguments for i in final[user_at:]):
        problems.append("nothing proves that the image starts without a network as its own user")
    return problems


def _tags(files: SetupFiles, image: str) -> set[str]:
    images = [service["image"].split(":") for service in files.services.values()]
    return {tag for name, tag in images if name == image}


CHECKS = (check_copies, check_user, check_bases, check_versions, check_locks, check_image_secrets, check_start)

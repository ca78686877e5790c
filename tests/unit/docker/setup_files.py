"""The files of `docker/` as values, so that a check can be run on the real ones and on spoilt copies."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[3]
NAMES = (
    "docker/.env.example",
    "docker/Dockerfile",
    "docker/Dockerfile.dockerignore",
    "docker/compose.yaml",
    "docker/healthcheck.sh",
    "docker/prometheus.yml",
    "docker/requirements.lock",
    "pyproject.toml",
    "requirements.lock",
)


@dataclass(frozen=True)
class Instruction:
    """One Dockerfile instruction, continuation lines joined; `stage` counts the FROMs."""

    stage: int
    name: str
    arguments: str


@dataclass(frozen=True)
class SetupFiles:
    """Texts by name relative to the repository's root."""

    texts: dict[str, str]

    @cached_property
    def compose(self) -> dict:
        return yaml.safe_load(self.texts["docker/compose.yaml"])

    @property
    def services(self) -> dict[str, dict]:
        return self.compose["services"]

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        return parse_dockerfile(self.texts["docker/Dockerfile"])

    def build_argument(self, name: str) -> set[str]:
        """Every default that `ARG name=…` has in the Dockerfile."""
        pairs = [i.arguments.partition("=") for i in self.instructions if i.name == "ARG"]
        return {value for key, _, value in pairs if key == name}

    @property
    def project(self) -> dict:
        return tomllib.loads(self.texts["pyproject.toml"])["project"]

    def locked(self, name: str = "requirements.lock") -> dict[str, str]:
        """Versions by package."""
        return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", self.texts[name], re.MULTILINE))

    def one_shots(self) -> set[str]:
        """Services that others wait for to end."""
        return {
            target
            for service in self.services.values()
            for target, how in service.get("depends_on", {}).items()
            if how["condition"] == "service_completed_successfully"
        }

    def spoilt(self, name: str, old: str, new: str) -> SetupFiles:
        """A copy with one text replaced everywhere in one file; the text has to be there."""
        if old not in self.texts[name]:
            raise ValueError(f"{name} does not hold {old!r}: the planted fault is out of date")
        return SetupFiles({**self.texts, name: self.texts[name].replace(old, new)})


def read_setup() -> SetupFiles:
    """The files as they are."""
    return SetupFiles({name: (ROOT / name).read_text(encoding="utf-8") for name in NAMES})


def parse_dockerfile(text: str) -> tuple[Instruction, ...]:
    """Instructions in order; comments, empty lines and heredocs are not kept."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    found, stage = [], -1
    for joined in re.sub(r"\\\n\s*", "", "\n".join(lines)).split("\n"):
        name, _, arguments = joined.strip().partition(" ")
        stage += name == "FROM"
        found.append(Instruction(stage, name, arguments.strip()))
    return tuple(found)


def environment(service: dict) -> dict[str, str]:
    """A service's variables as text."""
    return {name: str(value) for name, value in service.get("environment", {}).items()}


def mounts(service: dict) -> list[tuple[str, str, bool]]:
    """Source, target and whether it is read-only, of every volume in short form."""
    parts = [volume.split(":") for volume in service.get("volumes", [])]
    return [(part[0], part[1], part[2:] == ["ro"]) for part in parts]

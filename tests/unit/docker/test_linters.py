"""Other people's checks over the image, the compose file and every shell script of the repository.

Each linter is first shown something it has to refuse, so that one which looks at nothing is noticed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.docker.setup_files import ROOT, read_setup

TOOLS = Path(sys.executable).parent
NOT_OURS = {".git", ".venv", "build", "node_modules"}
HADOLINT = ("hadolint", "-")
COMPOSE_SCHEMA = ("check-jsonschema", "--builtin-schema", "vendor.compose-spec", "--force-filetype", "yaml", "-")
YAMLLINT = ("yamllint", "--strict", "--config-file", str(ROOT / "docker/.yamllint.yaml"), "-")
SHELLCHECK = ("shellcheck", "--severity=style", "-")


def lint(command: tuple[str, ...], text: str) -> tuple[int, str]:
    """Exit code and output of a linter that reads standard input."""
    done = subprocess.run(
        [TOOLS / command[0], *command[1:]], input=text, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def find_shell_scripts(root: Path) -> list[Path]:
    """Every file with a shell's name in its first line, or `.sh` at its end."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - NOT_OURS - {name for name in folders if name.endswith("_cache")})
        for path in (Path(folder) / name for name in sorted(names)):
            if path.is_symlink() or not path.is_file():
                continue
            with path.open("rb") as file:
                first = file.readline(200)
            if path.suffix == ".sh" or re.match(rb"#!.*\b(ba|da)?sh\b", first):
                found.append(path)
    return found


SCRIPTS = find_shell_scripts(ROOT)
INLINE = {
    name: service["command"][2]
    for name, service in read_setup().services.items()
    if service.get("command", [""])[0] == "/bin/sh"
}


@pytest.mark.parametrize(
    ("command", "text", "words"),
    [
        (HADOLINT, "FROM python\nRUN cd /tmp\n", "DL3006"),
        (HADOLINT, "FROM python:3.11.14\nRUN kill $(cat pid)\n", "SC2046"),
        (COMPOSE_SCHEMA, "services: {a: {image: b, depends_on: {c: {condition: service_helthy}}}}\n", "service_helthy"),
        (YAMLLINT, "a: 1\na: 2\n", "duplication"),
        (SHELLCHECK, "#!/bin/sh\nrm -rf $1/x\n", "SC2086"),
    ],
    ids=["hadolint", "hadolint-shell", "compose-schema", "yamllint", "shellcheck"],
)
def test_linter_refuses_a_planted_fault(command, text, words):
    code, output = lint(command, text)
    assert code != 0
    assert words in output


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (HADOLINT, "docker/Dockerfile"),
        (COMPOSE_SCHEMA, "docker/compose.yaml"),
        (YAMLLINT, "docker/compose.yaml"),
        (YAMLLINT, "docker/prometheus.yml"),
    ],
)
def test_file_is_clean(command, name):
    assert lint(command, (ROOT / name).read_text()) == (
        0,
        "ok -- validation done\n" if command == COMPOSE_SCHEMA else "",
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_shell_script_is_clean(script):
    assert lint(SHELLCHECK, script.read_text()) == (0, "")


@pytest.mark.parametrize("service", INLINE)
def test_inline_shell_is_clean(service):
    assert lint(SHELLCHECK, f"#!/bin/sh\n{INLINE[service]}") == (0, "")


def test_scripts_are_found_by_first_line_and_by_name(tmp_path):
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci/run").write_text("#!/usr/bin/env bash\n")
    (tmp_path / "a.sh").write_text("echo\n")
    (tmp_path / "b.py").write_text("#!/usr/bin/env python\n")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/c.sh").write_text("echo\n")
    assert find_shell_scripts(tmp_path) == [tmp_path / "a.sh", tmp_path / ".ci/run"]
    assert {ROOT / "docker/resolve-jars.sh", ROOT / "docker/healthcheck.sh"} <= set(SCRIPTS)

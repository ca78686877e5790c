"""Other people's checks over the image, the compose file, and every YAML file and shell script of the repository.

Each linter is first shown something it has to refuse, so that one which looks at nothing is noticed.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
TOOLS = Path(sys.executable).parent
COMPOSE = ROOT / "docker/compose.yaml"
HADOLINT = ("hadolint", "-")
COMPOSE_SCHEMA = ("check-jsonschema", "--builtin-schema", "vendor.compose-spec", "--force-filetype", "yaml", "-")
YAMLLINT = ("yamllint", "--strict", "--config-file", str(ROOT / "docker/.yamllint.yaml"), "-")
SHELLCHECK = ("shellcheck", "--severity=style", "-")


def lint(command: tuple[str, ...], text: str) -> tuple[int, str]:
    """Exit code and output of a linter that reads standard input."""
    done = subprocess.run(
        [TOOLS / command[0], *command[1:]], input=text, capture_output=True, text=True, check=False, timeout=600
    )
    return done.returncode, done.stdout + done.stderr


def list_files() -> list[Path]:
    """Files that Git tracks."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def is_shell_script(path: Path) -> bool:
    """A shell's name is in its first line, or `.sh` at the end of its name."""
    with path.open("rb") as file:
        return path.suffix == ".sh" or bool(re.match(rb"#!.*\b(ba|da)?sh\b", file.readline(200)))


SCRIPTS = [path for path in list_files() if is_shell_script(path)]
YAML = [path for path in list_files() if path.suffix in {".yaml", ".yml"}]
INLINE = {
    name: service["command"][2]
    for name, service in yaml.safe_load(COMPOSE.read_text())["services"].items()
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


def test_the_image_is_clean():
    assert lint(HADOLINT, (ROOT / "docker/Dockerfile").read_text()) == (0, "")


def test_the_compose_file_fits_its_schema():
    assert lint(COMPOSE_SCHEMA, COMPOSE.read_text()) == (0, "ok -- validation done\n")


def test_the_compose_file_is_one_to_docker():
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("no docker compose")
    command = [docker, "compose", "--file", COMPOSE, "config", "--no-interpolate", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("file", YAML, ids=lambda path: str(path.relative_to(ROOT)))
def test_yaml_is_clean(file):
    assert lint(YAMLLINT, file.read_text()) == (0, "")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_shell_script_is_clean(script):
    assert lint(SHELLCHECK, script.read_text()) == (0, "")


@pytest.mark.parametrize("service", INLINE)
def test_inline_shell_is_clean(service):
    assert lint(SHELLCHECK, f"#!/bin/sh\n{INLINE[service]}") == (0, "")


def test_scripts_are_found_by_first_line_and_by_name():
    assert {ROOT / ".ci/run", ROOT / "docker/resolve-jars.sh", ROOT / "docker/healthcheck.sh"} <= set(SCRIPTS)

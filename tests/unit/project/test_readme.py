"""What the README shows works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from pipeline.cli import COMMANDS, build_parser
from pipeline.config.pipeline_config import load_config

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()


def test_the_configuration_is_valid(tmp_path):
    (block,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    file = tmp_path / "partition-health.yaml"
    file.write_text(block)
    assert set(load_config(file).clusters) == {"prod-eu", "prod-us"}


def test_every_command_is_shown_with_options_that_it_has():
    shown = [shlex.split(line, comments=True) for line in re.findall(r"^partition-health (.*)", README, re.MULTILINE)]
    called = [build_parser(words[0]).parse_args(words).run.__module__ for words in shown]
    assert set(called) == {command.module for command in COMMANDS.values()}


def test_words_of_the_makefile_exist():
    words = set(re.findall(r"^make (\w+)", README, re.MULTILINE)) | set(re.findall(r"`make (\w+)`", README))
    assert words
    assert words <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_the_map_shows_every_room_and_no_other():
    cells = re.findall(r"^\| (`.*?) \|", README.split("## Map of the rooms")[1], re.MULTILINE)
    shown = {name for cell in cells for name in re.findall(r"`([a-z/]+)/`", cell)}
    shown = {name if (ROOT / name).is_dir() else f"pipeline/{name}" for name in shown}
    assert {name for name in shown if not (ROOT / name).is_dir()} == set()
    rooms = {f"pipeline/{file.parent.name}" for file in (ROOT / "pipeline").glob("*/__init__.py")}
    assert rooms - shown == {"pipeline/cli"}  # its commands are shown above

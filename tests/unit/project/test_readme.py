"""What the README shows works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from pipeline.cli import COMMANDS, build_parser
from pipeline.config_file import load_config

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    ("paper", "clusters"), [("README.md", {"prod"}), ("docs/CONFIGURATION.md", {"prod-eu", "prod-us"})]
)
def test_the_configuration_is_valid(tmp_path, paper, clusters):
    (block,) = re.findall(r"```yaml\n(.*?)```", (ROOT / paper).read_text(), re.DOTALL)
    file = tmp_path / "partition-health.yaml"
    file.write_text(block)
    assert set(load_config(file).clusters) == clusters


def test_every_command_is_shown_with_options_that_it_has():
    shown = [shlex.split(line, comments=True) for line in re.findall(r"^partition-health (.*)", README, re.MULTILINE)]
    called = [build_parser(words[0]).parse_args(words).run.__module__ for words in shown]
    assert set(called) == {f"pipeline.cli.{name}" for name in COMMANDS}


def test_commands_that_questions_show_have_these_options():
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/QUESTIONS.md").read_text(), re.DOTALL)
    shown = [shlex.split(line, comments=True)[1:] for block in blocks for line in block.splitlines()]
    assert {build_parser(words[0]).parse_args(words).run.__module__ for words in shown} == {
        f"pipeline.cli.{name}" for name in ("report", "replay", "mute", "doctor", "tables")
    }


@pytest.mark.parametrize("paper", ["README.md", "CONTRIBUTING.md", "docs/ACCURACY.md", "docs/PERFORMANCE.md"])
def test_words_of_the_makefile_exist(paper):
    text = (ROOT / paper).read_text()
    words = set(re.findall(r"^make ([\w-]+)", text, re.MULTILINE)) | set(re.findall(r"`make ([\w-]+)[`\s]", text))
    assert words
    assert words <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_the_readme_shows_how_to_run_and_to_test():
    assert {"run", "test"} <= set(re.findall(r"^make (\w+)", README, re.MULTILINE))

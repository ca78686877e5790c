"""What the README shows works."""

from __future__ import annotations

import re
from pathlib import Path

from pipeline.cli import COMMANDS
from pipeline.config import load_config

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_the_configuration_is_valid(tmp_path):
    (block,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    file = tmp_path / "partition-health.yaml"
    file.write_text(block)
    assert set(load_config(file).clusters) == {"prod-eu", "prod-us"}


def test_its_commands_exist():
    assert set(re.findall(r"^partition-health (\w+)", README, re.MULTILINE)) <= set(COMMANDS)

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LOCKS = sorted(ROOT.glob("requirements*.lock"))


def pins(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", lock.read_text(), re.MULTILINE))


def test_there_is_a_lock_for_setting_up_for_running_and_for_developing():
    assert [lock.name for lock in LOCKS] == ["requirements-dev.lock", "requirements-setup.lock", "requirements.lock"]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_names_no_address(lock):
    assert "://" not in lock.read_text()


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_pin_carries_hashes(lock):
    blocks = re.split(r"^(?=[a-z])", lock.read_text(), flags=re.MULTILINE)[1:]
    assert [block.split()[0] for block in blocks if "--hash=sha256:" not in block] == []


def test_what_runs_is_what_is_developed_against():
    runtime, development = pins(ROOT / "requirements.lock"), pins(ROOT / "requirements-dev.lock")
    assert runtime.items() <= development.items()


def test_exact_pins_of_the_project_are_those_of_the_lock():
    declared = dict(re.findall(r'^  "([a-z0-9-]+)==([^"]+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
    assert declared.items() <= pins(ROOT / "requirements-dev.lock").items()

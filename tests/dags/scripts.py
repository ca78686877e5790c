"""Programs about DAG files without Airflow's services, each in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

from pipeline.config_file import CONFIG_VARIABLE
from tests.config_files import write_configuration

ROOT = Path(__file__).parents[2]
SOURCES = [{"kind": "log_directories", "paths": ["logs"]}]


def run_script(folder, script, *arguments, clusters=("one",), variables=(), is_sound=True, **settings):
    """Runs a program under a configuration of some clusters in a folder."""
    config = write_configuration(folder, {name: {"sources": SOURCES} for name in clusters}, **settings)
    return run_under(config, script, *arguments, variables=variables, is_sound=is_sound)


def run_under(config, script, *arguments, variables=(), is_sound=True):
    """Runs a program under a configuration; one that has to end well says why where it does not."""
    own = {"AIRFLOW_HOME": str(config.parent), CONFIG_VARIABLE: str(config), **dict(variables)}
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **own}, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not is_sound, done.stderr
    return done

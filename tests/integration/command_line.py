"""`partition-health run` as a process of its own, and everything it wrote."""

import os
import subprocess
import sys
from pathlib import Path

import yaml

from pipeline.model.window import format_instant
from pipeline.storage.rows import load_rows
from pipeline.tables import TABLES
from tests.mail_parts import read_mail
from tests.spark.capture_runs import FEW_CANDIDATES

ROOT = Path(__file__).parents[2]
HEALTHY_OR_NOT = {0, 4}
"""Exit codes of a run that came to a verdict."""


def run_command(folder, document, start_ms, duration, variables):
    """Runs the windows from an instant on; returns what was printed.

    Args:
        folder: Where the configuration goes, and what it names by relative paths.
        document: The configuration; few candidates are replayed unless it says otherwise.
        start_ms: Start of the first window.
        duration: Of all of them, such as `PT1M`.
        variables: For the environment.
    """
    config = folder / "partition-health.yaml"
    config.write_text(yaml.safe_dump({"candidates": FEW_CANDIDATES, "replay": {"seeds": 2}} | document))
    span = f"{format_instant(start_ms)}/{duration}"
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "run", "--config", str(config), "--window", span],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        check=False,
    )
    printed = (done.stdout + done.stderr).decode()
    assert done.returncode in HEALTHY_OR_NOT, printed[-3000:]
    return printed


def places_of(secret, folder, warehouse):
    """Files, tables and mails under a folder that hold a text."""
    places = [str(path) for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    places += [table.name for table in TABLES if secret in str(load_rows(warehouse, table).to_pylist())]
    for path, parts in read_mails(folder).items():
        places += [str(path) for part in parts if secret in part]
    return places


def read_mails(folder):
    """Headers and decoded parts of every mail under a folder, by file."""
    mails = {}
    for path in folder.rglob("*.eml"):
        message = read_mail(path.read_bytes())
        leaves = [part for part in message.walk() if not part.is_multipart()]
        contents = [(part.get_payload(decode=True) or b"").decode("utf-8", "replace") for part in leaves]
        mails[path] = [*(f"{name}: {value}" for name, value in message.items()), *contents]
    return mails

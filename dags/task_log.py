"""The end of a task's log, as Airflow wrote it on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jinja2

LINES = 20
_TAIL_BYTES = 64 * 1024
_LONGEST = 300


def last_lines(ti: Any) -> tuple[str, ...]:  # Airflow's task instance
    """The last lines of a try's log; none where it lies elsewhere, as with remote logging.

    Args:
        ti: The task instance.
    """
    from airflow.sdk.configuration import conf  # reads and makes files of its own

    template = jinja2.Template(conf.get("logging", "log_filename_template"))
    folder = Path(conf.get("logging", "base_log_folder"))
    return read_tail(folder / template.render(ti=ti, try_number=ti.try_number))


def read_tail(path: Path) -> tuple[str, ...]:
    """The last lines of a log for people; none where there is no such file.

    Args:
        path: Lines of text, or of JSON with `timestamp`, `level` and `event`.
    """
    try:
        with path.open("rb") as log:
            log.seek(max(0, log.seek(0, 2) - _TAIL_BYTES))
            lines = log.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ()
    return tuple(_as_text(line) for line in lines[-LINES:])


def _as_text(line: str) -> str:
    """`{"timestamp": …, "level": …, "event": …}` as time, level, event; other lines as they are."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line[:_LONGEST]
    if not isinstance(entry, dict) or "event" not in entry:
        return line[:_LONGEST]
    event = " ".join(str(entry["event"]).split())
    return f"{str(entry.get('timestamp', ''))[:19]} {entry.get('level', '')} {event}"[:_LONGEST]

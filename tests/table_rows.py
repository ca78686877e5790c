"""Rows of declared tables in which what a test does not name is nothing, and runs whose every error ends the test."""

from pipeline.model.window import instant_of
from pipeline.steps import STEPS, take_steps


def needed_row(table, start_ms=0, **fields):
    """NULL where a column may be NULL."""
    return _fill(table, [column for column in table.columns if not column.nullable], start_ms) | fields


def zero_row(table, start_ms=0, **fields):
    """Zero where a column may be NULL, too; maps and lists may be."""
    zeros = _fill(table, table.columns, start_ms)
    return {name: value for name, value in zeros.items() if value != {}} | needed_row(table, start_ms, **fields)


def _fill(table, columns, start_ms):
    start = instant_of(start_ms)
    zeros = {"bigint": 0, "int": 0, "string": "", "double": 0.0, "boolean": False, "timestamp": start}
    row = {
        column.name: zeros.get(column.type, {}) for column in columns if column.name not in {"run_id", "window_date"}
    }
    own = {"cluster": "lab", "window_start": start}
    return row | {name: value for name, value in own.items() if name in table.column_names}


def take_all(runs, steps=STEPS, **session):
    """Takes steps of some runs; an error of any of them is raised."""

    def on_error(_run, _step, error):
        raise error

    take_steps(runs, steps, on_error, **session)

"""Sessions for tests: Sail for most, which starts in a second and needs no JVM; classic Spark by the fixture `spark`.

PySpark's functions make expressions of one kind of session at a time, by a variable of the process. A test module uses one
of both; `on_sail` and `on_classic` are for modules that use both.
"""

import os
from contextlib import contextmanager

from pipeline.engine import CONNECT_MODE, connect_mode
from pipeline.storage.engines import start_sail

SAIL = {"engine": "sail"}
"""Section `spark` of a configuration."""


def sail():
    """Sail's session, from here on."""
    os.environ[CONNECT_MODE] = "1"
    return start_sail()


@contextmanager
def on_sail():
    """Sail's session, within a block."""
    with connect_mode():
        yield start_sail()


def on_classic():
    """Classic Spark, within a block."""
    return connect_mode(is_on=False)

"""Steps reported to a terminal, to a log, to nobody."""

import io
import logging
import threading

import pytest

from pipeline.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_the_step():
    screen = Terminal()
    with Progress(screen).step("reading 12 segments"):
        pass
    assert "reading 12 segments" in screen.getvalue()


def test_a_pipe_stays_silent_and_a_log_gets_a_line(caplog):
    pipe, logged = io.StringIO(), threading.Event()

    class Heard(logging.Handler):
        def emit(self, record):
            logged.set()

    handler = Heard()
    logger = logging.getLogger("pipeline.progress")
    logger.addHandler(handler)
    try:
        with caplog.at_level(logging.INFO, logger.name), Progress(pipe, every_s=0.001).step("reading"):
            assert logged.wait(600)
    finally:
        logger.removeHandler(handler)
    assert pipe.getvalue() == ""
    assert caplog.records[0].getMessage().startswith("reading: ")


def test_an_error_ends_the_step():
    before = set(threading.enumerate())
    with pytest.raises(KeyError), Progress(io.StringIO()).step("reading"):
        raise KeyError("x")
    assert set(threading.enumerate()) <= before

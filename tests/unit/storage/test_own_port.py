"""A port that only this process reaches. Oracle: Linux itself; without the filter strangers connect."""

import socket
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline.errors import ConfigError
from pipeline.storage.engines import take_port

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="socket filters are Linux's")
_WAIT_S = 1.0


def echo(client):
    client.sendall(client.recv(100))


@contextmanager
def listening():
    """A server in this process that sends back what comes, as often as somebody connects."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def serve():
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=echo, args=(client,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def call(address):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(address.removeprefix("unix:"))
        client.sendall(b"who is there?")
        return client.recv(100)


def test_strangers_do_not_reach_it_and_this_process_does():
    with listening() as port:
        socket.create_connection(("127.0.0.1", port), _WAIT_S).close()  # as yet anybody
        address = take_port(port)
        for source in ("127.0.0.1", "127.0.0.2"):
            with pytest.raises(TimeoutError):
                socket.create_connection(("127.0.0.1", port), _WAIT_S, (source, 0))
        folder = Path(address.removeprefix("unix:")).parent
        assert folder.stat().st_mode & 0o777 == 0o700
        assert call(address) == b"who is there?"
        assert not folder.exists()  # nobody else is to come


def test_who_was_quicker_is_named():
    with (
        listening() as port,
        socket.create_connection(("127.0.0.1", port)) as stranger,
        pytest.raises(ConfigError, match=f"connected to Sail \\(port {stranger.getsockname()[1]}\\)"),
    ):
        take_port(port)

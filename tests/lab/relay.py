"""A port before a broker's that counts who comes."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress


@contextmanager
def counting_relay(port):
    """A loopback port that leads to another one, and the list of connections made to it."""
    made = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, port, made), daemon=True)
        thread.start()
        yield listener.getsockname()[1], made
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)
    for pair in made:
        for end in pair:
            end.close()


def _serve(listener, port, made):
    with suppress(OSError):  # the listener was shut
        while True:
            here, _ = listener.accept()
            there = socket.create_connection(("127.0.0.1", port))
            made.append((here, there))
            for pair in ((here, there), (there, here)):
                threading.Thread(target=_pump, args=pair, daemon=True).start()


def _pump(here, there):
    with suppress(OSError):
        while data := here.recv(65536):
            there.sendall(data)
    for end in (here, there):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)

"""A port before a server's that counts who comes, and can hold its answers."""

import socket
import threading
import time
from contextlib import contextmanager, suppress


@contextmanager
def counting_relay(port, answer_delay=lambda: 0.0):
    """A loopback port that leads to another one, and the list of connections made to it.

    `answer_delay`: seconds that each piece of an answer is held, asked each time.
    """
    made = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, port, made, answer_delay), daemon=True)
        thread.start()
        yield listener.getsockname()[1], made
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)
    for pair in made:
        for end in pair:
            end.close()


def _serve(listener, port, made, answer_delay):
    with suppress(OSError):  # the listener was shut
        while True:
            here, _ = listener.accept()
            there = socket.create_connection(("127.0.0.1", port))
            made.append((here, there))
            for pair in ((here, there, lambda: 0.0), (there, here, answer_delay)):
                threading.Thread(target=_pump, args=pair, daemon=True).start()


def _pump(here, there, delay):
    with suppress(OSError):
        while data := here.recv(65536):
            time.sleep(delay())
            there.sendall(data)
    for end in (here, there):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)

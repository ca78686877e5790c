"""A port on loopback to which nobody but this process connects: Sail listens on one, has no login, and runs Python code.

The kernel drops whatever comes to the listening socket, but for one connection of this process. gRPC reaches that one by a
Unix socket in a folder of mode 0700.

References:
    `SO_ATTACH_FILTER` of Linux (socket(7), classic BPF): a filter on a listening socket sees each segment from its TCP header
    on, at negative offsets (`SKF_NET_OFF`) the IP header; connections that it accepts inherit it.
"""

import contextlib
import ctypes
import os
import socket
import struct
import tempfile
import threading
from pathlib import Path

from pipeline.errors import ConfigError

_LOOPBACK = "127.0.0.1"
_SO_ATTACH_FILTER = 26
_LOAD_WORD, _LOAD_HALF, _IF_EQUAL, _RETURN = 0x20, 0x28, 0x15, 0x06
_SOURCE_ADDRESS, _SOURCE_PORT = -0x100000 + 12, 0  # in the IP and in the TCP header
_PIECE_BYTES = 1 << 18
_ESTABLISHED = "01"


def take_port(port: int) -> str:
    """Closes a listening port of this process to all others, and returns the address by which gRPC reaches it once.

    To be called at once after the port was opened.

    Raises:
        ConfigError: somebody else has connected already.
    """
    connection = socket.socket()
    connection.bind((_LOOPBACK, 0))
    _accept_only(_listener(port), connection.getsockname()[1])
    connection.connect((_LOOPBACK, port))
    if strangers := _peers(port) - {connection.getsockname()[1]}:
        raise ConfigError(
            f"another process of this machine connected to Sail (port {min(strangers)}): see who, or leave spark.engine out"
        )
    folder = Path(tempfile.mkdtemp(prefix="partition-health-"))  # mode 0700
    address = folder / "sail"
    entrance = socket.socket(socket.AF_UNIX)
    entrance.bind(str(address))
    entrance.listen(1)
    threading.Thread(target=_join, args=(entrance, connection, address), daemon=True).start()
    return f"unix:{address}"


def _listener(port: int) -> socket.socket:
    """The socket of this process that listens on a port."""
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            if not str(entry.readlink()).startswith("socket:"):
                continue
            held = socket.socket(fileno=os.dup(int(entry.name)))
            is_listening = held.family == socket.AF_INET and held.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if is_listening and held.getsockname() == (_LOOPBACK, port):
                return held
            held.close()
    raise AssertionError("a server of this process listens on the port")


def _accept_only(listener: socket.socket, port: int) -> None:
    """Drops all segments but those of one port of this machine."""
    loopback = int.from_bytes(socket.inet_aton(_LOOPBACK))
    program = [  # code, jump if so, jump if not, value
        (_LOAD_WORD, 0, 0, _SOURCE_ADDRESS & 0xFFFFFFFF),
        (_IF_EQUAL, 0, 3, loopback),
        (_LOAD_HALF, 0, 0, _SOURCE_PORT),
        (_IF_EQUAL, 0, 1, port),
        (_RETURN, 0, 0, 0xFFFFFFFF),
        (_RETURN, 0, 0, 0),
    ]
    steps = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in program))
    listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", len(program), ctypes.addressof(steps)))
    listener.close()


def _peers(port: int) -> set[int]:
    """Ports at the other end of a port's connections."""
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return {
        int(remote.partition(":")[2], 16)
        for _, local, remote, state, *_ in rows
        if int(local.partition(":")[2], 16) == port and state == _ESTABLISHED
    }


def _join(entrance: socket.socket, connection: socket.socket, address: Path) -> None:
    """Takes one client of the Unix socket, and passes on what it and the server send."""
    client, _ = entrance.accept()
    entrance.close()
    address.unlink()
    address.parent.rmdir()
    threading.Thread(target=_pass_on, args=(connection, client), daemon=True).start()
    _pass_on(client, connection)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(_PIECE_BYTES):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)

"""Engines that run the pipeline's DataFrames: classic Spark, a Spark Connect server, and Sail in this process.

Sail (`pysail`: Spark Connect's protocol over DataFusion) listens on loopback, has no login, and runs Python code: nobody but this
process connects to its port. The kernel drops what comes to the listening socket (`SO_ATTACH_FILTER`: a classic BPF program sees the
TCP header, at `SKF_NET_OFF` the IP header; accepted connections inherit it), but for one connection of this process, which gRPC
reaches by a Unix socket in a folder of mode 0700. PySpark's functions use one engine a process at a time.
"""

import contextlib
import ctypes
import os
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from pyspark.sql import SparkSession

from pipeline.config.pipeline_config import Spark
from pipeline.engine import connect_mode, note_sail
from pipeline.errors import ConfigError, SparkFailedError

_ONLY_ONCE = [("grpc.default_authority", "localhost"), ("grpc.client_idle_timeout_ms", (1 << 31) - 1)]
"""Options of a channel whose one connection stays; servers refuse a path as the name of a host."""
_servers: list[Any] = []  # of Sail that run in this process: one that nobody holds stops
# Sail ends a session without queries, after 20 minutes at most; a run may wait for another one
_MOST_IDLE_S = str(7 * 86_400)
_LOOPBACK = "127.0.0.1"
_SO_ATTACH_FILTER = 26
_LOAD_WORD, _LOAD_HALF, _IF_EQUAL, _RETURN = 0x20, 0x28, 0x15, 0x06
_SOURCE_ADDRESS, _SOURCE_PORT = -0x100000 + 12, 0  # in the IP and in the TCP header
_PIECE_BYTES = 1 << 18
_ESTABLISHED = "01"


@contextlib.contextmanager
def running_engine(config: Spark, *, app_name: str) -> Iterator[SparkSession]:
    """A session on the configured engine while the block runs; `ConfigError`: not installed, `SparkFailedError`: its server does not answer."""
    if config.engine == "sail":
        with connect_mode():
            yield start_sail()
    elif config.remote is not None:
        with connect_mode():
            _ensure_grpc()
            _ensure_answers(config.remote)
            session = _connect(config.remote, config.conf)
            try:
                yield session
            finally:
                session.stop()
    else:
        from pipeline.storage.session import running_session  # noqa: PLC0415 - a JVM's client, and Delta's jars

        with connect_mode(is_on=False), running_session(config, app_name=app_name) as session:
            yield session


def is_sail_installed() -> bool:
    return find_spec("pysail") is not None


def start_sail() -> SparkSession:
    """A session of Sail in this process, never stopped before the process ends; `ConfigError` if it is not installed."""
    return _start_sail(os.getpid())


@cache
def _start_sail(_pid: int) -> SparkSession:
    """One server and one session a process: those of a process that forked do not answer here."""
    if not is_sail_installed():
        advice = "install partition-health[sail], or leave spark.engine out"
        raise ConfigError(f"spark.engine is sail, which is not installed: {advice}")
    _ensure_grpc()
    os.environ.setdefault("RUST_LOG", "error")
    os.environ.setdefault("SAIL_SPARK__SESSION_TIMEOUT_SECS", _MOST_IDLE_S)
    from pysail.spark import SparkConnectServer  # noqa: PLC0415 - an extra

    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    _servers.append(server)
    _, port = server.listening_address
    session = _connect(f"sc://127.0.0.1:{port}", {}, target=take_port(port) if sys.platform == "linux" else None)
    note_sail(session)
    return session


def _ensure_grpc() -> None:
    if missing := [name for name in ("grpc", "grpc_status") if find_spec(name) is None]:
        raise ConfigError(f"Spark Connect needs {' and '.join(missing)}: install partition-health[connect]")


def _ensure_answers(address: str) -> None:
    """Connects once: PySpark tries for ten minutes, and then tells of it in twenty lines."""
    from grpc import ChannelConnectivity  # noqa: PLC0415 - an extra
    from pyspark.errors import PySparkException  # noqa: PLC0415 - likewise
    from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415 - likewise

    try:
        builder = DefaultChannelBuilder(address)
    except (PySparkException, ValueError) as error:
        raise ConfigError("spark.remote is no address of a server: expected one such as sc://host:15002") from error
    met: SimpleQueue[ChannelConnectivity] = SimpleQueue()
    with builder.toChannel() as channel:
        channel.subscribe(met.put, try_to_connect=True)
        while (state := met.get()) is not ChannelConnectivity.READY:
            if state is ChannelConnectivity.TRANSIENT_FAILURE:  # of every address the name has
                server = f"no Spark Connect server answers at {builder.endpoint}"  # without its token
                raise SparkFailedError(f"spark.remote: {server}; start it, or mend the address")


def _connect(address: str, conf: dict[str, str], *, target: str | None = None) -> SparkSession:
    from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415 - an extra
    from pyspark.sql.connect.session import SparkSession as ConnectSession  # noqa: PLC0415 - likewise

    class Channel(DefaultChannelBuilder):
        def toChannel(self) -> Any:  # noqa: ANN401, N802 - PySpark's name; gRPC has no types
            return self._insecure_channel(target) if target else super().toChannel()

    channel: Any = Channel(address, _ONLY_ONCE if target else None)
    session: Any = ConnectSession.builder.channelBuilder(channel).create()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    for name, value in conf.items():
        session.conf.set(name, value)
    return session  # type: ignore[no-any-return]


def take_port(port: int) -> str:
    """Closes a port, at once after it was opened, to all but this process; gRPC's address; `ConfigError` if somebody has connected."""
    connection = socket.socket()
    connection.bind((_LOOPBACK, 0))
    _accept_only(_listener(port), connection.getsockname()[1])
    connection.connect((_LOOPBACK, port))
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    of_port = [row for row in rows if int(row[1].partition(":")[2], 16) == port and row[3] == _ESTABLISHED]
    if strangers := {int(row[2].partition(":")[2], 16) for row in of_port} - {connection.getsockname()[1]}:
        stranger = f"another process of this machine connected to Sail (port {min(strangers)})"
        raise ConfigError(f"{stranger}: see who, or leave spark.engine out")
    folder = Path(tempfile.mkdtemp(prefix="partition-health-"))  # mode 0700
    address = folder / "sail"
    entrance = socket.socket(socket.AF_UNIX)
    entrance.bind(str(address))
    entrance.listen(1)
    threading.Thread(target=_join, args=(entrance, connection, address), daemon=True).start()
    return f"unix:{address}"


def _listener(port: int) -> socket.socket:
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


def _join(entrance: socket.socket, connection: socket.socket, address: Path) -> None:
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

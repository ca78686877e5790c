"""Engines that run the pipeline's DataFrames: classic Spark, a Spark Connect server, and Sail in this process.

The code above is the same for all: PySpark's DataFrames, the part of them that Spark Connect has.

References:
    Sail (`pysail`) speaks Spark Connect's protocol over DataFusion, without a JVM. Its server lives as long as its Python object.
    PySpark's functions make expressions of classic Spark or of Spark Connect, by a variable of the whole process: a process
    uses one of them at a time.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from pipeline.engine import connect_mode, note_sail
from pipeline.errors import ConfigError, SparkFailedError
from pipeline.storage.own_port import take_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.config.pipeline_config import Spark

_ONLY_ONCE = [("grpc.default_authority", "localhost"), ("grpc.client_idle_timeout_ms", (1 << 31) - 1)]
"""Options of a channel whose one connection stays; servers refuse a path as the name of a host."""
_servers: list[Any] = []
"""Servers of Sail that run in this process: one that nobody holds stops."""


@contextlib.contextmanager
def running_engine(config: Spark, *, app_name: str) -> Iterator[SparkSession]:
    """A session on the configured engine, for as long as the block runs; one that runs in this process already stays.

    Raises:
        ConfigError: the engine is not installed.
        SparkFailedError: its server does not answer.
    """
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
    """Whether the extra `sail` is there."""
    return find_spec("pysail") is not None


def start_sail() -> SparkSession:
    """A session of Sail in this process; started once, and never stopped before the process ends.

    Raises:
        ConfigError: it is not installed.
    """
    return _start_sail(os.getpid())


@cache
def _start_sail(_pid: int) -> SparkSession:
    """One server and one session a process: those of a process that forked do not answer here."""
    if not is_sail_installed():
        raise ConfigError(
            "spark.engine is sail, which is not installed: install partition-health[sail], or leave spark.engine out"
        )
    _ensure_grpc()
    os.environ.setdefault("RUST_LOG", "error")
    from pysail.spark import SparkConnectServer  # noqa: PLC0415 - an extra

    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    _servers.append(server)
    _, port = server.listening_address
    session = _connect(f"sc://127.0.0.1:{port}", {}, target=take_port(port) if sys.platform == "linux" else None)
    note_sail(session)
    return session


def _ensure_grpc() -> None:
    missing = [name for name in ("grpc", "grpc_status") if find_spec(name) is None]
    if missing:
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
                endpoint = builder.endpoint  # without what else the address holds, such as a token
                raise SparkFailedError(
                    f"spark.remote: no Spark Connect server answers at {endpoint}; start it, or mend the address"
                )


def _connect(address: str, conf: dict[str, str], *, target: str | None = None) -> SparkSession:
    """A session on a server; `target`, where it is reached by another name."""
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

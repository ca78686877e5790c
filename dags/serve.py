"""`make serve`: Airflow on the configuration at hand; its scheduler waits for the API server, which listens on loopback."""

import argparse
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from pipeline.config.sections import plan_schedule
from pipeline.config_file import CONFIG_VARIABLE, config_path, load_config
from pipeline.errors import ConfigError

DAGS_FOLDER = Path(__file__).resolve().parent


def airflow_environment(home: Path, config: Path) -> dict[str, str]:
    """The variables under which any `airflow` command works on this home, and the DAGs read our configuration."""
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS_FOLDER),
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "2",  # dozens of idle workers otherwise
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db?timeout=60",  # as long may others write
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        CONFIG_VARIABLE: str(config),
    }


def use_airflow_home(home: Path, config: Path, *, overrides: Mapping[str, str] | None = None) -> None:
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)  # it holds the database, the logs and a generated password
    os.environ.update(airflow_environment(home, config) | dict(overrides or {}))


AIRFLOW = Path(sys.executable).with_name("airflow")
_EVERY_S = 1.0
_STOP_S = 30.0
_PASSWORDS = "simple_auth_manager_passwords.json.generated"
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104  (how to reach it from here)


def main() -> int:
    """Runs Airflow until it is stopped (0), or one of its processes ends by itself (1); 2 where it cannot start."""
    parser = argparse.ArgumentParser(prog="make serve", description="Airflow with the DAGs scheduled.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8080, help="port to listen on (default: %(default)s)")
    parser.add_argument("--home", type=Path, default=DAGS_FOLDER.parent / ".airflow", help="Airflow's folder")
    options = parser.parse_args()
    path, home = config_path().resolve(), options.home.resolve()
    if not path.exists():
        parser.error(f"no configuration at {path}: go to the folder that holds it, or set {CONFIG_VARIABLE}")
    try:
        config = load_config(path)
        plan_schedule(config.window, config.grace)
        check_port(options.host, options.port)
        with _alone(home):
            return _serve(options.host, options.port, home, path)
    except ConfigError as error:
        parser.error(str(error))


def _serve(host: str, port: int, home: Path, path: Path) -> int:
    url = format_url(host, port)
    use_airflow_home(home, path, overrides=serve_settings(host, port, url))
    subprocess.run([AIRFLOW, "db", "migrate"], check=True)  # noqa: S603  (no shell)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _running("api-server") as server:
            while server.poll() is None and not answers(url):
                time.sleep(_EVERY_S)
            if server.poll() is not None:
                return 1
            with _running("dag-processor") as processor, _running("scheduler", "--skip-serve-logs") as scheduler:
                sys.stdout.write(f"Airflow is ready: {url}, user admin, password in {home / _PASSWORDS}; runs {path}\n")
                sys.stdout.flush()
                while all(process.poll() is None for process in (server, processor, scheduler)):
                    time.sleep(_EVERY_S)
    except KeyboardInterrupt:
        return 0
    return 1  # each runs until it is stopped, so its end is a failure; its last lines say why


def format_url(host: str, port: int) -> str:
    return f"http://{_ANYWHERE.get(host, f'[{host}]' if ':' in host else host)}:{port}"


def check_port(host: str, port: int) -> None:
    """`ConfigError` for an address of others or a port that is taken: its answers would pass for our server's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except OSError as error:
            raise ConfigError(f"{host}:{port} cannot be listened on ({error.strerror}): pass another --port") from error


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Holds Airflow's folder: two schedulers on one database would run every task twice; `ConfigError` if it is held."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)  # its database, logs and password are its owner's
    with (home / ".serving").open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(f"{home} is served already: stop that, or pass another --home and --port") from error
        yield


def serve_settings(host: str, port: int, url: str) -> dict[str, str]:
    return {
        "AIRFLOW__API__HOST": host,
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        # A server on a busy machine takes longer than the 5 s of the default, and a task that it keeps waiting is lost.
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
        "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "10",
        "PATH": f"{AIRFLOW.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }


@contextmanager
def _running(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """`airflow COMMAND…`, stopped at the end of the block; one that goes on, such as for a task, with all it started."""
    process = subprocess.Popen([AIRFLOW, *command])  # noqa: S603  (no shell)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            for one in (*psutil.Process(process.pid).children(recursive=True), process):
                with suppress(psutil.NoSuchProcess):  # it has just ended
                    one.kill()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/api/v2/monitor/health", timeout=30) as answer:  # noqa: S310  (ours)
            return bool(answer.status == 200)
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())

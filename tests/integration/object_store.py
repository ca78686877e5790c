"""versitygw, a real S3 server over a folder, as a process that can be killed and started again."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from pipeline.config.storage import RemoteFolder, Storage
from pipeline.storage.locks import holding
from tests.lab.artifacts import cache_directory, run_download
from tests.lab.process import free_ports

VERSION = "1.8.0"
KEYS = ("key-id", "s3cr3t")


def server_program():
    """The server, built from the Go module proxy once per machine."""
    program = cache_directory() / f"versitygw-{VERSION}/versitygw"
    if not program.is_file():
        if shutil.which("go") is None:
            pytest.skip("no Go")
        with holding(cache_directory(), "versitygw"):
            package = f"github.com/versity/versitygw/cmd/versitygw@v{VERSION}"
            done = run_download(["go", "install", package], env={**os.environ, "GOBIN": str(program.parent)})
            assert done.returncode == 0, done.stderr[-2000:]
    return program


class ObjectStore:
    """A server on this machine, with two buckets."""

    def __init__(self, folder: Path):
        self.folder, self._log = folder / "buckets", folder / "server.log"
        for bucket in ("landing", "tables"):
            (self.folder / bucket).mkdir(parents=True)
        self._sidecar = folder / "sidecar"
        self._sidecar.mkdir()
        file = folder / "credentials"
        file.write_text("[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n".format(*KEYS))
        self._address = ("127.0.0.1", *free_ports(1))
        self.storage = Storage(endpoint="http://{}:{}".format(*self._address), credentials=file)

    def table_folder(self, name):
        return RemoteFolder(f"s3a://tables/{name}", self.storage)

    def start(self):
        """Returns when it takes connections."""
        port = ("--port", "{}:{}".format(*self._address))
        arguments = (*port, "posix", "--sidecar", str(self._sidecar), str(self.folder))
        secrets = dict(zip(("ROOT_ACCESS_KEY", "ROOT_SECRET_KEY"), KEYS, strict=True))
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [server_program(), *arguments], env={**os.environ, **secrets}, stdout=log, stderr=log
            )
        while True:
            try:
                socket.create_connection(self._address).close()
                return
            except ConnectionRefusedError:
                if self._process.poll() is not None:
                    raise RuntimeError(self._log.read_text()[-2000:]) from None
                time.sleep(0.05)

    def read_log(self):
        """A line per request that it answered."""
        return self._log.read_text()

    def kill(self):
        self._process.kill()
        self._process.wait()

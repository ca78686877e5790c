"""A real HTTP server on loopback that answers as a test says, well or badly."""

import socket
import ssl
import subprocess
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Answer:
    """What to answer: status, headers, body; `cut` bytes of the body promised and not sent."""

    def __init__(self, body=b"", status=200, headers=(), cut=0):
        self.body = body.encode() if isinstance(body, str) else body
        self.status, self.headers, self.cut = status, dict(headers), cut


class Site:
    """A server's address and what was asked of it."""

    def __init__(self, url, answers):
        # answers by path without query: one, a list of which each request takes one, or a function of the path
        self.url, self.answers = url, answers
        self.asked = []  # path and headers of each request

    def answer(self, path):
        found = self.answers.get(path.partition("?")[0], Answer("nothing here", 404))
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        return found(path) if callable(found) else found


@contextmanager
def serving(answers, *, certificate=None):
    """Serves for as long as the block lasts; with TLS where a certificate (file with key) is given."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            site.asked.append((self.path, dict(self.headers)))
            answer = site.answer(self.path)
            self.send_response(answer.status)
            for name, value in {"Content-Type": "text/plain", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body[: len(answer.body) - answer.cut])
            self.close_connection = bool(answer.cut)

        do_POST = do_GET  # noqa: N815 - http.server's name

        def log_message(self, *_):
            pass

    with _handling(Handler, certificate) as url:
        site = Site(url, answers)
        yield site


@contextmanager
def running(answer, *, content_type="text/plain"):
    """A server's address; `answer(request, body)` gives the status and the pieces of a body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, pieces = answer(self, body)
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.end_headers()
            for piece in pieces:
                self.wfile.write(piece)

        do_POST = do_GET  # noqa: N815 - http.server's name

        def log_message(self, *_):
            pass

    with _handling(Handler) as url:
        yield url


@contextmanager
def receiving(status=200, answer=b"ok"):
    """A server that keeps what is posted to it: (path, headers, body)."""
    got = []

    def keep(request, body):
        got.append((request.path, dict(request.headers), body))
        return status, [answer]

    with running(keep) as url:
        yield f"{url}/hook/s3cr3t", got


@contextmanager
def _handling(handler, certificate=None):
    class Server(ThreadingHTTPServer):
        def handle_error(self, *_):  # a client that refuses our certificate, or has read enough, is what a test wants
            pass

    server = Server(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def make_certificate(folder):
    """A certificate of its own authority for 127.0.0.1, with its key, in one file."""
    path, key, certificate = folder / "server.pem", folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    path.write_bytes(key.read_bytes() + certificate.read_bytes())
    return path, certificate


@contextmanager
def answering(*pieces, forever=(), greets=False):
    """Sends bytes to whoever connects, whatever is asked, then `forever` a piece of these every few milliseconds.

    `greets`: the server speaks first, as one of SMTP does.
    """
    stopped = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def talk(connection):
        with connection, suppress(OSError):
            if not greets:
                connection.recv(1 << 16)
            for piece in pieces:
                connection.sendall(piece)
            while forever and not stopped.wait(0.01):
                connection.sendall(forever[0])

    def serve():
        with suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stopped.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()

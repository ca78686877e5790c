"""No channel keeps a secret that a server repeats, or that cannot be sent. Oracle: the secrets themselves, decoded too."""

import base64
import contextlib
import re
import socket
import threading
import traceback
from urllib.parse import quote

import pytest

from pipeline.alerting.alertmanager import post_alert, read_silences
from pipeline.alerting.delivery import deliver, probe
from pipeline.alerting.webhook import post
from pipeline.config.http_access import BasicAuth, HttpAccess, HttpLogin, hide_secrets, list_parts
from pipeline.config.mail import Alertmanager, Smtp, Webhook
from pipeline.config.sections import Pushgateway
from pipeline.errors import ConfigError, InputError, PipelineError
from pipeline.report.metrics import CollectorRegistry, _push
from pipeline.sources.metrics.http_text import HttpReader
from tests.unit.alerting.examples import T0_MS

SECRET = "Hunter2/not+to=be seen"
TOKEN = "Hunter2/not+to=be-seen~at.all"
STATUSES = {
    "status line": b"HTTP/1.1 404 %b\r\nContent-Length: 0\r\n\r\n",
    "no HTTP": b"%b\r\n\r\n",
    "body": b"HTTP/1.1 400 No\r\nContent-Type: text/plain\r\n\r\n%b",
    "late": b"HTTP/1.1 503 No\r\nContent-Type: text/plain\r\nRetry-After: 0\r\n\r\n%b",
    "redirect": b"HTTP/1.1 302 No\r\nLocation: http://elsewhere/%b\r\n\r\n",
}


@contextlib.contextmanager
def answering_with(respond, greeting=b""):
    """A server that answers each request, or each line after a greeting, by what `respond` makes of its bytes."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve_one(connection):
        with connection, contextlib.suppress(OSError):
            connection.sendall(greeting)
            end = b"\r\n" if greeting else b"\r\n\r\n"
            while True:
                got = b""
                while end not in got:
                    piece = connection.recv(65_536)
                    if not piece:
                        return
                    got += piece
                connection.sendall(respond(got))
                if not greeting:
                    return

    def serve():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve_one, args=(server.accept()[0],), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield server.getsockname()[1]
    finally:
        server.close()


def echoing(form):
    """Repeats the request's first line and its credentials, as frameworks do in their errors."""

    def respond(request):
        lines = request.split(b"\r\n")
        said = (
            lines[0].split()[1] + b" " + b" ".join(line for line in lines if line.lower().startswith(b"authorization"))
        )
        return form % said

    return answering_with(respond)


def told_by(call):
    """All that is kept or logged of an error: its words, and those of its chain."""
    with pytest.raises(PipelineError) as raised:
        call()
    return "".join(traceback.format_exception(raised.value))


def no_secret_in(said, *secrets):
    flat = said + "".join(
        base64.b64decode(text + "=" * (-len(text) % 4), validate=False).decode("latin-1")
        for text in re.findall(r"[A-Za-z0-9+/]{8,}", said)
        if len(text) % 4 != 1
    )
    return not any(part in flat for secret in secrets for part in (secret, quote(secret), secret[:9], secret[-9:]))


@pytest.fixture
def secrets(monkeypatch):
    monkeypatch.setenv("PASSWORD", SECRET)
    monkeypatch.setenv("TOKEN", TOKEN)


LOGINS = [{"bearer_token_variable": "TOKEN"}, {"basic_auth": BasicAuth(username="ops", password_variable="PASSWORD")}]


def read_text(url, login):
    with HttpReader(HttpAccess(attempts=2, **login), lambda _: None) as reader:
        reader.read(f"{url}/metrics")


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize("login", LOGINS, ids=["token", "password"])
@pytest.mark.parametrize("form", STATUSES.values(), ids=STATUSES)
@pytest.mark.parametrize(
    "ask",
    [
        read_text,
        lambda url, login: read_silences(Alertmanager(url=url, **login)),
        lambda url, login: post_alert(b"[{}]", Alertmanager(url=url, **login), now_ms=T0_MS, keep_ms=9),
        lambda url, login: _push(CollectorRegistry(), Pushgateway(url=url, **login), "demo"),
    ],
    ids=["metrics", "silences", "alerts", "pushgateway"],
)
def test_no_server_that_repeats_its_request_has_credentials_kept(ask, form, login):
    with echoing(form) as port:
        said = told_by(lambda: ask(f"http://127.0.0.1:{port}", login))
    assert no_secret_in(said, TOKEN, SECRET)


@pytest.mark.parametrize("form", STATUSES.values(), ids=STATUSES)
@pytest.mark.parametrize("path", ["/services/T0/B0/SECRETHOOK", "/hook?key=SECRET%20HOOK", "/a%2FSECRETHOOK/"])
def test_no_webhook_that_repeats_its_path_has_its_address_kept(form, path, monkeypatch):
    with echoing(form) as port:
        monkeypatch.setenv("CHAT_URL", f"http://127.0.0.1:{port}{path}")
        said = told_by(lambda: post(b"{}", Webhook(name="chat", url_variable="CHAT_URL"), message_id="x"))
    assert not re.search("SECRET|HOOK", said)


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize("mechanism", ["PLAIN", "LOGIN"])
@pytest.mark.parametrize(
    "send", [probe, lambda smtp: deliver(MAIL, ["x@y.z"], smtp=smtp, outbox_folder=None, message_id="i")]
)
def test_no_mail_server_that_repeats_its_commands_has_a_password_kept(send, mechanism):
    def respond(line):
        if line.upper().startswith((b"EHLO", b"HELO")):
            return f"250-hi\r\n250 AUTH {mechanism}\r\n".encode()
        if line.upper().startswith(b"AUTH LOGIN"):
            return b"334 UGFzc3dvcmQ6\r\n"
        return b"501 5.5.4 cannot take: " + line.rstrip() + b"\r\n"

    with answering_with(respond, b"220 hi\r\n") as port:
        smtp = Smtp(host="127.0.0.1", port=port, user="alerts", password_variable="PASSWORD", tls="none")
        said = told_by(lambda: send(smtp))
    assert "cannot take" in said
    assert no_secret_in(said, SECRET)


MAIL = b"From: a@b.c\r\nTo: x@y.z\r\nSubject: s\r\n\r\nt\r\n"


def test_a_password_of_bytes_that_are_no_text_is_hidden_as_far_as_it_can_be():
    assert hide_secrets("535 denied", "geheim\udcff99", user="alerts") == "535 denied"
    assert hide_secrets("535 geheim99", "geheim99", user="a\udcff") == "535 ***"


def test_what_is_no_secret_is_told():
    assert hide_secrets("quota of 7 exceeded for ops", TOKEN, SECRET, user="ops") == "quota of 7 exceeded for ops"
    address = "https://hooks.example.com/services/T0/B0/SECRETHOOK"
    assert hide_secrets("no_service: channel_is_archived", *list_parts(address)) == "no_service: channel_is_archived"
    assert hide_secrets("no token secrethook.", *list_parts(address)) == "no token ***."
    assert hide_secrets("no token abc-xyz.", "ABC-XYZ") == "no token ***."


@pytest.mark.parametrize("cut", [slice(3, None), slice(None, -3), slice(5, 20)])
def test_a_part_of_a_secret_is_hidden_too(cut):
    assert hide_secrets(f"got <{TOKEN[cut]}>", TOKEN) == "got <***>"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_token_from_a_file_is_sent_without_the_end_of_its_line(end, monkeypatch):
    monkeypatch.setenv("TOKEN", f"{TOKEN}{end}")
    monkeypatch.setenv("PASSWORD", f"{SECRET}{end}")
    asked = []
    empty = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]"
    with answering_with(lambda request: (asked.append(request), empty)[1]) as port:
        for login in LOGINS:
            assert read_silences(Alertmanager(url=f"http://127.0.0.1:{port}", **login)) == ()
    assert f"Bearer {TOKEN}\r\n".encode() in asked[0]
    assert b"Basic " + base64.b64encode(f"ops:{SECRET}".encode()) + b"\r\n" in asked[1]


@pytest.mark.parametrize("token", ["one\ntwo", "tök", "a b", "", "\n", "\x00a", "\udcff"])
def test_a_token_that_no_header_carries_is_refused_by_the_name_of_its_variable(token):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.environ", {"TOKEN": token})
        said = told_by(lambda: HttpLogin(bearer_token_variable="TOKEN").bearer_token)
    assert "environment variable TOKEN holds no token" in said
    assert not token.strip() or token not in said


def test_a_password_that_is_no_text_is_refused_by_the_name_of_its_variable():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.environ", {"PASSWORD": "a\udcff"})
        with pytest.raises(ConfigError, match="environment variable PASSWORD is not UTF-8"):
            HttpLogin(basic_auth=BasicAuth(username="ops", password_variable="PASSWORD")).async_client()


def test_a_mail_password_that_smtp_cannot_carry_is_not_told(monkeypatch):
    monkeypatch.setenv("PASSWORD", "sécret")
    with answering_with(lambda _: b"250-hi\r\n250 AUTH PLAIN\r\n", b"220 hi\r\n") as port:
        smtp = Smtp(host="127.0.0.1", port=port, user="alerts", password_variable="PASSWORD", tls="none")
        said = told_by(lambda: probe(smtp))
    assert "is not ASCII" in said
    assert "xe9" not in said
    assert "é" not in said


def test_what_the_client_refuses_to_send_is_repeated_by_nobody(monkeypatch):
    """Were a token let through with a line break, h11 would repeat it."""
    monkeypatch.setattr(HttpLogin, "bearer_token", f"{TOKEN}\n")
    login = {"bearer_token_variable": "TOKEN"}
    with echoing(STATUSES["body"]) as port:
        url = f"http://127.0.0.1:{port}"
        for ask in (
            lambda: read_text(url, login),
            lambda: read_silences(Alertmanager(url=url, **login)),
            lambda: _push(CollectorRegistry(), Pushgateway(url=url, **login), "demo"),
        ):
            assert no_secret_in(told_by(ask), TOKEN)


def test_a_metrics_server_is_named_with_what_it_says():
    with (
        echoing(STATUSES["body"]) as port,
        HttpReader(HttpAccess(), lambda _: None) as reader,
        pytest.raises(InputError, match=r"HTTP 400 No: .*/metrics"),
    ):
        reader.read(f"http://127.0.0.1:{port}/metrics")

"""What a client logs in with. `tests/integration/test_live_access.py` logs in at a broker; AWS has none to try."""

import hashlib
import hmac
import json
import socket
import sys
import threading
import time
from contextlib import suppress
from types import ModuleType, SimpleNamespace
from urllib.parse import quote

import pytest
from kafka.net.sasl import get_sasl_mechanism
from pydantic import ValidationError

from pipeline.errors import ConfigError, SourceUnreachableError
from pipeline.sources.live import diagnosis
from pipeline.sources.live.diagnosis import ClientCredentials, login_options
from pipeline.sources.live.settings import ClientSettings, Secrets

IAM = {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}
OAUTH = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.username": "app",
    "sasl.password_variable": "SECRET",
    "sasl.oauthbearer.token.endpoint.url": "https://login.example.org/token",
}
HOST, REGION = "b-1.example.org", "eu-west-1"
KEY_ID, KEY, TOKEN = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", "session/token+"


@pytest.mark.parametrize("settings", [IAM, OAUTH, {**OAUTH, "sasl.oauthbearer.scope": "kafka"}])
def test_settings_that_are_whole(settings):
    assert ClientSettings.model_validate(settings).uses_sasl


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({**IAM, "security.protocol": "SASL_PLAINTEXT"}, "needs security.protocol SASL_SSL"),
        ({**OAUTH, "sasl.oauthbearer.token.endpoint.url": None}, "token.endpoint.url goes with"),
        ({**OAUTH, "sasl.mechanism": "PLAIN"}, "token.endpoint.url goes with"),
        ({**OAUTH, "sasl.username": None}, "needs sasl.mechanism, sasl.username"),
        ({**OAUTH, "sasl.oauthbearer.token.endpoint.url": "http://login.example.org/token"}, "sent in clear"),
        ({**OAUTH, "sasl.oauthbearer.token.endpoint.url": "login.example.org"}, "is not an http or https URL"),
        ({**OAUTH, "security.protocol": "SSL"}, "sasl.* is set, but security.protocol is SSL"),
    ],
)
def test_settings_that_do_not_go_together(settings, said):
    with pytest.raises(ValidationError, match=said.replace("*", r"\*")):
        ClientSettings.model_validate(settings)


@pytest.fixture
def botocore(monkeypatch):
    """As much of the package as kafka-python asks: a session with credentials for a time."""
    credentials = SimpleNamespace(access_key=KEY_ID, secret_key=KEY, token=TOKEN)

    class Session:
        def get_credentials(self):
            return SimpleNamespace(get_frozen_credentials=lambda: credentials)

        def get_config_variable(self, name):
            return {"region": REGION}[name]

    package, session = ModuleType("botocore"), ModuleType("botocore.session")
    session.Session, package.__spec__ = Session, SimpleNamespace(name="botocore")
    monkeypatch.setitem(sys.modules, "botocore", package)
    monkeypatch.setitem(sys.modules, "botocore.session", session)


def sign(message):
    """The signature by the documents of AWS (Signature Version 4, presigned URL), worked out anew."""
    scope = message["x-amz-credential"].partition("/")[2]
    fields = {
        "Action": "kafka-cluster:Connect",
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": message["x-amz-credential"],
        "X-Amz-Date": message["x-amz-date"],
        "X-Amz-Expires": message["x-amz-expires"],
        "X-Amz-Security-Token": TOKEN,
        "X-Amz-SignedHeaders": "host",
    }
    query = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in sorted(fields.items()))
    request = "\n".join(["GET", "/", query, f"host:{HOST}", "", "host", hashlib.sha256(b"").hexdigest()])
    text = "\n".join(["AWS4-HMAC-SHA256", message["x-amz-date"], scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{KEY}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def test_a_token_for_aws_is_signed(botocore):
    options = login_options(ClientSettings.model_validate(IAM), Secrets())
    mechanism = get_sasl_mechanism(options["sasl_mechanism"])(host=HOST, security_protocol="SASL_SSL", **options)
    message = json.loads(mechanism.auth_bytes())
    assert message["host"] == HOST
    assert message["x-amz-security-token"] == TOKEN
    assert message["x-amz-credential"].split("/")[::2] == [KEY_ID, REGION, "aws4_request"]
    assert message["x-amz-signature"] == sign(message)


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore", None)
    with pytest.raises(ConfigError, match=r"partition-health\[iam\]"):
        login_options(ClientSettings.model_validate(IAM), Secrets())


@pytest.mark.parametrize("lasts", [None, "x", -1])
def test_a_token_without_a_time_that_can_be_is_asked_for_each_time(monkeypatch, lasts):
    asked = []
    monkeypatch.setattr(
        ClientCredentials, "_ask", lambda _: asked.append(1) or {"access_token": "t", "expires_in": lasts}
    )
    provider = ClientCredentials(ClientSettings.model_validate(OAUTH), Secrets("s"))
    assert [provider.token(), provider.token(), len(asked)] == ["t", "t", 2]


ANSWERS = {
    "one that drips": (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"x", 0.1),
    "one without an end": (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * (1 << 16), 0.0),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_of_a_token_server_has_one_deadline_and_an_end(monkeypatch, answer):
    monkeypatch.setattr(diagnosis, "_TIMEOUT_S", 1.0)
    head, part, pause_s = ANSWERS[answer]
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(head)
                for _ in range(1_000):
                    connection.sendall(part)
                    time.sleep(pause_s)

        threading.Thread(target=serve, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/token"
        settings = OAUTH | {"sasl.oauthbearer.token.endpoint.url": url}
        began_s = time.monotonic()
        with pytest.raises(
            SourceUnreachableError, match=r"gives no token: (ReadTimeout: no whole answer|ValueError: more than)"
        ):
            ClientCredentials(ClientSettings.model_validate(settings), Secrets("s")).token()
        assert time.monotonic() - began_s < 60  # it sends for 100 s

"""How a client logs in, and why a broker cannot be used: name, port, encryption, login. The client library only ever says "timeout".

Each address is asked once, step by step as a client would; after a refused login no second is tried: it could lock the account.
References: Kafka protocol guide (ApiVersions v0, SaslHandshake v1, SaslAuthenticate v0, Metadata v1), KIP-255, RFC 7628, RFC 6749 4.4.
"""

import importlib
import json
import socket
import ssl
import struct
import time
from collections.abc import Sequence
from typing import Any

from kafka.errors import IllegalSaslStateError, KafkaConfigurationError, KafkaError, UnsupportedSaslMechanismError
from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from pipeline.errors import ConfigError, SourceUnreachableError
from pipeline.sources.live.settings import ClientSettings, LiveSettings, Secrets

OAUTHBEARER, AWS_MSK_IAM = "OAUTHBEARER", "AWS_MSK_IAM"
_TIMEOUT_S = 10.0
_MOST_TOKEN_BYTES = 1 << 20
_EARLY_S = 60.0  # a token is renewed so long before it expires


def login_options(settings: ClientSettings, secrets: Secrets) -> dict[str, Any]:
    """Options for kafka-python's mechanisms, secrets included: never log them; `ConfigError` without a package it needs."""
    options: dict[str, Any] = {"sasl_mechanism": settings.sasl_mechanism}
    if settings.sasl_mechanism == AWS_MSK_IAM:
        try:
            importlib.import_module("botocore")
        except ImportError:
            advice = "pip install 'partition-health[iam]'"
            raise ConfigError(f"sasl.mechanism AWS_MSK_IAM needs botocore: {advice}") from None
        return options
    if settings.sasl_mechanism == OAUTHBEARER:
        return options | {"sasl_oauth_token_provider": ClientCredentials(settings, secrets)}
    return options | {"sasl_plain_username": settings.sasl_username, "sasl_plain_password": secrets.password}


class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """Tokens of an OAuth 2 server for a client's id and secret, each used until it is about to expire."""

    def __init__(self, settings: ClientSettings, secrets: Secrets) -> None:
        self._settings, self._secrets = settings, secrets
        self._token, self._valid_until_s = "", 0.0

    def token(self) -> str:
        if time.monotonic() >= self._valid_until_s:
            answer = self._ask()
            self._token = str(answer["access_token"])
            lasts_s = answer.get("expires_in")
            self._valid_until_s = time.monotonic() + (lasts_s if isinstance(lasts_s, (int, float)) else 0) - _EARLY_S
        return self._token

    def _ask(self) -> dict[str, Any]:
        import httpx  # noqa: PLC0415 - a tenth of a second that only a login by OAuth 2 needs

        from pipeline.http_request import EXCHANGE_ERRORS, exchange_once  # noqa: PLC0415 - it loads httpx

        url, scope = self._settings.sasl_oauthbearer_token_endpoint_url or "", self._settings.sasl_oauthbearer_scope
        form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
        login = (self._settings.sasl_username or "", self._secrets.password or "")

        try:
            client = httpx.AsyncClient(timeout=_TIMEOUT_S, auth=login)
            request = client.build_request("POST", url, data=form)
            reply, body = exchange_once(client, request, _MOST_TOKEN_BYTES, reads_accepted=True)
            reply.raise_for_status()
            if len(body) > _MOST_TOKEN_BYTES:
                raise ValueError(f"more than {_MOST_TOKEN_BYTES:,} bytes")
            answer: dict[str, Any] = json.loads(body)
            if "access_token" not in answer:
                raise SourceUnreachableError(f"{url} gives no access_token")
        except httpx.HTTPStatusError as error:
            raise SourceUnreachableError(f"{url} refuses {login[0]}: HTTP {error.response.status_code}") from error
        except (*EXCHANGE_ERRORS, TypeError) as error:
            raise SourceUnreachableError(f"{url} gives no token: {type(error).__name__}: {error}") from error
        return answer


PROBE_TIMEOUT_S = 5.0
_RECEIVE_BYTES = 1 << 16
_MOST_FINAL = 2  # one broker that refuses stops no run, and a wrong password locks no account


class ProbeError(Exception):
    """Why an address cannot be used; `is_final` where an honest cluster's other addresses would give the same answer."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.is_final = reason, is_final


def find_address(source: LiveSettings, addresses: Sequence[str], secrets: Secrets, *, log_in: bool = True) -> str:
    """Tries addresses until one serves; `SourceUnreachableError` says why none does, `ConfigError`: no certificate."""
    failures: dict[str, ProbeError] = {}
    timeout_s = min(PROBE_TIMEOUT_S, source.connect_timeout.total_seconds())
    for address in addresses:
        host, _, port = address.rpartition(":")
        failure = probe_broker(host.strip("[]"), int(port), source.client, secrets, timeout_s=timeout_s, log_in=log_in)
        if failure is None:
            return address
        failures[address] = failure
        if sum(one.is_final for one in failures.values()) == _MOST_FINAL:
            break
    reasons = {failure.reason for failure in failures.values()}
    if len(reasons) > 1:
        reasons = {"; ".join(f"{address}: {failure.reason}" for address, failure in failures.items())}
    raise SourceUnreachableError(f"live cluster {', '.join(addresses)}: {reasons.pop()}")


def probe_broker(
    host: str, port: int, settings: ClientSettings, secrets: Secrets, *, timeout_s: float, log_in: bool
) -> ProbeError | None:
    """Does what a client does at a broker, each step in `timeout_s`, without `log_in` up to the login; None where it serves; `ConfigError`."""
    try:
        with _connect(host, port, timeout_s) as plain:
            stream = _encrypt(plain, host, port, settings, secrets) if settings.uses_tls else plain
            with stream:
                wire = _Wire(stream, settings)
                _ask_versions(wire, host, port, timeout_s)
                if log_in and settings.uses_sasl:
                    _log_in(wire, host, settings, secrets)
                if log_in:
                    _ask_metadata(wire, settings)
    except ProbeError as error:
        return error
    return None


def _connect(host: str, port: int, timeout_s: float) -> socket.socket:
    try:
        return socket.create_connection((host, port), timeout=timeout_s)
    except socket.gaierror as error:
        reason = f"the name {host} does not resolve here ({error.strerror}): DNS, or a misspelt host"
        raise ProbeError(reason) from error
    except ConnectionRefusedError as error:
        raise ProbeError(f"port {port} of {host} refuses connections: no broker listens there") from error
    except TimeoutError as error:
        reason = f"{host}:{port} does not answer within {timeout_s:.0f} s: host down, or a firewall"
        raise ProbeError(reason) from error
    except OSError as error:
        raise ProbeError(f"{host}:{port} cannot be reached: {error.strerror or error}") from error


def _encrypt(plain: socket.socket, host: str, port: int, settings: ClientSettings, secrets: Secrets) -> ssl.SSLSocket:
    timeout_s = plain.gettimeout()  # a failed handshake takes the socket with it
    try:
        return settings.tls_context(secrets).wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        reason = f"the broker's certificate is not accepted: {error.verify_message}; see ssl.truststore.location"
        raise ProbeError(reason, is_final=True) from error
    except (ssl.SSLError, ConnectionError, TimeoutError) as error:
        if _speaks_kafka(host, port, timeout_s, settings):
            reason = "TLS was tried on a port that speaks plain text: security.protocol should be without SSL"
            raise ProbeError(reason, is_final=True) from error
        raise ProbeError(f"the TLS handshake failed: {getattr(error, 'reason', None) or error}") from error


def _speaks_kafka(host: str, port: int, timeout_s: float | None, settings: ClientSettings) -> bool:
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as plain:
            return _Wire(plain, settings).ask(ApiVersionsRequest(version=0)) is not None
    except (OSError, ProbeError):
        return False


def _speaks_tls(host: str, port: int, timeout_s: float) -> bool:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as plain, context.wrap_socket(plain):
            return True
    except ssl.SSLError as error:  # an alert about a missing client certificate is TLS all the same
        return "alert" in str(error).lower()
    except OSError:
        return False


class _Wire:
    def __init__(self, stream: socket.socket, settings: ClientSettings) -> None:
        self._stream = stream
        self._protocol = KafkaProtocol(client_id=settings.client_id)

    def ask(self, request: Any) -> Any | None:
        """The response; None where the broker closes the connection, or what it sends is not Kafka's protocol."""
        self._protocol.send_request(request)
        limit_s = self._stream.gettimeout() or PROBE_TIMEOUT_S
        until_s = time.monotonic() + limit_s  # of the whole answer, however slowly it comes
        try:
            self._stream.sendall(self._protocol.send_bytes())
            while data := self._stream.recv(_RECEIVE_BYTES):
                for _, response in self._protocol.receive_bytes(data):
                    return response
                self._stream.settimeout(max(until_s - time.monotonic(), 0.001))
        except TimeoutError as error:
            raise ProbeError("the broker accepted the request but does not answer") from error
        except ssl.SSLError as error:
            raise ProbeError(f"the broker ended TLS: {error.reason}: does it want a client certificate?") from error
        except (OSError, KafkaError, struct.error):  # the last: an answer without a correlation id
            return None
        finally:
            self._stream.settimeout(limit_s)
        return None


def _ask_versions(wire: _Wire, host: str, port: int, timeout_s: float) -> None:
    if wire.ask(ApiVersionsRequest(version=0)) is not None:
        return
    if _speaks_tls(host, port, timeout_s):
        reason = "plain text was sent to a port that speaks TLS: security.protocol should be SSL or SASL_SSL"
        raise ProbeError(reason, is_final=True)
    raise ProbeError(f"{host}:{port} closes the connection: no Kafka broker, or one that refuses this client")


def _log_in(wire: _Wire, host: str, settings: ClientSettings, secrets: Secrets) -> None:
    name, user = settings.sasl_mechanism, settings.sasl_username
    reply = wire.ask(SaslHandshakeRequest(mechanism=name, version=1))
    if reply is None:
        raise ProbeError("the broker closed the connection at the login")
    if reply.error_code == IllegalSaslStateError.errno:
        reason = "a login was tried on a port that needs none: set security.protocol without SASL"
        raise ProbeError(reason, is_final=True)
    if reply.error_code == UnsupportedSaslMechanismError.errno:
        offered = ", ".join(reply.mechanisms)
        raise ProbeError(f"sasl.mechanism {name} is not offered; the broker has {offered}", is_final=True)
    options = login_options(settings, secrets)
    mechanism = get_sasl_mechanism(name)(host=host, security_protocol=settings.security_protocol, **options)
    while not mechanism.is_done():
        try:
            request = SaslAuthenticateRequest(mechanism.auth_bytes(), version=0)
        except SourceUnreachableError as error:  # no token
            raise ProbeError(str(error), is_final=True) from error
        except (KafkaConfigurationError, AttributeError) as error:  # no region, no credentials: the library says so
            reason = f"no AWS credentials or region here ({error}): set AWS_PROFILE or AWS_ACCESS_KEY_ID, AWS_REGION"
            raise ProbeError(f"{name}: {reason}", is_final=True) from error
        reply = wire.ask(request)
        if reply is None:
            raise ProbeError("the broker closed the connection at the login", is_final=True)
        if reply.error_code:
            text = reply.error_message or f"error {reply.error_code}"
            raise ProbeError(f"the login of {user or 'this role'} by {name} is refused: {text}", is_final=True)
        _take_answer(mechanism, reply.auth_bytes)
    if not mechanism.is_authenticated():
        raise ProbeError(f"the login of {user or 'this role'} did not succeed", is_final=True)


def _take_answer(mechanism: Any, answer: bytes) -> None:
    try:
        mechanism.receive(answer)
    except (ValueError, LookupError, TypeError) as error:
        raise ProbeError("the broker's answer to the login is malformed", is_final=True) from error


def _ask_metadata(wire: _Wire, settings: ClientSettings) -> None:
    if wire.ask(MetadataRequest(topics=[], version=1)) is not None:
        return
    if not settings.uses_sasl:
        raise ProbeError("the broker answers only after a login: security.protocol should be with SASL", is_final=True)
    raise ProbeError("the broker closed the connection after the login")

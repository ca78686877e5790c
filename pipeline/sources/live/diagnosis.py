"""Why a broker cannot be used: name, port, encryption, login. The client library only ever says "timeout".

Each address is asked once, step by step as a client would go: name, connection, TLS, ApiVersions, login, Metadata. The
first step that fails is the cause. A refused login ends it: no second one is tried, which could lock the account.

References:
    Kafka protocol guide: request header v1, ApiVersions v0 (also before a login), SaslHandshake v1, SaslAuthenticate v0,
    Metadata v1. A TLS listener answers plain text with an alert or closes; a SASL listener closes at Metadata; a
    listener without SASL answers SaslHandshake with ILLEGAL_SASL_STATE (34).
"""

from __future__ import annotations

import socket
import ssl
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka.net.sasl import get_sasl_mechanism

from pipeline.environment import environment_secret
from pipeline.errors import ConfigError, SourceUnreachableError

if TYPE_CHECKING:
    from pipeline.config.live_source import ClientSettings, LiveCluster

PROBE_TIMEOUT_S = 5.0
_API_VERSIONS, _SASL_HANDSHAKE, _SASL_AUTHENTICATE, _METADATA = 18, 17, 36, 3
_UNSUPPORTED_MECHANISM, _ILLEGAL_SASL_STATE = 33, 34
_TLS_ALERT = b"\x15\x03"
_MAX_REPLY_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an address does not serve; `is_final` where other addresses of the cluster would fare alike."""

    reason: str
    is_final: bool = False


class _ProbeError(Exception):
    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.failure = Failure(reason, is_final)


def find_address(source: LiveCluster, password: str | None, *, log_in: bool = True) -> str:
    """Tries the bootstrap addresses until one serves.

    Args:
        source: Addresses and settings.
        password: For the login.
        log_in: Go all the way; else only up to where a login begins.

    Returns:
        The address.

    Raises:
        SourceUnreachableError: none serves; says what is wrong with each.
        ConfigError: a secret or a certificate is not there.
    """
    failures: dict[str, Failure] = {}
    timeout_s = min(PROBE_TIMEOUT_S, source.connect_timeout.total_seconds())
    for address in source.bootstrap_servers:
        host, _, port = address.rpartition(":")
        failure = probe_broker(host.strip("[]"), int(port), source.client, password, timeout_s=timeout_s, log_in=log_in)
        if failure is None:
            return address
        failures[address] = failure
        if failure.is_final:
            break
    reasons = {failure.reason for failure in failures.values()}
    explanation = "; ".join(f"{address}: {failure.reason}" for address, failure in failures.items())
    if len(reasons) == 1:
        explanation = reasons.pop()
    raise SourceUnreachableError(f"live cluster {', '.join(source.bootstrap_servers)}: {explanation}")


def probe_broker(
    host: str,
    port: int,
    settings: ClientSettings,
    password: str | None,
    *,
    timeout_s: float = PROBE_TIMEOUT_S,
    log_in: bool = True,
) -> Failure | None:
    """Goes the way of a client to one broker, up to the answer to a Metadata request.

    Args:
        host: Name or address.
        port: Port.
        settings: How to connect.
        password: For the login.
        timeout_s: For each step.
        log_in: Go all the way; else only up to where a login begins.

    Returns:
        None where the broker answers.

    Raises:
        ConfigError: a secret or a certificate is not there.
    """
    try:
        with _connect(host, port, timeout_s) as plain:
            stream = _encrypt(plain, host, port, settings) if settings.uses_tls else plain
            with stream:
                wire = _Wire(stream, settings)
                _ask_versions(wire, host, port, timeout_s)
                if log_in and settings.uses_sasl:
                    _log_in(wire, host, settings, password)
                if log_in:
                    _ask_metadata(wire, settings)
    except _ProbeError as error:
        return error.failure
    return None


def _connect(host: str, port: int, timeout_s: float) -> socket.socket:
    try:
        return socket.create_connection((host, port), timeout=timeout_s)
    except socket.gaierror as error:
        raise _ProbeError(
            f"the name {host} does not resolve here ({error.strerror}): DNS, or a misspelt host"
        ) from error
    except ConnectionRefusedError as error:
        raise _ProbeError(f"port {port} of {host} refuses connections: no broker listens there") from error
    except TimeoutError as error:
        raise _ProbeError(
            f"{host}:{port} does not answer within {timeout_s:.0f} s: host down, or a firewall"
        ) from error
    except OSError as error:
        raise _ProbeError(f"{host}:{port} cannot be reached: {error.strerror or error}") from error


def _encrypt(plain: socket.socket, host: str, port: int, settings: ClientSettings) -> ssl.SSLSocket:
    timeout_s = plain.gettimeout()  # a failed handshake takes the socket with it
    try:
        return _tls_context(settings).wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise _ProbeError(
            f"the broker's certificate is not accepted: {error.verify_message}; see ssl.truststore.location",
            is_final=True,
        ) from error
    except (ssl.SSLError, ConnectionError, TimeoutError) as error:
        if _speaks_kafka(host, port, timeout_s, settings):
            reason = "TLS was tried on a port that speaks plain text: security.protocol should be without SSL"
            raise _ProbeError(reason, is_final=True) from error
        raise _ProbeError(f"the TLS handshake failed: {getattr(error, 'reason', None) or error}") from error


def _tls_context(settings: ClientSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ssl_truststore_location)
        if settings.ssl_keystore_location is not None:
            password = environment_secret(settings.ssl_key_password_variable)
            context.load_cert_chain(settings.ssl_keystore_location, settings.ssl_key_location, lambda: password or "")
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"ssl.truststore.location or ssl.keystore.location cannot be used: {error}") from error
    context.check_hostname = settings.ssl_endpoint_identification_algorithm == "https"
    return context


def _speaks_kafka(host: str, port: int, timeout_s: float | None, settings: ClientSettings) -> bool:
    """Whether the port a TLS handshake failed on answers plain requests; asked over a connection of its own."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as plain:
            return _Wire(plain, settings).ask(_API_VERSIONS, 0, b"") is not None
    except (OSError, _ProbeError):
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
    """Requests by hand, one at a time."""

    def __init__(self, stream: socket.socket, settings: ClientSettings) -> None:
        self._stream = stream
        self._client_id = settings.client_id.encode()

    def ask(self, api_key: int, version: int, body: bytes) -> bytes | None:
        """The reply after its correlation id; None where the broker closed the connection instead."""
        head = struct.pack(">hhih", api_key, version, 1, len(self._client_id)) + self._client_id
        try:
            self._stream.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
            size_bytes = self._receive(4)
            if size_bytes is None:
                return None
            (length,) = struct.unpack(">i", size_bytes)
            if size_bytes.startswith(_TLS_ALERT) or not 4 <= length <= _MAX_REPLY_BYTES:
                return size_bytes if size_bytes.startswith(_TLS_ALERT) else None
            reply = self._receive(length)
        except TimeoutError as error:
            raise _ProbeError("the broker took the request and does not answer") from error
        except ssl.SSLError as error:
            raise _ProbeError(f"the broker ended TLS: {error.reason}: does it want a client certificate?") from error
        except OSError:
            return None
        return None if reply is None else reply[4:]

    def _receive(self, length: int) -> bytes | None:
        received = bytearray()
        while len(received) < length:
            part = self._stream.recv(length - len(received))
            if not part:
                return None
            received += part
            if received.startswith(_TLS_ALERT):
                return bytes(received[:4])
        return bytes(received)


def _ask_versions(wire: _Wire, host: str, port: int, timeout_s: float) -> None:
    reply = wire.ask(_API_VERSIONS, 0, b"")
    if reply is not None and not reply.startswith(_TLS_ALERT):
        return
    if reply is not None or _speaks_tls(host, port, timeout_s):
        reason = "plain text was sent to a port that speaks TLS: security.protocol should be SSL or SASL_SSL"
        raise _ProbeError(reason, is_final=True)
    raise _ProbeError(f"{host}:{port} closes the connection: no Kafka broker, or one that refuses this client")


def _log_in(wire: _Wire, host: str, settings: ClientSettings, password: str | None) -> None:
    mechanism_name = settings.sasl_mechanism or ""
    reply = wire.ask(_SASL_HANDSHAKE, 1, _string(mechanism_name))
    if reply is None:
        raise _ProbeError("the broker closed the connection at the login")
    (code,) = struct.unpack_from(">h", reply)
    if code == _ILLEGAL_SASL_STATE:
        reason = "a login was tried on a port that asks for none: security.protocol should be without SASL"
        raise _ProbeError(reason, is_final=True)
    if code == _UNSUPPORTED_MECHANISM:
        offered = ", ".join(_strings(reply[2:]))
        raise _ProbeError(f"sasl.mechanism {mechanism_name} is not offered; the broker has {offered}", is_final=True)
    mechanism = get_sasl_mechanism(mechanism_name)(
        host=host,
        sasl_mechanism=mechanism_name,
        sasl_plain_username=settings.sasl_username,
        sasl_plain_password=password,
    )
    while not mechanism.is_done():
        token = mechanism.auth_bytes()
        reply = wire.ask(_SASL_AUTHENTICATE, 0, struct.pack(">i", len(token)) + token)
        if reply is None:
            raise _ProbeError("the broker closed the connection at the login", is_final=True)
        (code,) = struct.unpack_from(">h", reply)
        if code != 0:
            said, _ = _nullable_string(reply, 2)
            reason = f"the login of {settings.sasl_username} by {mechanism_name} is refused: {said or f'error {code}'}"
            raise _ProbeError(reason, is_final=True)
        _, after = _nullable_string(reply, 2)
        (length,) = struct.unpack_from(">i", reply, after)
        mechanism.receive(reply[after + 4 : after + 4 + max(0, length)])
    if not mechanism.is_authenticated():
        raise _ProbeError(f"the login of {settings.sasl_username} did not succeed", is_final=True)


def _ask_metadata(wire: _Wire, settings: ClientSettings) -> None:
    if wire.ask(_METADATA, 1, struct.pack(">i", 0)) is not None:
        return
    if not settings.uses_sasl:
        reason = "the broker answers nobody who has not logged in: security.protocol should be with SASL"
        raise _ProbeError(reason, is_final=True)
    raise _ProbeError("the broker closed the connection after the login")


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def _nullable_string(data: bytes, at: int) -> tuple[str | None, int]:
    (length,) = struct.unpack_from(">h", data, at)
    if length < 0:
        return None, at + 2
    return data[at + 2 : at + 2 + length].decode(errors="replace"), at + 2 + length


def _strings(data: bytes) -> list[str]:
    (count,) = struct.unpack_from(">i", data)
    at, found = 4, []
    for _ in range(max(0, count)):
        text, at = _nullable_string(data, at)
        found.append(text or "")
    return found

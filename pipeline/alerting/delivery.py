"""The one door mail leaves by, at least once: an SMTP server (RFC 5321, 3207, 4954), or files in the outbox folder."""

import contextlib
import io
import math
import smtplib
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any

from pipeline.alerting.message import WINDOW_HEADER
from pipeline.config.mail import Smtp
from pipeline.errors import DeliveryError, UnusableServerError
from pipeline.files import check_regular, replace_file
from pipeline.http_request import describe_words
from pipeline.model.number_text import format_slug

_MOST_ANSWER_BYTES = 65_536
_MOST_TIMEOUTS = 20
_LEAST_S = 0.001  # a time-out of 0 means none to a socket


class _Answer(io.RawIOBase):
    """What a server sends: an answer comes in the socket's time-out, however slowly, or is refused; so is an endless one."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket, self._limit_s = connection, connection.gettimeout()

    def begin(self, until_s: float | None) -> None:
        self._until_s = time.monotonic() + (self._limit_s or 0) if until_s is None else until_s
        self._left = _MOST_ANSWER_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - a writable buffer
        if self._left <= 0:
            raise OSError(f"an answer of more than {_MOST_ANSWER_BYTES:,} bytes")
        if self._limit_s is not None:
            self._socket.settimeout(max(self._until_s - time.monotonic(), _LEAST_S))
        try:
            count = self._socket.recv_into(buffer)
        finally:
            self._socket.settimeout(self._limit_s)
        self._left -= count
        return count


class _Bounded(smtplib.SMTP):
    """smtplib's client, whose time-outs are for a whole answer, for all addresses of a name, and 20 of them for a session.

    Who has the whole message may take what is left of the session to answer, as for a scan: who gives up sends it twice (RFC 5321, 4.5.3.2.6).
    """

    _until_s = math.inf
    _has_message = False

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        self._until_s = time.monotonic() + _MOST_TIMEOUTS * timeout
        count = len({found[4] for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)})
        connection: socket.socket = super()._get_socket(host, port, timeout / max(count, 1))  # type: ignore[misc]
        connection.settimeout(timeout)
        return connection

    def data(self, msg: Any) -> tuple[int, bytes]:  # noqa: ANN401 - as smtplib has it
        self._has_message = True
        try:
            return super().data(msg)
        finally:
            self._has_message = False

    def getreply(self) -> tuple[int, bytes]:
        if time.monotonic() > self._until_s:
            self.close()
            raise smtplib.SMTPServerDisconnected(f"all its answers together took {_MOST_TIMEOUTS} time-outs")
        if self.sock is not None and self.file is None:  # smtplib makes its own otherwise, also after STARTTLS
            self._answer = _Answer(self.sock)
            self.file = io.BufferedReader(self._answer)
        if self.file is not None:
            self._answer.begin(self._until_s if self._has_message else None)
        return super().getreply()


class _BoundedSsl(_Bounded, smtplib.SMTP_SSL):
    """The same with TLS from the start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Target of a delivered message; recipients that the server `refused` for good, and those `put_off` (4xx), each with its answer."""

    delivered_to: str
    refused: tuple[str, ...] = ()
    put_off: Mapping[str, str] = field(default_factory=dict)

    def describe_rest(self) -> str:
        return f"{self.delivered_to} put off {'; '.join(self.put_off.values())}; the others have the message"


def deliver(
    payload: bytes, recipients: Sequence[str], *, smtp: Smtp | None, outbox_folder: Path, message_id: str
) -> Delivery:
    """Delivers a message over SMTP, or as an `.eml` file; `DeliveryError`, `UnusableServerError` or `ConfigError` if nobody got it."""
    message: EmailMessage = message_from_bytes(payload, policy=SMTP)
    if smtp is None:  # a file named by the window, then the id: `2026-11-21T09-06-00Z_K-1-new_demo.eml`
        window = str(message.get(WINDOW_HEADER, ""))
        name = "_".join(format_slug(part, 80) for part in message_id.partition("@")[0].split("."))
        target = outbox_folder / (f"{format_slug(window)}_{name}.eml" if window else f"{name}.eml")
        try:
            outbox_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(target, payload)
        except OSError as error:
            raise DeliveryError(f"{target}: the message could not be written: {error}") from error
        return Delivery(delivered_to=str(target))
    if not recipients:
        raise DeliveryError(f"message {message_id} has no recipients")
    with _session(smtp) as server:
        refused = server.sendmail(str(message["From"].addresses[0].addr_spec), recipients, payload)
    said = {address: _describe_replies({address: reply}, smtp) for address, reply in sorted(refused.items())}
    return Delivery(
        delivered_to=address_of(smtp),
        refused=tuple(text for address, text in said.items() if refused[address][0] >= 500),
        put_off={address: text for address, text in said.items() if refused[address][0] < 500},
    )


def probe(smtp: Smtp) -> str:
    """Logs in as a delivery would; `smtp://mail:587, STARTTLS, AUTH as alerts`. `UnusableServerError` says what fails."""
    with _session(smtp) as server:
        server.noop()
    spoken = {"none": "no TLS", "starttls": "STARTTLS", "tls": "TLS"}[smtp.tls]
    return ", ".join((address_of(smtp), spoken, f"AUTH as {smtp.user}" if smtp.user else "no AUTH"))


def address_of(smtp: Smtp) -> str:
    return f"smtp://{smtp.host}:{smtp.port}"


@contextlib.contextmanager
def _session(smtp: Smtp) -> Iterator[smtplib.SMTP]:
    """A session after TLS and login. An error during QUIT is ignored: the server has answered by then."""
    try:
        server = _open(smtp)
    except (smtplib.SMTPException, OSError, ValueError) as error:  # the last: a user or password smtplib cannot send
        raise UnusableServerError(_describe_error(error, smtp)) from None  # the cause may hold the password
    try:
        yield server
    except (smtplib.SMTPException, OSError, ValueError, LookupError) as error:  # addresses smtplib cannot send, too
        server.close()
        raise DeliveryError(_describe_error(error, smtp)) from None
    with contextlib.suppress(smtplib.SMTPException, OSError):
        server.quit()


def _open(smtp: Smtp) -> smtplib.SMTP:
    password = smtp.password if smtp.user is not None else None
    check_regular(smtp.ca_file)
    context = ssl.create_default_context(cafile=smtp.ca_file)
    if smtp.tls == "tls":
        server: smtplib.SMTP = _BoundedSsl(smtp.host, smtp.port, timeout=smtp.timeout_s, context=context)
    else:
        server = _Bounded(smtp.host, smtp.port, timeout=smtp.timeout_s)
    try:
        if smtp.tls == "starttls":
            server.starttls(context=context)
        if smtp.user is not None:
            server.login(smtp.user, password or "")
    except BaseException:
        server.close()
        raise
    return server


def _describe_error(error: Exception, smtp: Smtp) -> str:
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return f"{address_of(smtp)} refused {_describe_replies(error.recipients, smtp)}"
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{address_of(smtp)} answered {error.smtp_code}: {describe_words(error.smtp_error, smtp.hide)}"
    if isinstance(error, UnicodeError):  # its words have a character of it
        return f"{address_of(smtp)}: {type(error).__name__}: user, password or an address is not ASCII"
    return f"{address_of(smtp)}: {type(error).__name__}: {describe_words(str(error), smtp.hide)}"


def _describe_replies(replies: Mapping[str, tuple[int, bytes]], smtp: Smtp) -> str:
    said = sorted(replies.items())
    return "; ".join(f"{address}: {code} {describe_words(text, smtp.hide)}" for address, (code, text) in said)

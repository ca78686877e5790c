"""Real SMTP servers (aiosmtpd) that behave as servers do: take, refuse, put off, die."""

# ruff: noqa: N802 - aiosmtpd calls its hooks so
import contextlib
from dataclasses import dataclass, field

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from pipeline.config.mail import Smtp
from tests.lab.process import free_ports


def free_port():
    (port,) = free_ports(1)
    return port


@dataclass
class Mailbox:
    """Takes every message and keeps what came."""

    kept: list[bytes] = field(default_factory=list)
    senders: list[str] = field(default_factory=list)
    recipients: list[list[str]] = field(default_factory=list)

    async def handle_DATA(self, server, session, envelope):
        self.kept.append(envelope.original_content)
        self.senders.append(envelope.mail_from)
        self.recipients.append(list(envelope.rcpt_tos))
        return "250 kept"


@dataclass
class Picky(Mailbox):
    """Answers recipients as told, such as `{"gone@x": "550 no such user"}`."""

    answers: dict[str, str] = field(default_factory=dict)

    async def handle_RCPT(self, server, session, envelope, address, options):
        answer = self.answers.get(address, "250 fine")
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return answer


@dataclass
class Greylist(Mailbox):
    """Puts every recipient off at its first try."""

    seen: set[str] = field(default_factory=set)

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address not in self.seen:
            self.seen.add(address)
            return "451 4.7.1 greylisted, try again later"
        envelope.rcpt_tos.append(address)
        return "250 fine"


@dataclass
class Full(Mailbox):
    """Refuses the data."""

    async def handle_DATA(self, server, session, envelope):
        return "552-mailbox full\r\n552 second line"


@dataclass
class DiesBeforeAnswering(Mailbox):
    """Keeps the message and drops the connection without a word: nobody can know."""

    async def handle_DATA(self, server, session, envelope):
        await super().handle_DATA(server, session, envelope)
        server.transport.abort()
        return "250 never seen"


@dataclass
class DiesAfterAnswering(Mailbox):
    """Says 250, then drops the connection when the client says good-bye."""

    async def handle_QUIT(self, server, session, envelope):
        server.transport.abort()
        return "221 never seen"


def authenticate(server, session, envelope, mechanism, auth_data):
    is_right = (auth_data.login, auth_data.password) == (b"alerts", b"s3cr3t")
    return AuthResult(success=is_right, handled=False)


@contextlib.contextmanager
def serving(handler, *, settings=(), **arguments):
    """Runs a server and yields the settings that reach it."""
    controller = Controller(handler, hostname="127.0.0.1", port=free_port(), ready_timeout=60, **arguments)
    controller.start()
    try:
        yield Smtp(**{"host": "127.0.0.1", "port": controller.port, "tls": "none", **dict(settings)})
    finally:
        controller.stop()

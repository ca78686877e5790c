"""Delivery by SMTP and into files. Oracle: what real SMTP servers received, and RFC 5321's meaning of their replies."""

import asyncio
import datetime
import gc
import ipaddress
import socket
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pipeline.alerting import delivery
from pipeline.alerting.delivery import deliver, probe
from pipeline.alerting.incident_mail import describe_broker_share
from pipeline.alerting.message import render_message
from pipeline.config.mail import Smtp
from pipeline.errors import ConfigError, DeliveryError
from tests.unit.alerting.examples import T0_MS, new_evidence
from tests.unit.alerting.smtp_servers import (
    DiesAfterAnswering,
    DiesBeforeAnswering,
    Full,
    Greylist,
    Mailbox,
    Picky,
    authenticate,
    free_port,
    serving,
)
from tests.unit.sources.http_servers import answering

MAIL = render_message(
    describe_broker_share(new_evidence()), sender="Health <health@x.org>", recipients=["ops@x.org"], now_ms=T0_MS
)


def send(smtp, folder, recipients=("ops@x.org",), mail=MAIL):
    return deliver(mail.payload, recipients, smtp=smtp, outbox_folder=folder, message_id=mail.message_id)


def test_a_server_gets_the_bytes_that_were_queued(tmp_path):
    with serving(mailbox := Mailbox()) as smtp:
        delivery = send(smtp, tmp_path)
    assert mailbox.kept == [MAIL.payload]
    assert (mailbox.senders, mailbox.recipients) == (["health@x.org"], [["ops@x.org"]])
    assert delivery.delivered_to == f"smtp://127.0.0.1:{smtp.port}"
    assert delivery.refused == ()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (Picky(answers={"ops@x.org": "550 5.1.1 no such user"}), "refused ops@x.org: 550 5.1.1 no such user"),
        (Greylist(), "refused ops@x.org: 451 4.7.1 greylisted, try again later"),
        (Full(), r"answered 552: mailbox full\nsecond line"),
        (DiesBeforeAnswering(), "Connection unexpectedly closed"),
    ],
)
def test_a_message_nobody_took_is_an_error_with_the_servers_words(handler, said, tmp_path):
    with serving(handler) as smtp, pytest.raises(DeliveryError) as raised:
        send(smtp, tmp_path)
    assert said in str(raised.value)
    assert f"smtp://127.0.0.1:{smtp.port}" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_connection_over_which_nobody_took_a_message_is_closed_while_the_error_lives(tmp_path):
    with serving(Full()) as smtp, pytest.raises(DeliveryError) as raised:
        send(smtp, tmp_path)
    sockets = [one for one in gc.get_objects() if isinstance(one, socket.socket) and one.fileno() >= 0]
    assert raised.value
    assert [one for one in sockets if f"', {smtp.port})>" in repr(one)] == []


def test_a_connection_cut_after_the_servers_250_is_a_delivery(tmp_path):
    with serving(mailbox := DiesAfterAnswering()) as smtp:
        send(smtp, tmp_path)
    assert len(mailbox.kept) == 1


def test_recipients_put_off_are_told_from_those_refused_and_the_others_have_it(tmp_path):
    """It was an error, after which all of them got the message again."""
    with serving(mailbox := Picky(answers={"slow@x.org": "450 later", "gone@x.org": "550 gone"})) as smtp:
        delivery = send(smtp, tmp_path, recipients=["slow@x.org", "ops@x.org", "gone@x.org"])
    assert mailbox.recipients == [["ops@x.org"]]
    assert (delivery.put_off, delivery.refused) == ({"slow@x.org": "slow@x.org: 450 later"}, ("gone@x.org: 550 gone",))
    assert delivery.describe_rest().endswith("put off slow@x.org: 450 later; the others have the message")


def test_no_server_there_is_an_error(tmp_path):
    smtp = Smtp(host="127.0.0.1", port=free_port(), tls="none", timeout_s=2)
    with pytest.raises(DeliveryError, match="ConnectionRefusedError"):
        send(smtp, tmp_path)


def test_a_silent_server_times_out(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        smtp = Smtp(host="127.0.0.1", port=silent.getsockname()[1], tls="none", timeout_s=0.2)
        with pytest.raises(DeliveryError, match="timed out"):
            send(smtp, tmp_path)


@pytest.mark.parametrize(
    ("first", "then", "limit_s", "said"),
    [
        ((), b"2", 0.3, "timed out"),
        ((b"220 hello\r\n", b"250-"), b"x", 0.3, "timed out"),
        ((b"220 hello\r\n",), b"250-x\r\n", 0.3, "timed out"),
        ((b"220 hello\r\n",), b"250-x\r\n" * 1_000, 60, "an answer of more than 65,536 bytes"),
    ],
    ids=["the greeting", "a line", "lines", "memory"],
)
def test_an_answer_has_one_deadline_and_an_end_however_it_comes(first, then, limit_s, said, tmp_path):
    """Else one server holds all mails and webhooks: one process at a time delivers."""
    with answering(*first, forever=(then,), greets=True) as url:
        smtp = Smtp(host="127.0.0.1", port=int(url.rpartition(":")[2]), tls="none", timeout_s=limit_s)
        with pytest.raises(DeliveryError, match=said):
            send(smtp, tmp_path)


def test_the_addresses_of_a_name_share_one_time_out(tmp_path, monkeypatch):
    tried = []

    def connect(address, timeout, *_):
        tried.append(timeout)
        raise TimeoutError("timed out")

    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"192.0.2.{number}", 25)) for number in range(4)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(DeliveryError, match="timed out"):
        send(Smtp(host="mail.example.org", tls="none", timeout_s=8), tmp_path)
    assert tried == [2]  # for each of the four


def test_recipients_that_are_each_answered_late_hold_mails_no_longer_than_twenty_time_outs(tmp_path, monkeypatch):
    monkeypatch.setattr(delivery, "_MOST_TIMEOUTS", 1)
    everyone = [f"{number}@x.org" for number in range(50)]
    with serving(slow := Slow()) as smtp:
        with pytest.raises(DeliveryError, match="all its answers together took 1 time-outs"):
            send(smtp.model_copy(update={"timeout_s": 4}), tmp_path, recipients=everyone)
        assert 0 < slow.asked < len(everyone)


def test_a_server_that_scans_a_message_for_longer_than_a_time_out_gets_it_once(tmp_path):
    """Oracle: RFC 5321, 4.5.3.2.6: who does not wait for the answer to a message sends it again."""
    with serving(mailbox := Scanning()) as smtp:
        assert send(smtp.model_copy(update={"timeout_s": 3}), tmp_path).delivered_to == f"smtp://127.0.0.1:{smtp.port}"
    assert mailbox.kept == [MAIL.payload]


class Scanning(Mailbox):
    """Keeps a message, and thinks about it before it says so."""

    async def handle_DATA(self, server, session, envelope):  # noqa: N802 - aiosmtpd's name
        answer = await super().handle_DATA(server, session, envelope)
        await asyncio.sleep(4)
        return answer


class Slow(Mailbox):
    """Thinks about each recipient, for much less than a time-out."""

    asked = 0

    async def handle_RCPT(self, server, session, envelope, address, options):  # noqa: N802 - aiosmtpd's name
        self.asked += 1
        await asyncio.sleep(0.3)
        envelope.rcpt_tos.append(address)
        return "250 fine"


def test_a_message_without_recipients_is_an_error(tmp_path):
    smtp = Smtp(host="127.0.0.1", port=free_port(), tls="none")
    with pytest.raises(DeliveryError, match="no recipients"):
        send(smtp, tmp_path, recipients=[])


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for 127.0.0.1, and the server side that shows it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    ip = x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([ip]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    (folder / "cert.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(key.private_bytes(*form))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return folder / "cert.pem", context


@pytest.fixture
def guarded(certificate, monkeypatch):
    """A server that wants STARTTLS and a password, trusted by this machine."""
    path, context = certificate
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    login = {"tls": "starttls", "user": "alerts", "password_variable": "MAIL_PASSWORD"}
    wanted = {"require_starttls": True, "auth_required": True, "authenticator": authenticate}
    with serving(mailbox := Mailbox(), tls_context=context, settings=login, **wanted) as smtp:
        yield mailbox, smtp


def test_starttls_and_auth(guarded, monkeypatch, tmp_path):
    mailbox, smtp = guarded
    monkeypatch.setenv("MAIL_PASSWORD", "s3cr3t")
    send(smtp, tmp_path)
    assert mailbox.kept == [MAIL.payload]
    assert probe(smtp) == f"smtp://127.0.0.1:{smtp.port}, STARTTLS, AUTH as alerts"
    assert len(mailbox.kept) == 1


def test_a_wrong_password_is_an_error_that_does_not_tell_it(guarded, monkeypatch, tmp_path):
    mailbox, smtp = guarded
    monkeypatch.setenv("MAIL_PASSWORD", "wr0ng-s3cr3t")
    with pytest.raises(DeliveryError, match="answered 535") as raised:
        send(smtp, tmp_path)
    assert "wr0ng" not in str(raised.value)
    assert mailbox.kept == []


def test_a_missing_password_is_a_configuration_error(guarded, monkeypatch, tmp_path):
    monkeypatch.delenv("MAIL_PASSWORD", raising=False)
    with pytest.raises(ConfigError, match="MAIL_PASSWORD"):
        send(guarded[1], tmp_path)


def test_a_certificate_nobody_vouches_for_is_refused(guarded, monkeypatch, tmp_path):
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    monkeypatch.setenv("MAIL_PASSWORD", "s3cr3t")
    with pytest.raises(DeliveryError, match="CERTIFICATE_VERIFY_FAILED"):
        send(guarded[1], tmp_path)


def test_a_server_without_starttls_gets_no_mail_when_it_is_wanted(tmp_path):
    with (
        serving(mailbox := Mailbox(), settings={"tls": "starttls"}) as smtp,
        pytest.raises(DeliveryError, match="STARTTLS"),
    ):
        send(smtp, tmp_path)
    assert mailbox.kept == []


def test_tls_from_the_first_byte(certificate, monkeypatch, tmp_path):
    path, context = certificate
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    with serving(mailbox := Mailbox(), settings={"tls": "tls"}, ssl_context=context) as smtp:
        send(smtp, tmp_path)
    assert mailbox.kept == [MAIL.payload]


def test_without_a_server_the_same_message_is_the_same_file(tmp_path):
    folder = tmp_path / "deep" / "outbox"
    first = send(None, folder)
    second = send(None, folder)
    assert first == second
    assert [path.name for path in folder.iterdir()] == ["2026-11-21T09-06-00Z_K-JKT62CWA-new_demo.eml"]
    assert (folder / "2026-11-21T09-06-00Z_K-JKT62CWA-new_demo.eml").read_bytes() == MAIL.payload
    assert [path.stat().st_mode & 0o077 for path in (folder, *folder.iterdir())] == [0, 0]  # its owner's


def test_a_folder_that_cannot_be_is_an_error(tmp_path):
    (tmp_path / "outbox").write_text("a file")
    with pytest.raises(DeliveryError, match="could not be written"):
        send(None, tmp_path / "outbox")

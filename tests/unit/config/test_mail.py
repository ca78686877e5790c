"""Section `mail`: what can never be sent is refused when the configuration is read."""

import pytest
from pydantic import ValidationError

from pipeline.config.mail import Mail, Smtp
from pipeline.config.section import format_problems

SOUND = ("ops@example.org", "Ops Team <ops@example.org>", "platform@localhost", "a.b+c@xn--bcher-kva.example")
WRONG = (
    "",
    "ops",
    "ops@",
    "@example.org",
    "j\u00fcrgen@example.org",
    "a@x.org, b@x.org",
    '"Ops, Team" <ops@x.org>',  # a comma parts the recipients of a message
    "ops@x.org\r\nBcc: all@x.org",
)


@pytest.mark.parametrize("address", SOUND)
def test_an_address_is_taken_as_written(address):
    assert Mail(to=(address,), sender=address).to == (address,)


@pytest.mark.parametrize("address", WRONG)
@pytest.mark.parametrize("key", ["to", "sender"])
def test_an_address_that_no_mail_can_go_to_is_refused_with_its_key(key, address):
    with pytest.raises(ValidationError) as raised:
        Mail.model_validate({key: [address] if key == "to" else address})
    message = format_problems(raised.value, Mail)
    assert message.startswith("to.0: found " if key == "to" else "sender: found ")
    assert "expected one address in ASCII" in message


@pytest.mark.parametrize(
    ("host", "tls", "is_taken"),
    [
        ("mail.example.org", "none", False),
        ("10.0.0.1", "none", False),
        ("mail.example.org", "starttls", True),
        ("mail.example.org", "tls", True),
        ("localhost", "none", True),
        ("127.0.0.1", "none", True),
    ],
)
def test_a_password_never_leaves_the_machine_in_clear(host, tls, is_taken):
    values = {"host": host, "tls": tls, "user": "alerts", "password_variable": "SMTP_PASSWORD"}
    if is_taken:
        assert Smtp.model_validate(values).tls == tls
    else:
        with pytest.raises(ValidationError, match="in clear: set tls to starttls or tls"):
            Smtp.model_validate(values)
    assert Smtp.model_validate({"host": host, "tls": "none"}).user is None

"""Mails and their parts, as the standard library reads them."""

from email import message_from_bytes
from email.policy import default


def read_mail(payload):
    return message_from_bytes(payload, policy=default)


def attached(mail, name):
    """The text of a file that comes with a mail."""
    (part,) = (part for part in mail.iter_attachments() if part.get_filename() == name)
    return part.get_payload(decode=True).decode().replace("\r\n", "\n")


def text_of(mail):
    """What a reader of plain text sees."""
    return mail.get_body(("plain",)).get_content().replace("\r\n", "\n")


def words_of(mail):
    """That in one line, however it is wrapped."""
    return " ".join(text_of(mail).split())

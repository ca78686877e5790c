"""Parts of a mail."""


def attached(mail, name):
    """The text of a file that comes with a mail."""
    (part,) = (part for part in mail.iter_attachments() if part.get_filename() == name)
    return part.get_payload(decode=True).decode().replace("\r\n", "\n")


def text_of(mail):
    """What a reader of plain text sees."""
    return mail.get_body(("plain",)).get_content().replace("\r\n", "\n")

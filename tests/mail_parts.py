"""Parts of a mail: its details come as files."""


def attached(mail, name="details.txt"):
    """The text of a file that comes with a mail."""
    (part,) = (part for part in mail.iter_attachments() if part.get_filename() == name)
    return part.get_payload(decode=True).decode().replace("\r\n", "\n")

"""A mail rendered from evidence, and read as the standard library reads it."""

from html.parser import HTMLParser

from pipeline.alerting.incident_mail import describe_broker_share
from pipeline.alerting.message import render_message
from tests import mail_parts
from tests.mail_parts import read_mail
from tests.unit.alerting.examples import MINUTE_MS, T0_MS

VOID = {"meta", "img", "br"}


def render(evidence):
    return render_message(
        describe_broker_share(evidence),
        sender="health@x.org",
        recipients=["ops@x.org", "Team <team@x.org>"],
        now_ms=T0_MS + 8 * MINUTE_MS,
    )


def parse(message):
    return read_mail(message.payload)


def text_of(message):
    return mail_parts.text_of(parse(message))


def html_of(message):
    return parse(message).get_body(("html",)).get_content().replace("\r\n", "\n")


class Reader(HTMLParser):
    """Tags that balance, the text seen, and every attribute."""

    def __init__(self, html):
        super().__init__()
        self.open, self.seen, self.attributes, self.tags = [], [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.seen.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.seen).replace("\N{NO-BREAK SPACE}", " ").split())

"""The same content as JSON, for webhooks: a generic document, or Block Kit as Slack's incoming webhooks take it."""

import json
import logging

import httpx

from pipeline.alerting.message import (
    Content,
    MailSection,
    format_subject,
    message_id_of,
    message_of,
    render_table,
    render_text,
)
from pipeline.config.mail import Webhook
from pipeline.errors import DeliveryError, UnusableServerError
from pipeline.http_request import EXCHANGE_ERRORS, REASON_LIMIT, describe_words, exchange_once
from pipeline.model.incident import AlertMessage
from pipeline.model.number_text import format_name
from pipeline.model.window import format_instant

_HEADER_LIMIT = 150
_BLOCK_LIMIT = 2_900
_CODE_LIMIT = 1_300
_FACT_LIMIT = 250  # a block holds at least ten
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_SECTIONS_SHOWN = 4


def render_webhook(content: Content, webhook: Webhook, *, now_ms: int) -> AlertMessage:
    message_id = message_id_of(content.cluster, content.key, webhook.name)
    document = _for_slack(content) if webhook.form == "slack" else _generic(content, message_id)
    payload = json.dumps(document, ensure_ascii=False, indent=1).encode("utf-8", "backslashreplace")
    return message_of(content, payload, channel=webhook.name, now_ms=now_ms)


def post(payload: bytes, webhook: Webhook, *, message_id: str) -> str:
    """Posts one message with its id as `Idempotency-Key`; returns where it went, and never the address, which is a secret."""
    headers = {"Content-Type": "application/json; charset=utf-8", "Idempotency-Key": message_id}
    # at INFO httpx logs the address of each request, which is a secret here
    logger, silence = logging.getLogger("httpx"), lambda _record: False
    logger.addFilter(silence)
    try:
        client = _make_client(webhook)
        request = client.build_request("POST", webhook.url, content=payload, headers=headers)
        answer, body = exchange_once(client, request, most_bytes=4 * REASON_LIMIT)
    except EXCHANGE_ERRORS as error:
        reason = f"webhook {webhook.name}: {type(error).__name__}; check {webhook.url_variable}"
        raise UnusableServerError(reason) from None  # the cause may hold the address
    finally:
        logger.removeFilter(silence)
    if not answer.is_success:
        said = describe_words(body, webhook.hide)
        raise DeliveryError(f"webhook {webhook.name} answered {answer.status_code}: {said}")
    return f"webhook {webhook.name}"


def _make_client(webhook: Webhook) -> httpx.AsyncClient:
    try:
        return httpx.AsyncClient(timeout=webhook.timeout_s)
    except (ImportError, ValueError, httpx.InvalidURL):  # their words may hold a proxy's password
        reason = "the proxy that HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names cannot be used; correct it, or set NO_PROXY"
        raise UnusableServerError(f"webhook {webhook.name}: {reason}") from None


def _generic(content: Content, message_id: str) -> dict[str, object]:
    return {
        "message_id": message_id,
        "cluster": content.cluster,
        "incident_id": content.incident_id,
        "state": content.state,
        "changes": list(content.tells),
        "window_start": format_instant(content.window_start_ms),
        "is_alarm": content.tone == "alarm",
        "subject": content.subject_line,
        "headline": content.headline,
        "figures": dict(content.figures),
        "text": render_text(content),
        "attachments": {attachment.name: attachment.text for attachment in content.attachments},
    }


def _for_slack(content: Content) -> dict[str, object]:
    header = {"type": "plain_text", "text": format_name(f"{content.cluster}: {content.brief.headline}", _HEADER_LIMIT)}
    facts = "\n".join(f"*{question}* {_escape(answer, _FACT_LIMIT)}" for question, answer in content.brief.facts)
    blocks: list[dict[str, object]] = [{"type": "header", "text": header}, _block(facts)]
    if content.figures:
        texts = (f"*{_escape(value)}*\n{_escape(label)}" for label, value in content.figures.items())
        blocks.append({"type": "section", "fields": [_marked(text) for text in texts]})
    blocks += [_block(_describe_section(section)) for section in content.sections[:_SECTIONS_SHOWN]]
    if content.footer:
        small = [_marked(_escape(line)) for line in (*content.footer, content.report) if line]
        blocks.append({"type": "context", "elements": small})
    return {"text": _escape(format_subject(content.subject_line)), "blocks": blocks}


def _describe_section(section: MailSection) -> str:
    words = [f"*{_escape(section.title)}*", *(_escape(paragraph, _CODE_LIMIT) for paragraph in section.text[:1])]
    if section.table is not None:
        words.append(f"```{_escape(render_table(section.table), _CODE_LIMIT)}```")
    elif section.code:
        words.append(f"```{_escape(section.code, _CODE_LIMIT)}```")
    return "\n".join(words)


def _block(text: str) -> dict[str, object]:
    return {"type": "section", "text": _marked(text)}


def _marked(text: str) -> dict[str, object]:
    """A text whose names Slack does not turn into links and mentions by itself."""
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _escape(text: str, limit: int = _BLOCK_LIMIT) -> str:
    """Escapes as Slack asks, so that a name can neither link nor call a channel; cuts long text between characters."""
    shown = []
    for char in text:
        shown.append(_ESCAPES.get(char, char))
        limit -= len(shown[-1])
        if limit < 1:
            return "".join(shown[:-1]) + "…"
    return "".join(shown)

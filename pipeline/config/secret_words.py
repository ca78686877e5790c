"""A server's words without the secrets of the exchange: many servers repeat the request in their errors."""

import base64
import html
import json
from collections import defaultdict
from collections.abc import Iterator
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

HIDDEN = "***"
_MOST_WORDS = 4_000
_LEAST_TOLD = 8
"""So many characters of a secret in a row are hidden, also where a server cut it; of a shorter one all."""
_LEAST_PART = 6  # of an address: `api`, `hook` and `v2` are no secrets
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}  # one character each, as `str.lower` is not


def hide_secrets(words: str, *secrets: str | None, user: str = "") -> str:
    """The words with `***` where they repeat a secret, or a part of it, as it is or as it is sent; cut at 4,000 characters.

    A secret may come percent-encoded, decoded, escaped for JSON or HTML, or in base64, also with `user` as logins send it.

    >>> hide_secrets("Cannot POST /services/T0/B0/SECRETHOOK", "/services/T0/B0/SECRETHOOK")
    'Cannot POST ***'
    """
    words = words[:_MOST_WORDS]
    pieces: defaultdict[int, set[str]] = defaultdict(set)
    for secret in filter(None, secrets):
        for form in _list_forms(secret, user):
            length = min(len(form), _LEAST_TOLD)
            pieces[length] |= {form[at : at + length] for at in range(len(form) - length + 1)}
    lowered, is_hidden = words.translate(_LOWER), bytearray(len(words))
    for length, wanted in pieces.items():
        for at in range(len(words) - length + 1):
            if lowered[at : at + length] in wanted:
                is_hidden[at : at + length] = b"\1" * length
    shown = []
    for at, char in enumerate(words):
        if not is_hidden[at]:
            shown.append(char)
        elif not at or not is_hidden[at - 1]:
            shown.append(HIDDEN)
    return "".join(shown)


def list_parts(url: str) -> tuple[str, ...]:
    """What is secret of an address that is a secret: all of it, and each longer part of its path and query by itself."""
    try:
        parts = urlsplit(url)
        values = [value for _, value in parse_qsl(parts.query)]
    except ValueError:
        return (url,)
    candidates = [*parts.path.split("/"), *values, *parts.netloc.rpartition("@")[0].split(":")]
    return (url, unquote(url), *(part for part in candidates if len(part) >= _LEAST_PART))


def _list_forms(secret: str, user: str) -> Iterator[str]:
    secret, user = (
        text.encode("utf-8", "replace").decode() for text in (secret, user)
    )  # a file's bytes may be no UTF-8
    plain = {secret, unquote(secret), quote(secret), quote(secret, safe=""), quote_plus(secret)}
    plain |= {html.escape(secret), json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    in_base64 = {base64.b64encode(f"{before}{secret}".encode()).decode() for before in ("", f"{user}:", f"\0{user}\0")}
    in_base64 |= {_encode_inside(secret.encode(), before) for before in range(3)}
    in_base64 |= {text.replace("+", "-").replace("/", "_") for text in in_base64}
    for form in plain | {text.rstrip("=") for text in in_base64}:
        if len(form) >= min(len(secret), 4):
            yield form.translate(_LOWER)


def _encode_inside(secret: bytes, before: int) -> str:
    """The characters of a longer base64 text that tell of a secret alone, which has so many bytes before it, modulo 3."""
    text = base64.b64encode(b"\0" * before + secret).decode()
    bits = 8 * (before + len(secret))
    return text[-(-8 * before // 6) : bits // 6]

"""What servers say about an exchange, fit for logs and tables."""

from collections.abc import Callable

from pipeline.model.number_text import format_name

REASON_LIMIT = 300


def describe_words(words: bytes | str, hide: Callable[[str], str]) -> str:
    """A server's words on one harmless line; `hide` takes the secrets of the exchange from them."""
    return format_name(hide(words.decode("utf-8", "replace") if isinstance(words, bytes) else words), REASON_LIMIT)

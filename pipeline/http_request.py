"""One HTTP request with one deadline over the whole answer, however slowly the server sends it; no redirect is followed."""

import asyncio
from collections.abc import Callable

import httpx

from pipeline.model.number_text import format_name

REASON_LIMIT = 300
EXCHANGE_ERRORS = (httpx.HTTPError, httpx.InvalidURL, ValueError)  # of making, sending or reading a request


def exchange_once(
    client: httpx.AsyncClient, request: httpx.Request, most_bytes: int, *, reads_accepted: bool = False
) -> tuple[httpx.Response, bytes]:
    """The answer and its raw body, at most a byte more than `most_bytes`; of an accepted POST only if asked. Closes the client."""
    limit_s = client.timeout.read
    request.headers["Accept-Encoding"] = "identity"

    async def send() -> tuple[httpx.Response, bytes]:
        body = bytearray()
        async with asyncio.timeout(limit_s), client:
            answer = await client.send(request, stream=True)
            if reads_accepted or request.method != "POST" or not answer.is_success:
                async for part in answer.aiter_raw():
                    body += part
                    if len(body) > most_bytes:
                        break
            await answer.aclose()
        return answer, bytes(body[: most_bytes + 1])

    try:
        return asyncio.run(send())
    except TimeoutError as error:
        raise httpx.ReadTimeout(f"no whole answer within {limit_s:g} s") from error
    except (httpx.InvalidURL, UnicodeError) as error:
        raise httpx.RemoteProtocolError(f"it redirects to an invalid address: {error}") from error


def describe_words(words: bytes | str, hide: Callable[[str], str]) -> str:
    """A server's words on one harmless line; `hide` takes the secrets of the exchange from them."""
    return format_name(hide(words.decode("utf-8", "replace") if isinstance(words, bytes) else words), REASON_LIMIT)


def describe_exchange(error: Exception, hide: Callable[[str], str]) -> str:
    """One line about an error of `EXCHANGE_ERRORS`, without what `hide` takes, and what the client refused to send."""
    name = type(error).__name__
    if not isinstance(error, httpx.HTTPError) or isinstance(error, httpx.LocalProtocolError):
        return f"{name}: the request cannot be sent; check address and credentials"
    return f"{name}: {describe_words(str(error), hide)}"

"""Text over HTTP from servers that may be wrong or hostile; a failure is an `InputError`: address without secrets, what came, what to do."""

import asyncio
import codecs
import ssl
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from time import monotonic
from urllib.parse import urlsplit

import httpx

from pipeline.config.http_access import HttpAccess
from pipeline.errors import HttpStatusError, InputError
from pipeline.model.number_text import escape_hidden
from pipeline.model.window import LATEST_MS

MAX_REDIRECTS = 3
MOST_TIMEOUTS = 20
"""So many times `access.timeout_s` all answers of a server may take together, to come and to be understood."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
_PIECE_BYTES = 1 << 16
_WINDOW_BITS = {"": 0, "identity": 0, "gzip": 31, "x-gzip": 31, "deflate": 15}
"""Of zlib, by `Content-Encoding`: those that are asked for; 0 for none."""
_ADVICE = {
    400: "the server did not understand the request: see its message",
    401: "correct access.basic_auth or access.bearer_token_variable, or give one",
    403: "allow this user to read metrics, or use another",
    404: "correct the URL: the server has nothing there",
    429: "the server asks for fewer requests: run less often or raise its limit",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpContent:
    """A body of UTF-8; its media type without parameters; the server's clock where it says so."""

    content: bytearray
    content_type: str
    date_ms: int | None

    @property
    def text(self) -> str:
        return self.content.decode()


class HttpReader(AbstractContextManager["HttpReader"]):
    def __init__(self, access: HttpAccess, pause: Callable[[float], None]) -> None:
        """Takes identity, limits, and what waits for seconds between attempts; `ConfigError` where a secret or file cannot be used."""
        self._access, self._pause, self._client = access, pause, access.async_client()
        self._runner = asyncio.Runner()
        self._waited_s: defaultdict[str, float] = defaultdict(float)  # by server

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()

    @contextmanager
    def understanding(self, url: str) -> Iterator[None]:
        began_s = monotonic()
        try:
            yield
        finally:
            self._waited_s[urlsplit(url).netloc] += monotonic() - began_s

    def read(self, url: str, query: Mapping[str, str] | None = None, *, accept: str = "text/plain") -> HttpContent:
        """The text behind a URL, asked for again while the server is busy or away; no `InputError` repeats a secret that was sent."""
        try:
            return self._read(url, query, accept)
        except HttpStatusError as error:
            raise HttpStatusError(error.status, self._access.hide(error.reason), path=shown(url)) from None
        except InputError as error:
            raise InputError(self._access.hide(error.reason), path=shown(url)) from None

    def _read(self, url: str, query: Mapping[str, str] | None, accept: str) -> HttpContent:
        waited_s = self._waited_s[urlsplit(url).netloc]
        if waited_s > MOST_TIMEOUTS * self._access.timeout_s:
            reason = f"its answers and the pauses between took {waited_s:.0f} s together: the rest is not asked for; raise access.timeout_s"
            raise InputError(f"{reason}, or see why the server is slow", path=shown(url))
        pause_s = FIRST_PAUSE_S
        for attempt in range(1, self._access.attempts + 1):
            is_last = attempt == self._access.attempts
            try:
                answer = self._runner.run(self._read_in_time(url, query, accept))
            except (httpx.TransportError, TimeoutError) as error:
                is_refused = isinstance(_cause(error), ssl.SSLError)  # or another protocol: no other attempt helps
                if is_last or is_refused or isinstance(error, httpx.UnsupportedProtocol):
                    raise _unreachable(url, error, self._access.timeout_s) from error
            else:
                if isinstance(answer, HttpContent):
                    return answer
                if is_last:
                    raise HttpStatusError(answer.status_code, _describe_status(answer, attempt), path=shown(url))
                # seconds the server asks to wait; 0 where it names a date
                text = answer.headers.get("retry-after", "")
                pause_s = max(pause_s, float(text) if text.isdecimal() else 0.0)
            pause_s = min(pause_s, LONGEST_PAUSE_S)
            self._waited_s[urlsplit(url).netloc] += pause_s
            self._pause(pause_s)
            pause_s *= 2
        raise AssertionError("unreachable: attempts is at least 1")

    async def _read_in_time(
        self, url: str, query: Mapping[str, str] | None, accept: str
    ) -> HttpContent | httpx.Response:
        """The text, or an answer that is worth another attempt; ends when the time is over, whatever the server sends."""
        clock = asyncio.get_running_loop().time
        began_s = clock()
        try:
            async with asyncio.timeout(self._access.timeout_s):
                return await self._read_once(url, query, accept)
        except (httpx.InvalidURL, ValueError) as error:
            raise httpx.RemoteProtocolError(f"it redirects to an invalid address: {error}") from error
        finally:
            self._waited_s[urlsplit(url).netloc] += clock() - began_s

    async def _read_once(self, url: str, query: Mapping[str, str] | None, accept: str) -> HttpContent | httpx.Response:
        request = self._client.build_request("GET", url, params=query, headers={"Accept": accept})
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._client.send(request, stream=True)
            try:
                if answer.next_request is not None:
                    self._check_redirect(url, request.url, answer.next_request.url)
                    request = answer.next_request
                    continue
                if answer.status_code == 429 or answer.status_code >= 500:
                    return answer  # whatever its page holds
                content = bytearray()
                with nullcontext() if answer.status_code == 200 else suppress(InputError):
                    content = await self._read_body(url, answer)
            finally:
                await answer.aclose()
            if answer.status_code != 200:
                raise HttpStatusError(answer.status_code, _describe_status(answer, 1, content), path=shown(url))
            return HttpContent(content=content, content_type=_media_type(answer), date_ms=_date_ms(answer))
        raise InputError(f"more than {MAX_REDIRECTS} redirects: correct the URL", path=shown(url))

    def _check_redirect(self, url: str, asked: httpx.URL, target: httpx.URL) -> None:
        same = (target.scheme, target.netloc) == (asked.scheme, asked.netloc)
        allowed = {target.netloc.decode(), target.host} & set(self._access.redirects_to)
        where = escape_hidden(f"redirected to {shown(str(target))}")
        if target.scheme not in {"http", "https"}:
            raise InputError(f"{where}, which is not a web address: refused", path=shown(url))
        if not same and not allowed:
            reason = f"{where}, another server: refused; if that is right, name its host in access.redirects_to"
            raise InputError(reason, path=shown(url))
        if not same and (self._access.basic_auth or self._access.bearer_token_variable):
            raise InputError(f"{where}, and credentials are not sent there: configure that URL itself", path=shown(url))

    async def _read_body(self, url: str, answer: httpx.Response) -> bytearray:
        """Body of an answer as it comes, inflated no further than allowed. One encoding: a second one would hide its size."""
        encoding = answer.headers.get("content-encoding", "").strip().lower()
        most, path, content = self._access.max_bytes, shown(url), bytearray()
        if encoding not in _WINDOW_BITS:
            what = escape_hidden(encoding[:40])
            raise InputError(f"Content-Encoding {what!r}: gzip, deflate or none was asked for", path=path)
        inflate = zlib.decompressobj(_WINDOW_BITS[encoding]) if _WINDOW_BITS[encoding] else None
        async for piece in answer.aiter_raw():
            rest = piece
            while rest:
                try:
                    if inflate is not None and inflate.eof:  # a body may have several members, one after the other
                        inflate = zlib.decompressobj(_WINDOW_BITS[encoding])
                    content += rest if inflate is None else inflate.decompress(rest, most + 1 - len(content))
                except zlib.error as error:
                    raise InputError(f"the answer is not compressed as it says: {error}", path=path) from error
                if len(content) > most:
                    what = f"more than {most:,} bytes after decompression"
                    raise InputError(f"{what}: refused; raise access.max_bytes if that is right", path=path)
                rest = b"" if inflate is None else inflate.unused_data
        if inflate is not None and content and not inflate.eof:
            raise InputError("the compressed answer broke off: did the server die?", path=path)
        pieces = (bytes(content[at : at + _PIECE_BYTES]) for at in range(0, len(content), _PIECE_BYTES))
        try:
            for _ in codecs.iterdecode(pieces, "utf-8"):  # as a whole, text may take four times its bytes
                pass
        except UnicodeDecodeError as error:
            raise InputError(f"the answer is not UTF-8: {error.reason}", path=path) from error
        return content


def shown(url: str) -> str:
    """A URL fit for logs and tables: no user, no password, no query."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}{parts.path}"


def _cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None or error.__context__ is not None:
        error = error.__cause__ or error.__context__ or error
    return error


def _unreachable(url: str, error: httpx.TransportError | TimeoutError, timeout_s: float) -> InputError:
    cause = _cause(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        advice = "give its authority as access.tls_config.ca_file"
        reason = f"its certificate is not trusted ({cause.verify_message}): {advice}"
    elif isinstance(cause, ssl.SSLError):
        reason = f"no TLS there ({cause.reason}): is the port right, or is it http rather than https?"
    elif isinstance(error, (httpx.TimeoutException, TimeoutError)):
        advice = "is the server there, or does it need a larger access.timeout_s?"
        reason = f"no whole answer within {timeout_s:g} s: {advice}"
    elif isinstance(cause, ConnectionRefusedError):
        reason = "connection refused: nothing listens there; start the server or correct host and port"
    elif isinstance(error, httpx.RemoteProtocolError):
        reason = f"the answer broke off or is not HTTP ({error}): is it https rather than http, or did the server die?"
    elif isinstance(error, httpx.LocalProtocolError):  # its words are what was to be sent
        reason = "the request cannot be sent: correct address, user, password and token"
    else:
        reason = f"not reached: {error or type(error).__name__}"
    return InputError(escape_hidden(reason), path=shown(url))


def _describe_status(answer: httpx.Response, attempts: int, content: bytearray | None = None) -> str:
    status = answer.status_code
    advice = _ADVICE.get(status, "see the server's log")
    tried = f" after {attempts} attempts" if attempts > 1 else ""
    text = (content or b"")[:800].decode(errors="replace")[:200]
    words = "" if _media_type(answer) == "text/html" else " ".join(text.split())
    said = f"HTTP {status} {answer.reason_phrase[:80]}{tried}: {advice}" + (f" ({words})" if words else "")
    return escape_hidden(said)


def _media_type(answer: httpx.Response) -> str:
    kind: str = answer.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower()


def _date_ms(answer: httpx.Response) -> int | None:
    try:
        at_ms = round(parsedate_to_datetime(answer.headers["date"]).timestamp() * 1000)
    except (KeyError, ValueError, TypeError, OverflowError):
        return None
    return at_ms if 0 < at_ms <= LATEST_MS else None

"""Answers nobody wants: each gives an error that says what came and what to do, and no secret.

The servers are real ones on loopback. Oracle: the table of answers below.
"""

import gzip
import re
import socket
import zlib

import pytest

from pipeline.config.http_access import BasicAuth, HttpAccess, TlsConfig
from pipeline.errors import ConfigError, InputError
from pipeline.sources.metrics import http_text
from pipeline.sources.metrics.http_text import HttpReader, shown
from tests.lab.process import free_ports
from tests.unit.sources.http_servers import Answer, answering, make_certificate, serving

SECRET = "hunter2-not-to-be-seen"
PAGE = "kafka_brokers 3\n"


def read(url, pauses=None, **access):
    with HttpReader(HttpAccess(**access), (pauses if pauses is not None else []).append) as http:
        return http.read(url).text


def refusal(url, pauses=None, **access):
    with pytest.raises(InputError) as error:
        read(url, pauses, **access)
    return str(error.value)


def moved(address, status=302):
    return Answer(status=status, headers={"Location": address})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer("who?", 401), ["HTTP 401", "access.basic_auth", "who?"]),
        (Answer("no", 403), ["HTTP 403", "allow this user to read"]),
        (Answer("", 404), ["HTTP 404", "correct the URL"]),
        (Answer("<html>oops</html>", 400, {"Content-Type": "text/html"}), ["HTTP 400"]),
        (Answer(b"\xff\xfe"), ["not UTF-8"]),
        (Answer(PAGE, cut=5), ["broke off"]),
        (Answer(b"0" * 5000), ["more than 4,096 bytes"]),
        (Answer(gzip.compress(b"0" * 50_000_000), headers={"Content-Encoding": "gzip"}), ["more than 4,096 bytes"]),
        (moved("file:///etc/passwd"), ["file://", "not a web address"]),
        (moved("http://169.254.169.254/latest"), ["169.254.169.254", "refused"]),
        (moved("/metrics"), ["more than 3 redirects"]),
        *((moved(to), ["an invalid"]) for to in ("mailto:a", "data:,x", "http://127.0.0.1:99999/", "http://h:-1/")),
    ],
    ids=lambda value: None if isinstance(value, Answer) else value[0],
)
def test_refused_with_what_to_do(answer, words):
    with serving({"/metrics": answer}) as site:
        said = refusal(f"{site.url}/metrics", max_bytes=4096, attempts=1)
    assert said.startswith(f"{site.url}/metrics: ")
    for word in words:
        assert word in said
    assert "<html>" not in said


def test_busy_servers_are_asked_again_after_the_pause_they_want():
    answers = [Answer("", 503), Answer("", 429, {"Retry-After": "7"}), Answer("", 500), Answer(PAGE)]
    pauses = []
    with serving({"/metrics": answers}) as site:
        assert read(f"{site.url}/metrics", pauses) == PAGE
        assert len(site.asked) == 4
    assert pauses == [0.5, 7, 14]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_they_are_not_asked_for_ever(status):
    pauses = []
    with serving({"/metrics": Answer("overloaded", status)}) as site:
        said = refusal(f"{site.url}/metrics", pauses, attempts=3)
    assert f"HTTP {status}" in said
    assert "after 3 attempts" in said
    assert len(pauses) == 2


def test_no_pause_is_longer_than_half_a_minute():
    pauses = []
    with serving({"/metrics": [Answer("", 429, {"Retry-After": "86400"}), Answer(PAGE)]}) as site:
        assert read(f"{site.url}/metrics", pauses) == PAGE
    assert pauses == [30]


def test_a_refused_identity_is_tried_once(monkeypatch):
    monkeypatch.setenv("METRICS_PASSWORD", SECRET)
    auth = BasicAuth(username="pipeline", password_variable="METRICS_PASSWORD")
    pauses = []
    with serving({"/metrics": Answer("no", 401)}) as site:
        said = refusal(f"{site.url}/metrics", pauses, basic_auth=auth)
        assert len(site.asked) == 1
    assert pauses == []
    assert SECRET not in said


def test_identities_are_sent_from_the_environment(monkeypatch):
    monkeypatch.setenv("METRICS_SECRET", SECRET)
    auth = BasicAuth(username="pipeline", password_variable="METRICS_SECRET")
    with serving({"/metrics": Answer(PAGE)}) as site:
        read(f"{site.url}/metrics", basic_auth=auth)
        read(f"{site.url}/metrics", bearer_token_variable="METRICS_SECRET")
        sent = [headers["Authorization"] for _, headers in site.asked]
    assert sent == ["Basic cGlwZWxpbmU6aHVudGVyMi1ub3QtdG8tYmUtc2Vlbg==", f"Bearer {SECRET}"]
    monkeypatch.delenv("METRICS_SECRET")
    with pytest.raises(ConfigError, match=r"METRICS_SECRET.*not set"):
        read("http://127.0.0.1:1/metrics", basic_auth=auth)


def test_redirects_go_where_they_are_allowed_and_carry_no_identity(monkeypatch):
    monkeypatch.setenv("METRICS_SECRET", SECRET)
    with serving({"/metrics": Answer(PAGE)}) as other:
        away, near = moved(f"{other.url}/metrics", 307), moved("/page", 301)
        with serving({"/here": away, "/near": near, "/page": Answer(PAGE)}) as site:
            assert read(f"{site.url}/near") == PAGE
            host = other.url.removeprefix("http://")
            assert host in refusal(f"{site.url}/here")
            assert read(f"{site.url}/here", redirects_to=(host,)) == PAGE
            said = refusal(f"{site.url}/here", redirects_to=(host,), bearer_token_variable="METRICS_SECRET")
        assert "credentials are not sent there" in said
        assert all("Authorization" not in headers for _, headers in other.asked)


def test_nobody_there():
    (port,) = free_ports(1)
    pauses = []
    assert "connection refused: nothing listens there" in refusal(f"http://127.0.0.1:{port}/metrics", pauses)
    assert len(pauses) == 3
    assert "not reached" in refusal("http://no-such-host.invalid/metrics", attempts=1)


def test_no_answer_in_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        said = refusal(f"http://127.0.0.1:{silent.getsockname()[1]}/metrics", attempts=1, timeout_s=0.2)
    assert "no whole answer within 0.2 s" in said


def test_tls_that_does_not_fit(tmp_path):
    pem, authority = make_certificate(tmp_path)
    pauses = []
    with serving({"/metrics": Answer(PAGE)}, certificate=pem) as site:
        assert "certificate is not trusted" in refusal(f"{site.url}/metrics", pauses)
        assert read(f"{site.url}/metrics", tls_config=TlsConfig(ca_file=authority)) == PAGE
        assert read(f"{site.url}/metrics", tls_config=TlsConfig(insecure_skip_verify=True)) == PAGE
        wrong_host = site.url.replace("127.0.0.1", "localhost")
        assert "not trusted" in refusal(f"{wrong_host}/metrics", tls_config=TlsConfig(ca_file=authority))
        plain = site.url.replace("https", "http")
        assert "https rather than http" in refusal(f"{plain}/metrics", attempts=1)
    with serving({"/metrics": Answer(PAGE)}) as site:
        assert "is it http rather than https" in refusal(f"{site.url.replace('http', 'https')}/metrics", pauses)
    assert pauses == []  # another attempt would fare alike
    with pytest.raises(ConfigError, match="tls_config"):
        read("https://127.0.0.1:1/", tls_config=TlsConfig(ca_file=tmp_path / "none.pem"))


def test_what_is_shown_of_an_address():
    assert shown("https://u:p@h:1/x?token=t") == "https://h:1/x"


def head(*headers, status="200 OK"):
    return "\r\n".join((f"HTTP/1.1 {status}", *headers, "Connection: close", "", "")).encode()


@pytest.mark.parametrize(
    ("first", "dripped"),
    [
        ((head(), b"# "), b"x"),
        ((b"HTTP/1.1 200 OK\r\n",), b"X"),
        ((b"HTTP/1.1 200 OK\r\n",), b"X-A: b\r\n"),
        ((head("Transfer-Encoding: chunked"),), b"1\r\na\r\n"),
        ((), b""),
    ],
    ids=["body", "a header", "headers", "chunks", "nothing"],
)
def test_an_answer_has_one_deadline_however_it_drips(first, dripped):
    with answering(*first, forever=(dripped,)) as url:
        said = refusal(f"{url}/metrics", timeout_s=0.3, attempts=2)
    what_to_do = "is the server there, or does it need a larger access.timeout_s?"
    assert said == f"{url}/metrics: no whole answer within 0.3 s: {what_to_do}"


def test_a_server_that_is_always_slow_is_asked_no_more_and_others_are(monkeypatch):
    """One time-out instead of 20, so long that the other server answers within it on a busy machine, too."""
    monkeypatch.setattr(http_text, "MOST_TIMEOUTS", 1)
    with answering(forever=(b"",)) as slow, serving({"/metrics": Answer(PAGE)}) as fine:
        access = HttpAccess(timeout_s=3, attempts=1)
        with HttpReader(access, lambda _: None) as http:
            said = []
            for page in range(2):
                with pytest.raises(InputError) as error:
                    http.read(f"{slow}/metrics?page={page}")
                said.append(str(error.value))
            assert "no whole answer within 3 s" in said[0]
            assert re.search(
                r"its answers and the pauses between took ([3-9]|\d\d+) s together: the rest is not asked for", said[1]
            )
            assert http.read(f"{fine.url}/metrics").text == PAGE


def test_pauses_that_a_server_asks_for_are_its_time():
    wanted = [Answer("", 503, {"Retry-After": "30"}), Answer("", 422)] * 30
    with serving({"/metrics": wanted}) as site, HttpReader(HttpAccess(timeout_s=10), lambda _: None) as http:
        said = []
        while "the rest is not asked for" not in "".join(said):
            with pytest.raises(InputError) as error:
                http.read(f"{site.url}/metrics")
            said.append(str(error.value))
        assert len(site.asked) == 14  # seven pauses of 30 s are more than 20 time-outs


@pytest.mark.parametrize(
    "page", [Answer("Überlast".encode("latin-1"), 503), Answer("x", 503, {"Content-Encoding": "br"})]
)
def test_a_busy_server_is_asked_again_whatever_its_page_holds(page):
    with serving({"/metrics": [page, Answer(PAGE)]}) as site:
        assert read(f"{site.url}/metrics") == PAGE


def test_a_refusal_is_told_by_its_status_whatever_its_page_holds():
    with serving({"/metrics": Answer("Schlüssel?".encode("latin-1"), 401)}) as site:
        assert "HTTP 401" in refusal(f"{site.url}/metrics")


def squeeze(data, bits):
    packer = zlib.compressobj(wbits=bits)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("headers", "body", "words"),
    [
        (["Content-Encoding: gzip, gzip"], gzip.compress(gzip.compress(bytes(1 << 28))), "gzip, deflate or none"),
        (["Content-Encoding: br"], b"x", "gzip, deflate or none"),
        (["Content-Encoding: g\x1b[31m"], b"x", "'g\\\\x1b[31m': gzip, deflate or none"),
        (["Content-Encoding: gzip"], gzip.compress(bytes(1 << 28)), "more than 1,048,576 bytes after decompression"),
        (["Content-Encoding: gzip"], b"# not gzip\n", "not compressed as it says"),
        (["Content-Encoding: deflate"], b"\0\1\2\3hello", "not compressed as it says"),
        (["Content-Encoding: gzip"], gzip.compress(PAGE.encode() * 99)[:-9], "broke off"),
        (["Location: http://[::1"], b"", "Invalid URL"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_whatever_comes_is_an_error_that_names_the_address(headers, body, words):
    status = "302 F" if headers[0].startswith("Location") else "200 OK"
    with answering(head(*headers, f"Content-Length: {len(body)}", status=status), body) as url:
        said = refusal(f"{url}/metrics", max_bytes=1 << 20, attempts=1)
    assert said.startswith(f"{url}/metrics: ")
    assert words in said
    assert said.isprintable()


@pytest.mark.parametrize(("encoding", "bits"), [("gzip", 31), ("x-gzip", 31), ("deflate", 15), ("identity", 0)])
def test_one_encoding_is_read(encoding, bits):
    body = squeeze(PAGE.encode(), bits) if bits else PAGE.encode()
    with answering(head(f"Content-Encoding: {encoding}", f"Content-Length: {len(body)}"), body) as url:
        assert read(f"{url}/metrics") == PAGE


def test_every_member_of_a_compressed_answer_is_read():
    body = gzip.compress(PAGE.encode()) + gzip.compress(b"") + gzip.compress(b"b 1\n")
    answers = {body: f"{PAGE}b 1\n", body[:-9]: "broke off", body + b"# rest": "not compressed as it says"}
    for whole, wanted in answers.items():
        with answering(head("Content-Encoding: gzip", f"Content-Length: {len(whole)}"), whole) as url:
            assert wanted in (read(f"{url}/metrics") if whole is body else refusal(f"{url}/metrics", attempts=1))


NINES = "9" * 20
NO_DATES = (
    f"Mon, 01 Jan {NINES} 00:00:00 GMT",
    f"Mon, {NINES} Jan 2026 00:00:00 GMT",
    "Fri, 31 Dec 9999 23:59:59 -2359",
)


@pytest.mark.parametrize("date", ["", "x", *NO_DATES])
def test_a_date_that_no_calendar_holds_is_none(date):
    page = head(f"Date: {date}", f"Content-Length: {len(PAGE)}") + PAGE.encode()
    with answering(page) as url, HttpReader(HttpAccess(attempts=1), [].append) as http:
        found = http.read(url)
    assert (found.text, found.date_ms) == (PAGE, None)


def test_an_answer_never_stands_raw_in_a_reason():
    with answering(head("Content-Length: 5", status="404 \x1b[31mno"), b"\x1b[31m") as url:
        said = refusal(f"{url}/metrics")
    assert said.isprintable()
    assert "\\x1b[31mno" in said

"""A Prometheus server that answers anything, in any amount. Oracle: the answers below; each costs that server alone."""

import itertools
import re

import pytest

from pipeline.sources.metrics import http_text, prometheus, sample_rows
from tests.memory import tracing_memory
from tests.unit.sources.http_servers import Answer, serving
from tests.unit.sources.metrics.readings import (
    API,
    AT_S,
    BYTES_IN,
    JSON,
    NAME,
    QUERIES,
    SPAN,
    ask,
    matrix,
    read,
    read_server,
    reasons_of,
    rows,
    series,
    server,
)


@pytest.mark.parametrize(
    "points",
    [
        *([["1e300", "1"]], [[1e300, "1"]], [[-5, "1"]], [[None, "1"]], [[1, None]], [[1]], [1], [[1, "x" * 10_000]]),
        *([["NaN", "1"]], [[float("nan"), "1"]], [[float("inf"), "1"]], "x", 7, None, [[{}, []]]),
    ],
    ids=lambda value: str(value)[:30],
)
def test_no_point_of_a_server_ends_the_reading(points):
    reading = read_server(matrix({"metric": {"__name__": NAME, "instance": "a:1"}, "values": points}))
    assert reading.problems["prometheus"] or not rows(reading)


@pytest.mark.parametrize(
    "odd",
    [
        {"metric": {"__name__": BYTES_IN, "instance": "h"}, "histograms": [[AT_S, {"count": "1", "buckets": []}]]},
        series([AT_S, "1"], name=BYTES_IN, instance=7),
        series([1e300, "1"], name=BYTES_IN, instance="h"),
        series(["1700000000", "1"], name=BYTES_IN, instance="h"),
    ],
    ids=["a native histogram", "a label that is no text", "an instant of no calendar", "an instant that is a text"],
)
def test_a_series_that_cannot_be_read_costs_no_other(odd):
    first, *others = (series([AT_S, "5"], name=BYTES_IN, instance=f"b{number}") for number in range(3))
    answers = matrix(first, odd, *others)
    reading = read_server(lambda query: answers if "brokertopic" in query else matrix(), count=QUERIES)
    assert {row["instance"] for row in rows(reading)} == {"b0", "b1", "b2"}
    assert "cannot be read" in reasons_of(reading)[0]


def test_a_broker_id_of_thousands_of_digits_ends_no_reading():
    points = [[AT_S + at_s, str(at_s)] for at_s in (0, 30, 60)]
    answer = matrix(series(*points, name=BYTES_IN, instance="b", broker_id="9" * 5000))
    assert rows(read_server(lambda query: answer if "brokertopic" in query else matrix()))


def test_the_first_warnings_of_a_server_are_kept_cut_and_show_what_they_hide():
    """The others would fill the memory, were they all to be compared."""
    warnings = [f"\x1b[31m{number:03}" + "x" * 1000 for number in reversed(range(100))]
    reasons = [reason for reason in reasons_of(read_server(matrix(warnings=warnings))) if "warns" in reason]
    assert [f"[31m{number:03}x" in reason for number, reason in enumerate(reasons, 80)] == [True] * 20
    assert all(len(reason) < 250 and reason.isprintable() for reason in reasons)


def test_equal_warnings_are_not_written_out_one_by_one(monkeypatch):
    """A million of them took minutes."""
    formatted = []
    monkeypatch.setattr(prometheus, "format_name", lambda text, limit: formatted.append(text) or text[:limit])
    read_server([matrix(warnings=["again"] * 1000), Answer("", 403)])
    assert len(formatted) <= 20


def test_the_time_that_answers_take_to_be_understood_is_their_server_s(monkeypatch):
    """A page of some kB inflates to objects that take half a minute."""
    monkeypatch.setattr(http_text, "monotonic", map(float, itertools.count(0, 70)).__next__)
    reading = read_server(matrix(), count=5)  # twice 70 s each, of 20 time-outs of 30 s
    assert re.search(
        r"took 7\d\d s together: the rest is not asked for", reasons_of(reading)[0]
    )  # and what it took to come


def many(text, count=100_000):
    """An answer's text that repeats one for each number, in hexadecimal, between what stands before and after `|`."""
    before, each, after = text.split("|")
    return before + ",".join(each.replace("#", f"{number:x}") for number in range(count)) + after


@pytest.mark.parametrize(
    "text",
    [
        '[{"metric":{},"values":[|[1700000000,"#"]|]}]}',
        '[{"metric":{},"values":[|"#"|]}]}',
        '[{"metric":{},"values":[|[]|]}]}',
        '[{"metric":{|"#":""|},"values":[]}]}',
        '[{"metric":{|"#":"\U0001f600"|},"values":[]}]}',
        '[|{"metric":0,"values":0}|]}',
        '[]},"warnings":[|"#"|]',
        '[]},"more":[|[]|]',
        '[]},"more":{|"#":{}|}',
    ],
)
def test_an_answer_takes_little_more_than_its_size_in_memory(text):
    content = f'{{"data":{{"resultType":"matrix","result":{many(text)}}}'.encode()
    no = Answer("no", 403)
    answers = iter([no, Answer(content, headers=JSON), no])
    with serving({API: lambda _: next(answers)}) as site:
        read(server(site.url))  # imports what it needs
        with tracing_memory() as peak_bytes:
            read(server(site.url))
            assert peak_bytes() < 1_000_000 + 8 * len(content)
        assert 2 <= len(site.asked) <= 3


def test_of_an_answer_so_much_is_held(monkeypatch):
    labels = {"__name__": NAME, "instance": "a:1"}
    answer = matrix(
        *({"metric": {**labels, "n": str(at)}, "values": [[AT_S, "1"], [AT_S + 30, "1"]]} for at in range(4))
    )

    def reasons():
        with serving({API: lambda path: answer if "node_metrics|" in ask(path)["query"] else matrix()}) as site:
            problems = read(server(site.url)).problems["prometheus"]
        return [one.reason for one in problems if one.severity == "refused"]

    assert reasons() == []
    for most, few, words in (("OBJECTS", 9, "10 objects"), ("LABELS", 11, "labels"), ("POINTS", 7, "points")):
        with monkeypatch.context() as patch:
            patch.setattr(prometheus, f"MOST_{most}", few)
            assert [words in reason and "read fewer windows at once" in reason for reason in reasons()] == [True]


def told_of(*at_s, count=1, asked="node_metrics|", **labels):
    """Instants, counted from the span's start, and reasons, of what is read of series with points at these seconds."""
    points = [[AT_S + seconds, "5"] for seconds in at_s]
    answer = matrix(*(series(*points, instance="a:1", n=str(number), **labels) for number in range(count)))
    reading = read_server(lambda query: answer if asked in query else matrix())
    wrong = [one.reason for one in reading.problems["prometheus"] if one.severity == "refused"]
    return [row["observed_at_ms"] - SPAN.start_ms for row in rows(reading)], wrong


TOO_MANY = "series with more points than were asked for are left out [kafka_producer_producer_node_metrics]"

ELSEWHERE = "points of instants that were not asked for are left out"

ONCE_A_WINDOW = {"name": "kafka_log_log_size", "asked": "(kafka_log_log)(_size"}


@pytest.mark.parametrize(
    ("points", "of", "instants_ms", "reasons"),
    [
        ((-30, 0, 30, 60, 90), {}, [-30_000, 0, 30_000, 60_000, 90_000], []),
        ((30, 90), ONCE_A_WINDOW, [30_000, 90_000], []),
        ((0, 60), ONCE_A_WINDOW, [0, 60_000], []),
        ((0, 0.001, 0.002, 90), {}, [0, 90_000], [ELSEWHERE]),
        ((-86_400, 0, 86_400), {}, [0], [ELSEWHERE]),
        ((0, *(0.001 * number for number in range(6))), {}, [], [TOO_MANY]),
        ((0,) * 7, {}, [], [TOO_MANY]),
    ],
    ids=[
        *("asked for", "once a window", "moved to multiples of the step", "a millisecond apart", "other days"),
        *("too many", "one again and again"),
    ],
)
def test_a_server_gives_the_points_that_were_asked_for(points, of, instants_ms, reasons):
    assert told_of(*points, **of) == (instants_ms, reasons)


def test_a_server_s_long_labels_are_left_out_and_told_of_once():
    found, (reason,) = told_of(0, 30, count=50, client_id="c" * 16_384)
    assert found == []
    assert reason.startswith("series with more than 16,384 characters")


def test_a_server_gives_so_many_bytes(monkeypatch):
    """It is not asked any more then."""
    monkeypatch.setattr(sample_rows, "MOST_SAMPLE_BYTES", 10_000)
    many = [series([AT_S, "5"], instance=f"{number}", client_id="c" * 500) for number in range(50)]
    assert reasons_of(read_server(matrix(*many), count=1))[0].startswith("its samples take more than")

"""Scrape pages: series known and new, names canonical, torn pages, odd labels; `prometheus_client` is the oracle."""

import math

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families
from prometheus_client.parser import text_string_to_metric_families

from pipeline.codec.metrics import exposition
from pipeline.codec.metrics.exposition import ExpositionReader, has_wanted
from pipeline.codec.metrics.metric_names import KEPT_PREFIXES, Series
from pipeline.codec.metrics.metric_table import FORMS
from pipeline.errors import InputError

PAGE = """\
# HELP kafka_server_bytes_total Bytes
# TYPE kafka_server_bytes_total counter
kafka_server_bytes_total{topic="a b",note="quote \\" slash \\\\ brace }"} 1.5E3
# TYPE kafka_server_rate gauge
kafka_server_rate{topic="",} NaN
kafka_server_rate +Inf 1700000000123
# TYPE jvm_threads counter
jvm_threads 7
"""


def keep(name, labels):
    return Series(name, tuple(labels.items()), name)


def rows(reader, page):
    return [(reader.series[place].name, dict(reader.series[place].labels)) for place in page.series.tolist()]


def oracle(text):
    return [(s.name, s.labels) for family in text_string_to_metric_families(text) for s in family.samples]


def test_all_samples_and_again_with_everything_known():
    reader = ExpositionReader(keep)
    for _ in range(2):
        page = reader.read(PAGE)
        assert sorted(rows(reader, page), key=str) == sorted(
            [
                ("kafka_server_bytes_total", {"topic": "a b", "note": 'quote " slash \\ brace }'}),
                ("kafka_server_rate", {"topic": ""}),
                ("kafka_server_rate", {}),
                ("jvm_threads", {}),  # the library alone would call this counter jvm_threads_total
            ],
            key=str,
        )
        values = {
            reader.series[p].name + str(len(reader.series[p].labels)): v
            for p, v in zip(page.series, page.values, strict=False)
        }
        assert values["kafka_server_bytes_total2"] == 1500
        assert values["kafka_server_rate0"] == math.inf
        assert math.isnan(values["kafka_server_rate1"])
        (instant,) = page.timestamps_ms.items()
        assert reader.series[page.series[instant[0]]].labels == ()
        assert instant[1] == 1700000000123
        assert (page.bad_lines, page.sample_count) == ((), 4)


def test_only_what_the_pipeline_knows():
    reader = ExpositionReader()
    page = reader.read('kafka_brokers 3\njvm_threads 7\nkafka_network_requestmetrics_x{request="Fetch"} 1\n')
    assert [reader.series[p].name for p in page.series] == ["kafka_brokers"]
    assert page.sample_count == 3
    assert not has_wanted(b"# TYPE jvm_threads gauge\njvm_threads 1\n")
    assert has_wanted(b'jvm_threads 1\nkafka_brokers{a="b"} 3\n')


def test_a_torn_page_keeps_its_whole_lines():
    for torn in ('kafka_server_rate{topic="x', "kafka_server_rate 12"):  # the second may be the start of 123
        page = ExpositionReader(keep).read(PAGE + torn)
        assert len(page.series) == 4
        assert [line.number for line in page.bad_lines] == [9]
        assert "torn" in page.bad_lines[0].reason


def test_lines_that_are_no_sample_cost_themselves_only():
    reader = ExpositionReader(keep)
    reader.read("good 1\n")
    page = reader.read('good 2\n<p>Error</p>\nbad{a=b} 1\nalone\nx{a="1" 3\nx{a="1",a="2"} 3\n')
    assert page.values.tolist() == [2.0]
    assert [line.number for line in page.bad_lines] == [2, 3, 4, 5, 6]
    page = reader.read("good many\n")
    assert (page.series.tolist(), [line.reason for line in page.bad_lines]) == ([], ["the value is not a number"])


def test_of_two_samples_of_a_series_the_first_counts():
    reader = ExpositionReader(keep)
    for _ in range(2):
        page = reader.read('a 1\nb{x="1"} 2\na 3\nb{ x="1" } 4\n')
        assert page.values.tolist() == [1, 2]
        assert [(line.reason.split(":")[0], line.severity) for line in page.bad_lines] == [
            ("a second sample of a", "suspect"),
            ("a second sample of b", "suspect"),
        ]


def test_two_names_of_one_metric_are_one():
    reader = ExpositionReader()
    names = ("kafka_producer_producer_metrics_record_send", "kafka_producer_producer_metrics_record_send_total")
    page = reader.read("".join(f'{name}{{client_id="c"}} {at}\n' for at, name in enumerate(names)))
    assert page.values.tolist() == [0]
    assert [line.severity for line in page.bad_lines] == ["suspect"]


def test_names_beyond_ascii_stand_in_quotes():
    reader = ExpositionReader(keep)
    page = reader.read('{"kafka.producer\\"é",client_id="c"} 1\nx{"µ.label"="v\\nw"} 2\n')
    assert page.bad_lines == ()
    assert rows(reader, page) == [('kafka.producer"é', {"client_id": "c"}), ("x", {"µ.label": "v\nw"})]


def test_open_metrics_with_exemplars_and_seconds():
    text = (
        "# TYPE foo counter\n# UNIT foo bytes\n"
        'foo_total{a="b"} 17.0 1520879607.789 # {trace_id="KOO5S4vxi0o"} 0.67\nfoo_created 1520430000.123\n# EOF\n'
    ).replace("# UNIT foo bytes\n", "")
    for page_text in (text, text[:-1]):  # the last line needs no end
        reader = ExpositionReader(keep)
        page = reader.read(page_text)
        told = [(s.name, s.labels, s.value) for family in open_metrics_families(text) for s in family.samples]
        assert page.bad_lines == ()
        assert next((*row, value) for row, value in zip(rows(reader, page), page.values, strict=False)) == told[0]
        assert page.timestamps_ms == {0: 1520879607789}


@pytest.mark.parametrize("timestamp", ["1e400", "-1e400", "nan", "1e300"])
@pytest.mark.parametrize("end", ["", "# EOF\n"])
def test_a_timestamp_that_no_calendar_holds_costs_its_line(timestamp, end):
    page = ExpositionReader().read(
        f'kafka_brokers{{a="1"}} 1\nkafka_brokers{{a="2"}} 1 {timestamp}\nkafka_brokers 3\n{end}'
    )
    assert page.values.tolist() == [1, 3]
    assert [line.number for line in page.bad_lines] == [2]
    assert page.timestamps_ms == {}


@pytest.mark.parametrize("folder", ["brokers/0", "producers/orders", "producers/jobs"])
def test_real_pages(capture_folder, folder):
    pages = sorted(capture_folder.glob(f"scrapes/{folder}/*.prom"))[:3]
    reader, chosen = ExpositionReader(keep), ExpositionReader()
    for path in pages:
        text = path.read_text()
        expected = oracle("\n".join(line for line in text.splitlines() if not line.startswith("#")) + "\n")
        page = reader.read(text)
        assert page.bad_lines == ()
        assert sorted(rows(reader, page), key=str) == sorted(expected, key=str)
        known = chosen.read(text)
        assert known.bad_lines == ()
        assert known.sample_count == len(expected)
        assert 0 < len(known.series) < len(expected)
        named = {form.metric.name for form in FORMS}
        assert all(series.name in named or series.name.startswith(KEPT_PREFIXES) for series in chosen.series)


@pytest.mark.timeout(300, method="thread")  # the pattern's engine hears no signal
@pytest.mark.parametrize("head", ["kafka_brokers", "kafka_brokers 1", 'kafka_brokers{a="b"', "kafka_brokers "])
@pytest.mark.parametrize("filler", [" ", "1", '"', ",", "\\"])
def test_a_line_of_two_megabytes_takes_no_longer_than_short_ones(head, filler):
    """Hours where the pattern tries each way to share the blanks."""
    assert len(ExpositionReader().read(f"{head}{filler * 2_000_000}!\n").bad_lines) == 1


def test_a_page_of_too_many_lines_is_refused_before_they_are_split(monkeypatch):
    """A list of 256 MiB of empty lines takes 4 GiB, and millions of series as much again."""
    monkeypatch.setattr(exposition, "MOST_LINES", 3)
    assert ExpositionReader().read("\n\n\n").sample_count == 0
    with pytest.raises(InputError, match="a page of 4 lines: at most 3 are read"):
        ExpositionReader().read("\n\n\n\n")


def test_an_exporter_whose_series_change_with_each_page_fills_no_memory(monkeypatch):
    monkeypatch.setattr(exposition, "REMEMBERED_SERIES", 10)
    reader = ExpositionReader(keep)
    for number in range(100):
        page = reader.read("".join(f'kafka_brokers{{a="{number}-{one}"}} 1\n' for one in range(6)))
        assert rows(reader, page) == [("kafka_brokers", {"a": f"{number}-{one}"}) for one in range(6)]
        assert len(reader.series) == len(reader.first_of_name) <= 12

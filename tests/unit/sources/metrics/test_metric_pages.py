"""Rows that files of metrics give: samples, and problems with file, line and what to do. No Spark session."""

import json

import pyarrow as pa
import pytest

from pipeline.codec.metrics.exposition import ExpositionReader
from pipeline.config.http_access import HttpAccess
from pipeline.sources.kinds.metrics import BrokerMetrics, ExporterUrls, LibrdkafkaStatistics, ProducerMetrics, keep_page
from pipeline.sources.metrics import sample_rows
from pipeline.sources.metrics.http_text import HttpReader
from pipeline.sources.metrics.metric_pages import MetricPage, discover_pages, discover_texts, plan_page_tasks, read_page
from pipeline.sources.metrics.sample_rows import MAX_SERIES_CHARS, SAMPLE_SCHEMA
from tests.memory import tracing_memory
from tests.unit.sources.http_servers import Answer, serving

AT_MS = 1_700_000_000_000


def rows(path, text, **fields):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    fields = {"kind": ProducerMetrics, **fields}
    page = MetricPage(source="s", instance="i", observed_at_ms=AT_MS, path=str(path), **fields)
    found = pa.Table.from_batches([*read_page(page, ExpositionReader())], SAMPLE_SCHEMA).to_pylist()
    return [r for r in found if r["row_kind"] == "sample"], [r for r in found if r["row_kind"] == "problem"]


def test_samples_of_a_page(tmp_path):
    name = "kafka_producer_producer_metrics_record_send"
    samples, problems = rows(tmp_path / "p", f'{name}{{client_id="c"}} 7\nkafka_brokers NaN\njvm_threads 3\n')
    assert problems == []
    assert [(s["name"], s["exposed_name"], s["labels"], s["value"], s["observed_at_ms"]) for s in samples] == [
        (f"{name}_total", name, [("client_id", "c")], 7, AT_MS),
        ("kafka_brokers", "kafka_brokers", [], None, AT_MS),
    ]


def test_a_label_ends_no_line(tmp_path):
    names = ["a\rkafka_brokers 77 \r", "b\u2028kafka_brokers 77 ", "c\x85kafka_brokers 77 "]
    page = "".join(f'kafka_producer_app_info_start_time_ms{{client_id="{name}"}} 1\r\n' for name in names)
    samples, problems = rows(tmp_path / "p", page)
    assert problems == []
    assert {s["name"] for s in samples} == {"kafka_producer_app_info_start_time_ms"}
    assert [s["labels"] for s in samples] == [[("client_id", name)] for name in names]


def test_values_that_nothing_has_are_as_if_never_recorded(tmp_path):
    """A negative latency would fail a gate, and a start beyond all integers the tasks, of every source of the cluster."""
    told = ("-5", "+Inf", "-Inf", "1e300", "9223372036854775808", "NaN", "0", "9e18")
    name = "kafka_producer_app_info_start_time_ms"
    page = "".join(f'{name}{{client_id="{number}"}} {value}\n' for number, value in enumerate(told))
    samples, problems = rows(tmp_path / "p", page)
    assert problems == []
    assert [s["value"] for s in samples] == [None] * 6 + [0.0, 9e18]


@pytest.mark.parametrize(
    ("text", "words", "severity", "sample_count"),
    [
        ("<!DOCTYPE html><html><body>502</body></html>\n", "an HTML page", "refused", 0),
        ("hello there\n", "no exporter page", "refused", 0),
        ("", "no exporter page", "refused", 0),
        (b"\xff\xfe", "cannot be read", "refused", 0),
        ("kafka_brokers 3\nkafka_bro", "torn", "refused", 0),
        ("kafka_brokers 3\nkafka_brokers 4\n", "a second sample", "suspect", 1),
        (f"kafka_brokers 3 {AT_MS - 240_000}\n", "-240 s from the scrape's", "suspect", 1),
    ],
)
def test_what_is_wrong_with_a_page(tmp_path, text, words, severity, sample_count):
    samples, problems = rows(tmp_path / "p", text)
    assert len(samples) == sample_count
    (problem,) = problems
    assert words in problem["reason"]
    assert (problem["severity"], problem["path"]) == (severity, str(tmp_path / "p"))
    assert all(sample["observed_at_ms"] == AT_MS for sample in samples)


@pytest.mark.parametrize("kind", [ProducerMetrics, LibrdkafkaStatistics])
@pytest.mark.parametrize("count", [999, 1000, 5000])
def test_a_text_of_noise_is_a_thousand_problems(tmp_path, kind, count):
    text = "kafka_brokers 1\n" + "!\n" * count if kind is ProducerMetrics else "!\n" * count
    _, problems = rows(tmp_path / "p", text, kind=kind)
    assert len(problems) == min(count, 1000)
    more = [p["reason"] for p in problems if "more" in p["reason"]]
    assert more == [f"{count - 999} more problems in this file"] * (count > 999)


def test_a_page_with_none_of_the_wanted_metrics_is_fine(tmp_path):
    assert rows(tmp_path / "p", "# TYPE up gauge\nup 1\n") == ([], [])


def test_texts_of_clients(tmp_path):
    statistics = {"name": "c#producer-1", "ts": 1, "time": 5, "brokers": {}, "topics": {}, "msg_cnt": 4}
    samples, problems = rows(tmp_path / "q", json.dumps(statistics) + "\n", kind=LibrdkafkaStatistics, is_dated=False)
    assert [(s["name"], s["value"], s["observed_at_ms"]) for s in samples] == [("librdkafka_msg_cnt", 4, 5000)]
    _, problems = rows(tmp_path / "r", "", kind=LibrdkafkaStatistics)
    assert [p["reason"] for p in problems] == ["no metric in it"]


def statistics_of(client_id, brokers=3):
    nodes = {str(node): {"nodeid": node, "name": "b", "tx": 1} for node in range(brokers)}
    return json.dumps({"name": "r#p-1", "client_id": client_id, "ts": 1, "time": 5, "brokers": nodes})


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f"{statistics_of('c' * MAX_SERIES_CHARS)}\n{statistics_of('d')}\n", LibrdkafkaStatistics),
        (f'kafka_brokers{{a="{"c" * MAX_SERIES_CHARS}"}} 1\nkafka_brokers{{a="d"}} 1\n', ProducerMetrics),
        (f"kafka_producer_{'c' * MAX_SERIES_CHARS} 1\nkafka_brokers 1\n", ProducerMetrics),
    ],
    ids=["a client's text", "a page", "a name"],
)
def test_series_that_are_too_long_are_left_out_and_told_of_once(tmp_path, text, kind):
    """Each sample repeats its series' labels: a client's name of 500 kB takes gigabytes in the rows of 2,000 brokers."""
    samples, problems = rows(tmp_path / "s", text, kind=kind)
    assert samples
    assert all(len(sample["labels_text"]) < 100 for sample in samples)
    (problem,) = problems
    assert problem["reason"] == "series with more than 16,384 characters of names and labels are left out"


def test_no_series_passes_for_another_by_a_comma_in_a_label(tmp_path):
    text = 'kafka_brokers{a="1,b=2"} 1\nkafka_brokers{a="1",b="2"} 1\nkafka_brokers{a="1\\\\",b="2"} 1\n'
    samples, problems = rows(tmp_path / "s", text)
    assert [sample["labels_text"] for sample in samples] == ["a=1\\,b\\=2", "a=1,b=2", "a=1\\\\,b=2"]
    assert problems == []


def test_a_text_gives_so_many_bytes_of_samples_in_arrays_that_arrow_can_hold(tmp_path, monkeypatch):
    text = "".join(f"{statistics_of('c' * 1000)}\n" for _ in range(9))
    everything, problems = rows(tmp_path / "s", text, kind=LibrdkafkaStatistics)
    assert problems == []
    monkeypatch.setattr(sample_rows, "_MOST_BATCH_CHARS", 5000)
    assert rows(tmp_path / "s", text, kind=LibrdkafkaStatistics) == (everything, [])
    monkeypatch.setattr(sample_rows, "MOST_SAMPLE_BYTES", 1 << 18)
    some, (problem,) = rows(tmp_path / "s", text, kind=LibrdkafkaStatistics)
    assert 0 < len(some) < len(everything)
    assert problem["reason"].startswith("its samples take more than 0 MiB: the rest is left out")


@pytest.mark.parametrize("odd", [{"client_id": "\ud800"}, {"time": -(10**30)}, {"time": 10**15}])
def test_what_no_table_can_hold_is_a_problem_of_its_text(tmp_path, odd):
    path = tmp_path / "app.json"
    known = {"name": "r#p-1", "client_id": "r", "ts": 1_000_000, "time": 1_700_000_000, "age": 5, "txmsgs": 5}
    broker = {"a": {"name": "a", "nodeid": 1, "tx": 5, "req": {"Produce": 3}}}
    path.write_text(json.dumps(known | {"brokers": broker} | odd))
    (page,), _ = discover_texts([path], "librdkafka_statistics", LibrdkafkaStatistics, (".json",))
    (rows,) = read_page(page, ExpositionReader())
    (row,) = rows.to_pylist()
    assert (row["row_kind"], row["path"]) == ("problem", str(path))


def test_a_name_of_too_many_digits_is_no_instant(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / f"{'9' * 30}.prom").write_text("# TYPE a counter\na_total 1\n")
    pages, (problem,) = discover_pages(tmp_path, "producer_metrics", ProducerMetrics)
    assert pages == ()
    assert problem.reason.startswith("the file name is not an instant")


def test_pages_of_two_exporters_in_one_task(tmp_path):
    pages = []
    for instance, value in (("a", 1), ("a", 2), ("b", 3)):
        path = tmp_path / f"{instance}{value}"
        path.write_text(f'kafka_brokers{{at="{instance}"}} {value}\n')
        of = {"source": "s", "kind": ProducerMetrics, "path": str(path)}
        pages.append(MetricPage(instance=instance, observed_at_ms=value, **of))
    (task,) = plan_page_tasks(pages, 1)
    found = [row for _, rows in task.run() for row in rows.to_pylist()]
    told = [(r["instance"], dict(r["labels"])["at"], r["value"]) for r in found]
    assert told == [("a", "a", 1), ("a", "a", 2), ("b", "b", 3)]


def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path):
    """What it leads to might be another host's page, or any other file."""
    (tmp_path / "elsewhere").write_text("kafka_brokers 3\n")
    root = tmp_path / "pages"
    (root / "1").mkdir(parents=True)
    (root / "1" / f"{AT_MS}.prom").write_text("kafka_brokers 3\n")
    (root / "1" / f"{AT_MS + 1}.prom").symlink_to(tmp_path / "elsewhere")
    (root / "1" / f"{AT_MS + 2}.prom").symlink_to(root / "1" / f"{AT_MS}.prom")
    (tmp_path / "another").mkdir()
    (tmp_path / "another" / f"{AT_MS + 3}.prom").write_text("kafka_brokers 3\n")
    (root / "2").symlink_to(tmp_path / "another")
    (root / "3").symlink_to("1")
    pages, problems = discover_pages(root, "s", ProducerMetrics)
    assert [(page.instance, page.observed_at_ms - AT_MS) for page in pages] == [("1", 0), ("1", 2), ("3", 0), ("3", 2)]
    (root / "3").unlink()
    pages, more = discover_texts([root], "s", ProducerMetrics, [".prom"])
    assert [page.observed_at_ms - AT_MS for page in pages] == [0, 2]
    for found in (problems, more[:1]):
        assert {problem.reason for problem in found} == {f"a link that leads out of {root}"}


BYTES_IN = "kafka_server_brokertopicmetrics_bytesin_total"


@pytest.mark.parametrize("label", ["broker_id", "instance", "host_name", "exported_instance", "pod", "cluster"])
def test_a_page_of_several_brokers_is_none_of_one(tmp_path, label):
    """Such as one of a gateway, or of Prometheus' own federation; what it says of clients is read."""
    page = "".join(
        f'{BYTES_IN}{{{label}="{n}"}} {n}\nkafka_log_log_size{{topic="t",{label}="{n}"}} 7\n' for n in (1, 2)
    )
    samples, (problem,) = rows(tmp_path / "p", page + 'kafka_producer_producer_metrics_record_send{client_id="c"} 7\n')
    assert [sample["labels"] for sample in samples] == [[("client_id", "c")]]
    said = f"a page of several brokers: {label} 1, 2; what it tells of brokers is not taken"
    assert problem["reason"].startswith(said)
    assert problem["path"] == str(tmp_path / "p")


def test_a_page_with_app_info_of_several_brokers_is_none_of_one(tmp_path):
    page = "".join(f'kafka_server_app_info_starttimems{{id="{n}"}} 5\n' for n in (2, 10))
    samples, (problem,) = rows(tmp_path / "p", f"{page}{BYTES_IN} 3\n")
    assert samples == []
    assert "broker_id 2, 10" in problem["reason"]


def test_what_a_broker_has_of_each_topic_request_or_listener_makes_no_several_brokers(tmp_path):
    labels = ('topic="t",broker_id="1"', 'broker_id="1"', 'topic="u",pod="a"', 'listener="x",pod="a"', 'listener="y"')
    page = "".join(f"{BYTES_IN}{{{label}}} 3\n" for label in labels)
    samples, problems = rows(tmp_path / "p", page)
    assert (len(samples), problems) == (5, [])


def test_doctor_says_that_a_page_is_of_several_brokers(tmp_path):
    for number in (1, 2):
        page = tmp_path / f"{number}/{AT_MS}.prom"
        page.parent.mkdir()
        page.write_text("".join(f'{BYTES_IN}{{pod="kafka-{n}"}} 3\n' for n in range(number)))
    findings = [*BrokerMetrics(kind="broker_metrics", path=tmp_path).probe()]
    assert [(one.found, one.advice) for one in findings if not one.is_ok] == [
        (f"{page}: a page of several brokers: pod kafka-0, kafka-1", "keep a page of each broker in its own folder")
    ]
    answers = {"/a": Answer(page.read_text()), "/b": Answer(f"{BYTES_IN} 3\n")}
    with serving(answers) as site:
        urls = {1: f"{site.url}/a", 2: f"{site.url}/b"}
        findings = [*ExporterUrls(kind="exporter_urls", path=tmp_path / "new", brokers=urls).probe()]
        (wrong,) = (one.found for one in findings if not one.is_ok)
        assert wrong == f"{site.url}/a: a page of several brokers: pod kafka-0, kafka-1"


def test_a_page_is_kept_in_little_more_than_its_size_of_memory(tmp_path):
    """One character beyond Unicode's first plane makes a text take four bytes for each."""
    page = 'kafka_brokers{a="\U0001f600"} 1\n# ' + "x" * 3_000_000 + "\n"
    with serving({"/metrics": Answer(page)}) as site, HttpReader(HttpAccess(), print) as http:
        assert keep_page(http, f"{site.url}/metrics", tmp_path, 1)  # imports what it needs
        with tracing_memory() as peak_bytes:
            assert keep_page(http, f"{site.url}/metrics", tmp_path, 2)
            assert peak_bytes() < 8 * len(page)
    assert (tmp_path / "2.prom").read_text() == page

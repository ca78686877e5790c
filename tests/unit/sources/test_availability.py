"""Expected and arrived per source and window. Oracle: the tables below, from the docstrings of the kinds."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.codec.metadata.cluster_history import MetadataEntry, fold_cluster_history
from pipeline.codec.metadata.cluster_metadata import MetadataRecord, RecordType
from pipeline.config.pipeline_config import Cluster
from pipeline.config.section import known_kinds
from pipeline.model.cluster import Broker, ClusterHistory, ConsumerGroupMember, Timeline
from pipeline.model.log_tree import LogTree
from pipeline.model.window import TimeWindow
from pipeline.sources.cluster_reading import iter_availability
from pipeline.sources.files.cluster_rows import count_directories
from pipeline.sources.kinds.log_directories import LogDirectories
from pipeline.sources.kinds.metrics import (
    BrokerMetrics,
    ExporterUrls,
    LibrdkafkaStatistics,
    ProducerMetrics,
    Prometheus,
)
from pipeline.sources.kinds.tool_texts import ConsumerGroups, TopicsDescribe
from pipeline.sources.metrics.metric_pages import MetricPage, discover_pages, discover_texts, pages_within
from pipeline.sources.metrics.metric_source import InstanceSamples, samples_of_pages
from pipeline.sources.source import ClusterReading
from tests.unit.sources.trees import log_directory

S = 1000
WINDOWS = (TimeWindow(0, 60 * S), TimeWindow(60 * S, 120 * S))
LOGS = LogDirectories(kind="log_directories", paths=(Path("d"),))
MEMBER = ConsumerGroupMember(
    **dict.fromkeys(("group_id", "topic", "partition", "committed_offset", "log_end_offset", "lag_count")),
    **dict.fromkeys(("member_id", "client_host", "client_id")),
)

ROOT = Path(__file__).parents[3]


def reading(*, disks=(), brokers=None, groups=()):
    tree = LogTree(directories=tuple(disks))
    timelines = {b: Timeline((at,), (Broker(broker_id=b),)) for b, at in (brokers or {}).items()}
    history = ClusterHistory(state_source="cluster_metadata", known_since_ms=0, brokers=timelines)
    found = {"tree": tree, "directory_counts": count_directories(tree), "groups": tuple((at, MEMBER) for at in groups)}
    return ClusterReading(record_source="log_directories", history=history, **found)


def scrapes(instance, *seconds):
    of = {"source": "s", "instance": instance, "kind": ProducerMetrics}
    return [MetricPage(observed_at_ms=int(s * S), path=f"{instance}/{s}", **of) for s in seconds]


def arrivals(source, found=None, newest_ms=None, *, pages=None, samples=()):
    listed = {} if pages is None else {source.kind: tuple(pages)}
    found = found or reading()
    rows = iter_availability(Cluster(sources=(source,)), found, WINDOWS, newest_ms, listed=listed, samples=samples)
    return [(row.expected_count, row.arrived_count) for _, _, row in rows]


def test_log_directories_expect_the_brokers_registered_at_the_windows_end():
    disks = [log_directory(b, {"t-0": [(0, 1)]}) for b in (1, 1, 3)]
    disks.append(log_directory(100, {"__cluster_metadata-0": [(0, 1)]}))
    found = reading(disks=disks, brokers={1: 0, 2: 70 * S, 100: 500 * S})
    assert arrivals(LOGS, found) == [(2, 2), (3, 2)]  # 3 was found though nobody registered it


def test_disks_of_an_idle_cluster_are_as_recent_as_their_metadata_log():
    entries = [MetadataEntry(at_ms, at_ms, MetadataRecord(RecordType.NO_OP, 0, {})) for at_ms in (5, 90 * S)]
    history, _ = fold_cluster_history(entries)
    found = replace(reading(), history=history)
    newest = {at_ms: LOGS.availability(found, WINDOWS[1], at_ms).newest_ms for at_ms in (None, 7, 95 * S)}
    assert newest == {None: 90 * S, 7: 90 * S, 95 * S: 95 * S}
    assert LOGS.availability(reading(), WINDOWS[1], None).newest_ms is None


def test_groups_are_described_when_somebody_cares_to():
    source = ConsumerGroups(kind="consumer_groups", paths=(Path("g"),))
    assert arrivals(source, reading(groups=(5, 5, 10 * S, 60 * S))) == [(None, 2), (None, 1)]


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        (scrapes("a", *range(0, 125, 5)), [(12, 12), (12, 12)]),
        (scrapes("a", *range(0, 125, 5)) + scrapes("b", *range(30, 95, 5)), [(18, 18), (18, 19)]),
        (scrapes("a", 0, *range(40, 125, 5)), [(12, 5), (12, 12)]),  # the exporter was silent for half a minute
        ([], [(12, 0), (12, 0)]),  # silence is not health
        (scrapes("a", 61), [(12, 0), (0, 1)]),
    ],
)
def test_scrapes_are_expected_while_the_instance_lived(pages, expected):
    assert arrivals(ProducerMetrics(kind="producer_metrics", path=Path("p")), pages=pages) == expected


def sampled(kind, instance, *seconds):
    for window in WINDOWS:
        instants = [second * S for second in seconds if second * S in window]
        if instants:
            yield InstanceSamples(kind, instance, window.start_ms, len(instants), min(instants), max(instants))


@pytest.mark.parametrize(
    ("instants", "expected"),
    [
        ([*sampled("prometheus", "a:1", *range(0, 120, 10))], [(6, 6), (6, 6)]),
        ([*sampled("prometheus", "a:1", *range(0, 120, 10)), *sampled("prometheus", "b:1", 30, 40)], [(8, 8), (6, 6)]),
        ([*sampled("prometheus", "a:1", 0, 10, *range(90, 120, 10))], [(6, 2), (6, 3)]),
        ([*sampled("librdkafka_statistics", "a:1", 0)], [(6, 0), (6, 0)]),
        ([], [(6, 0), (6, 0)]),
    ],
)
def test_points_of_a_server_are_expected_while_the_instance_lived(instants, expected):
    assert arrivals(Prometheus(kind="prometheus", url="http://p", step="PT10S"), samples=instants) == expected


def test_urls_are_each_expected_once_an_interval():
    urls = ExporterUrls(kind="exporter_urls", producers={"a": "http://a"}, brokers={1: "http://b"}, path=Path("p"))
    assert arrivals(urls, pages=scrapes("a", 61)) == [(1, 0), (2, 1)]


def missing(source, pages=(), samples=()):
    listed = {source.kind: tuple(pages)} if pages else {}
    rows = iter_availability(Cluster(sources=(source,)), reading(), WINDOWS, None, listed=listed, samples=samples)
    return [row.missing for _, _, row in rows]


def test_what_brought_nothing_is_named():
    urls = ExporterUrls(kind="exporter_urls", producers={"a": "http://a"}, brokers={1: "http://b"}, path=Path("p"))
    assert missing(urls, scrapes("a", 61)) == ["no sample of 1, a", "no sample of 1"]
    server = Prometheus(kind="prometheus", url="http://p")
    gone = [*sampled("prometheus", "a:1", 10), InstanceSamples("prometheus", "a:1", 120 * S, 1, 130 * S, 130 * S)]
    assert missing(server, samples=[*gone, *sampled("prometheus", "b:1", 10)]) == ["", "no sample of a:1"]
    many = [t._replace(instance=f"{t.instance}{n}") for n in range(7) for t in gone]
    assert missing(server, samples=many)[1] == "no sample of a:10, a:11, a:12, a:13, a:14 and 2 more"


def test_a_silent_source_is_seen_beside_another_of_its_kind():
    servers = tuple(Prometheus(kind="prometheus", url="http://p", step=step) for step in ("PT10S", "PT30S"))
    samples = [*sampled("prometheus", "a:1", 0, 30)]
    rows = iter_availability(Cluster(sources=servers), reading(), WINDOWS[:1], None, listed={}, samples=samples)
    found = {source: (row.expected_count, row.arrived_count) for _, source, row in rows}
    assert found == {"prometheus": (4, 2), "prometheus-2": (2, 0)}


def test_every_kind_once_with_the_newest_instant():
    producers = ProducerMetrics(kind="producer_metrics", path=Path("p"))
    brokers = BrokerMetrics(kind="broker_metrics", path=Path("b"))
    texts = TopicsDescribe(kind="topics_describe", path=Path("t"))
    cluster = Cluster(sources=(LOGS, LOGS, texts, producers, brokers))
    listed = {"producer_metrics": tuple(scrapes("a", 1, 90))}
    rows = iter_availability(cluster, reading(), WINDOWS[:1], 7 * S, listed=listed)
    newest = [(source, row.newest_ms) for _, source, row in rows]
    assert newest == [("log_directories", 7 * S), ("producer_metrics", 90 * S), ("broker_metrics", None)]


def test_pages_of_a_span_come_with_the_one_before():
    pages = scrapes("b", 50, 55, 60, 119.999, 120) + scrapes("a", 130)
    chosen = [(page.instance, page.observed_at_ms) for page in pages_within(pages, WINDOWS[1])]
    assert chosen == [("b", 55_000), ("b", 60_000), ("b", 119_999)]


def test_expected_pages_never_go_below_nothing():
    pages = samples_of_pages(scrapes("a", 500, 600), 60 * S)
    source = ProducerMetrics(kind="producer_metrics", path=Path("p"))
    assert source.count_expected(pages, WINDOWS[0], 5 * S) == 0


def test_pages_are_found_by_instance_and_instant(tmp_path):
    for name in ("b/10.prom", "a/200.prom", "a/30.prom", "a/late.prom", "a/30.txt", "31.prom"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    pages, problems = discover_pages(tmp_path, "producer_metrics", ProducerMetrics)
    assert [(page.instance, page.observed_at_ms) for page in pages] == [("a", 30), ("a", 200), ("b", 10)]
    assert [(Path(p.path).name, "not an instant" in p.reason) for p in problems] == [("late.prom", True)]
    (none,) = discover_pages(tmp_path / "none", "x", ProducerMetrics)[1]
    assert none.reason == "no such directory: no scrapes were read"


def test_texts_are_found_by_name_folder_and_pattern(tmp_path):
    for name in ("a/1700000000000.json", "b/stats-1700000000001.jsonl", "b/c/run.out", "b/skipped.csv", "x-1.out"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    paths = [tmp_path / name for name in ("a", "b", "x-*.out", "none")]
    pages, problems = discover_texts(paths, "s", LibrdkafkaStatistics, (".json", ".jsonl", ".out"))
    dated = [(page.instance, page.observed_at_ms if page.is_dated else None) for page in pages]
    assert dated == [("a", 1_700_000_000_000), ("run", None), ("stats", 1_700_000_000_001), ("x-1", None)]
    assert [Path(problem.path).name for problem in problems] == ["none"]


def test_windows_count_as_read_by_every_kind_that_bears_records():
    suite = json.loads((ROOT / "expectations/suites/window_status_gate.json").read_text())
    (present,) = (one for one in suite["expectations"] if one["meta"]["check"] == "windows_present")
    named = set(re.findall(r"'(\w+)'", present["kwargs"]["where"]))
    assert named == {name for name, kind in known_kinds().items() if kind.bears_records}

"""Pages of exporters that a run scrapes and keeps. Oracle: the pages below, each given by a server on loopback."""

from dataclasses import replace

import pytest

from pipeline.sources.metrics.metric_source import read_metrics
from tests.unit.sources.http_servers import Answer, serving
from tests.unit.sources.metrics.readings import NOW_MS, QUESTION, cluster, read


def exporters(folder, site, **more):
    """A source of one broker's pages, kept in the folder."""
    return {"kind": "exporter_urls", "brokers": {"4": f"{site.url}/page"}, "path": str(folder), **more}


def test_exporters_are_scraped_now_and_pages_kept(tmp_path):
    good = "# TYPE kafka_brokers gauge\nkafka_brokers 1\n"
    answers = {
        "/good": Answer(good),
        "/html": Answer("<!DOCTYPE html><html>", headers={"Content-Type": "text/plain"}),
        "/half": Answer("a 1\n", headers={"Content-Type": "application/openmetrics-text; version=1.0.0"}),
        "/cut": Answer(good, cut=9),
    }
    with serving(answers) as site:
        urls = {path[1:]: f"{site.url}{path}" for path in answers}
        source = exporters(tmp_path, site, producers=urls, brokers={"4": f"{site.url}/good"})
        reading = read({**source, "access": {"attempts": 1}})
        past = cluster(source, as_of="2026-01-01T00:00:00Z")
        recorded = read_metrics(past, replace(QUESTION, now_ms=NOW_MS + 1, pause=None, clock=lambda: NOW_MS + 1))
    assert {path.parent.name: path.read_text() for path in tmp_path.glob("*/*")} == {"good": good, "4": good}
    assert {page.observed_at_ms for page in reading.listed["exporter_urls"]} == {NOW_MS}
    reasons = {problem.path.rpartition("/")[2]: problem.reason for problem in reading.problems["exporter_urls"]}
    for name, word in (("html", "HTML"), ("half", "# EOF"), ("cut", "broke off")):
        assert word in reasons[name]
    assert len(recorded.listed["exporter_urls"]) == 2  # the past is not scraped


def test_pages_that_were_scraped_long_ago_are_deleted_by_a_scrape_and_nothing_else_is(tmp_path):
    day_ms = 24 * 3_600_000
    names = {name: NOW_MS - days * day_ms for name, days in (("old", 32), ("young", 30))}
    others = (*(f"4/{at_ms}.txt" for at_ms in names.values()), "4/notes.prom", f"other/{names['old']}.prom")
    for path in (*(f"4/{at_ms}.prom" for at_ms in names.values()), *others):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("a 1\n")
    with serving({"/page": Answer("kafka_brokers 1\n")}) as site:
        source = exporters(tmp_path, site)
        read(source)
        kept = {f"{path.parent.name}/{path.name}" for path in tmp_path.glob("*/*")}
        assert kept == {f"4/{names['young']}.prom", f"4/{NOW_MS}.prom", *others}
        read({**source, "keep": "P1D"})
    assert not (tmp_path / f"4/{names['young']}.prom").exists()


def test_pages_of_an_exporter_take_so_many_bytes_and_the_oldest_go_first(tmp_path):
    """130 kB of a compressed page are 64 MiB on disk."""
    page = "kafka_brokers 1\n"
    for hours in (3, 2, 1):
        (tmp_path / "4").mkdir(exist_ok=True)
        (tmp_path / f"4/{NOW_MS - hours * 3_600_000}.prom").write_text(page)
    with serving({"/page": Answer(page), "/large": Answer(page * 5)}) as site:
        source = exporters(tmp_path, site, keep_bytes=2 * len(page))
        (problem,) = read(source).problems["exporter_urls"]
        assert "the oldest are deleted" in problem.reason
        assert sorted(path.name for path in tmp_path.glob("4/*")) == [f"{NOW_MS - 3_600_000}.prom", f"{NOW_MS}.prom"]
        read({**source, "brokers": {"5": f"{site.url}/large"}})
        assert len(list(tmp_path.glob("5/*"))) == 1  # the newest stays


@pytest.mark.parametrize(
    ("page", "count"),
    [("# TYPE up gauge\nup 1\n", 0), (" " * 9999, 0), ('{"kafka.brokers"} 1\n', 1), ("\tkafka_brokers 1", 1)],
)
def test_a_page_without_a_metric_that_is_read_is_not_kept(tmp_path, page, count):
    with serving({"/page": Answer(page)}) as site:
        problems = read(exporters(tmp_path, site)).problems.get("exporter_urls", ())
    assert len(list(tmp_path.glob("4/*"))) == count
    told = [one.severity for one in problems if "holds none of the metrics that are read" in one.reason]
    assert told == ["suspect"] * (not count)

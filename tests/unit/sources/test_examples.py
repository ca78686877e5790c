"""Small examples of what sources say and how they cut their work."""

from kafka.errors import NotLeaderForPartitionError

from pipeline.config.http_access import PrometheusServer
from pipeline.sources.files.directory_walk import split_instant
from pipeline.sources.files.segment_plan import pack
from pipeline.sources.kinds import list_given
from pipeline.sources.live.admin import format_topic_id, parse_topic_id
from pipeline.sources.live.connection import count_votes
from pipeline.sources.live.requests import describe_error, pages
from pipeline.sources.metrics.metric_pages import plan_page_tasks
from pipeline.sources.metrics.prometheus import iter_queries
from pipeline.sources.questions import name_some
from pipeline.storage.data_files import write_at_once
from pipeline.storage.frames import count_group_rows


def test_names_and_errors_in_words():
    assert name_some("no dump of", ["a-0", "a-1", "a-2", "a-3", "a-4", "a-5"]) == (
        "no dump of a-0, a-1, a-2, a-3, a-4 and 1 more"
    )
    assert name_some("no dump of", []) == ""
    assert describe_error(NotLeaderForPartitionError()) == "NotLeaderForPartition"
    assert list_given(["live_cluster"])[1] == ("latency",)
    assert (split_instant("stats-1700000000001"), split_instant("run")) == (("stats", 1700000000001), ("run", None))
    assert format_topic_id(parse_topic_id("mVsUlzfsTymVTWsIRJRDCQ")) == "mVsUlzfsTymVTWsIRJRDCQ"


def test_what_more_than_half_say_counts():
    assert count_votes([{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "c": 1}]) == ({"a": 1}, ["b"])


def test_pages_of_work():
    assert list(pages("abcde", 2)) == [("a", "b"), ("c", "d"), ("e",)]
    assert (pack((), target_bytes=1, least=2, order=str), plan_page_tasks((), 2)) == ((), [])
    assert [count_group_rows(*of) for of in ((1_000, 1 << 23), (3, 1 << 30), (0, 0))] == [500, 1, 1]
    assert write_at_once([lambda: {"a": 1}, lambda: {"b": 2}]) == {"a": 1, "b": 2}


def test_a_query_asks_for_every_name_of_a_family():
    asked = PrometheusServer(url="http://p:9090", selector='env="a"')
    query = next(query.promql for query in iter_queries(asked) if query.subject == "kafka_log_log")
    assert query == '{__name__=~"(?i:(kafka_log_log)(_size|_size_value))",env="a"}'

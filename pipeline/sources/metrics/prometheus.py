"""Samples from a Prometheus server through its HTTP API, `query_range`, a page of time after the other.

The server answers each point with the newest sample of the five minutes before it: values are as scraped, instants are
those of the points. A target that went away ends at once (staleness markers).

References:
    Prometheus HTTP API, range queries: at most 11,000 points a series.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.codec.metrics.metric_names import Series, name_series
from pipeline.config.http_access import PrometheusServer
from pipeline.errors import ConfigError, HttpStatusError, InputError, parser
from pipeline.model.finding import Finding
from pipeline.model.log import Problem
from pipeline.model.number_text import format_name
from pipeline.model.window import TimeWindow, format_instant
from pipeline.sources.metrics.http_text import HttpReader, shown
from pipeline.sources.metrics.metric_source import MetricReading, SampleQuestion
from pipeline.sources.metrics.sample_rows import MAX_SKEW_MS, milliseconds_of_seconds, sample_batch
from pipeline.sources.questions import name_some

_STAGES = "requestqueue|local|remote|throttle|responsequeue|responsesend|total"
_STAGES_DEFAULT = "RequestQueue|Local|Remote|Throttle|ResponseQueue|ResponseSend|Total"


class MetricFamily(NamedTuple):
    """Metrics asked for together: an anchored pattern of exposed names, further matchers, one point a window or all."""

    name: str
    matchers: str = ""
    is_coarse: bool = False


FAMILIES = (
    MetricFamily(
        "kafka_producer_producer_node_metrics_"
        "(request|request_total|outgoing_byte|outgoing_byte_total|request_latency_avg|request_latency_max)"
    ),
    MetricFamily(
        "kafka_producer_producer_metrics_(batch_size_avg|records_per_request_avg|record_queue_time_(avg|max)"
        "|produce_throttle_time_(avg|max)|requests_in_flight|buffer_available_bytes|buffer_total_bytes|bufferpool_wait_ratio"
        "|(bufferpool_wait_time_ns|record_send|record_error|record_retry)(_total)?)"
    ),
    MetricFamily("kafka_producer_app_info_start_time_ms"),
    MetricFamily(
        "kafka_server_brokertopicmetrics_(bytesin|bytesout|messagesin|replicationbytesin|replicationbytesout"
        "|bytesrejected|failedproducerequests|totalproducerequests)(persec)?_total"
    ),
    MetricFamily(
        "kafka_server_BrokerTopicMetrics_Count",
        matchers='name=~"(BytesIn|BytesOut|MessagesIn|ReplicationBytesIn|ReplicationBytesOut|BytesRejected'
        '|FailedProduceRequests|TotalProduceRequests)PerSec"',
    ),
    MetricFamily(
        f"kafka_network_requestmetrics_({_STAGES})timems", matchers='request="Produce",quantile=~"0.50|0.5|0.99"'
    ),
    MetricFamily(
        f"kafka_network_requestmetrics_({_STAGES})timems_(mean|count|count_total)", matchers='request="Produce"'
    ),
    MetricFamily(
        "kafka_network_RequestMetrics_(Mean|Count|50thPercentile|99thPercentile)",
        matchers=f'request="Produce",name=~"({_STAGES_DEFAULT})TimeMs"',
    ),
    MetricFamily(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle"
        "(_percent|percent_count|percent_count_total|percent_oneminuterate)"
    ),
    MetricFamily(
        "kafka_server_KafkaRequestHandlerPool_(OneMinuteRate|Count)", matchers='name="RequestHandlerAvgIdlePercent"'
    ),
    MetricFamily("kafka_network_socketserver_networkprocessoravgidle_?percent"),
    MetricFamily("kafka_network_SocketServer_Value", matchers='name="NetworkProcessorAvgIdlePercent"'),
    MetricFamily(
        "kafka_server_replicamanager_(leadercount|partitioncount|underreplicatedpartitions|offlinereplicacount)"
    ),
    MetricFamily(
        "kafka_server_ReplicaManager_Value",
        matchers='name=~"LeaderCount|PartitionCount|UnderReplicatedPartitions|OfflineReplicaCount"',
    ),
    MetricFamily("kafka_server_app_info_(starttimems|StartTimeMs|start_time_ms)", is_coarse=True),
    MetricFamily("kafka_log_log_size", is_coarse=True),
    MetricFamily("kafka_log_Log_Value", matchers='name="Size"', is_coarse=True),
    MetricFamily("kafka_topic_partition_current_offset", is_coarse=True),
)


class Query(NamedTuple):
    """An expression, the canonical name of all series in the answer (None: their own), one point a window or all."""

    promql: str
    name: str | None = None
    is_coarse: bool = False

    @property
    def subject(self) -> str:
        """Subject of the question, in a word."""
        return self.name or self.promql.split('"')[1]


def iter_queries(source: PrometheusServer) -> Iterator[Query]:
    """The generated queries, then the configured ones.

    >>> from pipeline.config.http_access import PrometheusServer
    >>> asked = PrometheusServer(url="http://p:9090", selector='env="a"')
    >>> next(iter_queries(asked)).promql[-22:]
    'latency_max)",env="a"}'
    """
    for family in FAMILIES:
        matchers = ",".join(part for part in (f'__name__=~"{family.name}"', family.matchers, source.selector) if part)
        yield Query(promql=f"{{{matchers}}}", is_coarse=family.is_coarse)
    for name, promql in source.queries.items():
        if promql:
            yield Query(promql=promql, name=name)


_OF_BROKERS = ("kafka_server_", "kafka_network_", "kafka_log_")
POINTS_PER_PAGE = 11_000
_TOO_MUCH = 422
_HOPELESS = frozenset({401, 403, 404, 429})
_GIVE_UP, _MOST_WARNINGS = 2, 20


def plan_pages(span: TimeWindow, step_ms: int, *, points_per_page: int = POINTS_PER_PAGE) -> list[range]:
    """The multiples of the step, counted from the epoch, in a span, and one before it: counters need a predecessor.

    >>> from pipeline.model.window import TimeWindow
    >>> plan_pages(TimeWindow(0, 100_000), 1000, points_per_page=60)
    [range(-1000, 59000, 1000), range(59000, 100000, 1000)]
    """
    return _cut(range(-(-span.start_ms // step_ms) * step_ms - step_ms, span.end_ms, step_ms), points_per_page)


def plan_coarse_pages(span: TimeWindow, step_ms: int, window_ms: int) -> list[range]:
    """One point a window, the last multiple of the step in it; the span is whole windows."""
    return _cut(range(span.start_ms + window_ms - min(step_ms, window_ms), span.end_ms, window_ms), POINTS_PER_PAGE)


def _cut(instants_ms: range, points_per_page: int) -> list[range]:
    starts = range(0, len(instants_ms), points_per_page)
    return [instants_ms[start : start + points_per_page] for start in starts]


def read_prometheus(source: PrometheusServer, question: SampleQuestion) -> MetricReading:
    """Asks for every known metric over a span.

    A query that fails costs its own metrics. A server that cannot be reached, or refuses the identity, is asked once, and
    one that fails twice in a row no more.
    """
    batches: list[pa.RecordBatch] = []
    problems: list[Problem] = []
    path = shown(source.url)
    try:
        http = HttpReader(source.access, question.pause)
    except ConfigError as error:
        return MetricReading(problems={question.name: (Problem(path=path, reason=str(error)),)})
    fine = plan_pages(question.span, source.interval_ms)
    coarse = plan_coarse_pages(question.span, source.interval_ms, question.window_ms)
    with http:
        server = _Server(source, question.name, http, question.clock)
        failed_in_a_row = 0
        for query in iter_queries(source):
            try:
                for page in coarse if query.is_coarse else fine:
                    batches += server.read_page(query, page)
            except InputError as error:
                problems.append(Problem(path=path, reason=f"{error.reason} [{query.subject}]"))
                failed_in_a_row += 1
                if not isinstance(error, HttpStatusError) or error.status in _HOPELESS or failed_in_a_row == _GIVE_UP:
                    break
            else:
                failed_in_a_row = 0
        problems += server.problems()
    return MetricReading(batches=tuple(batches), problems={question.name: tuple(problems)})


class _Server:
    """Asks, and remembers warnings and the server's clock."""

    def __init__(
        self, source: PrometheusServer, source_name: str, http: HttpReader, clock: Callable[[], int] | None = None
    ) -> None:
        self._source = source
        self._source_name = source_name
        self._http = http
        self._url = source.url.rstrip("/") + "/api/v1/"
        self._warnings: set[str] = set()
        self._clock = clock
        self._clocks: tuple[int, int] | None = None

    @parser
    def ask(self, endpoint: str, asked: Mapping[str, str]) -> dict[str, Any]:
        """`data` of an answer: `result` and `resultType`; `InputError` where there is none."""
        url = self._url + endpoint
        answer = self._http.read(url, asked, accept="application/json")
        if answer.content_type == "text/html":
            reason = "an HTML page where JSON was expected: is this the address of a Prometheus server?"
            raise InputError(reason, path=shown(url))
        try:
            document = json.loads(answer.text)
            data = {name: document["data"][name] for name in ("result", "resultType")}
        except (ValueError, KeyError, TypeError) as error:
            reason = "no answer of a Prometheus server (JSON with data.result expected): is the address right?"
            raise InputError(reason, path=shown(url)) from error
        if self._clock is not None and answer.date_ms:
            self._clocks = (answer.date_ms, self._clock())
        self._warnings.update(map(str, document.get("warnings") or ()))
        return data

    @parser
    def read_page(self, query: Query, page: range) -> list[pa.RecordBatch]:
        """Rows of one page of instants, by instance; one that is too much for the server is asked for in halves."""
        asked = {"start": page[0], "end": page[-1], "step": page.step}
        seconds = {name: f"{at_ms / 1000:.3f}" for name, at_ms in asked.items()}
        try:
            data = self.ask("query_range", {"query": query.promql, **seconds})
        except HttpStatusError as error:
            if error.status != _TOO_MUCH or len(page) < 2:
                raise
            middle = len(page) // 2
            return [*self.read_page(query, page[:middle]), *self.read_page(query, page[middle:])]
        if data["resultType"] != "matrix":
            reason = f"a range query gave a {data['resultType']}: the query has to be an instant vector"
            raise InputError(reason, path=shown(self._url + "query_range"))
        by_instance: dict[str, list[tuple[Series, list[list[Any]]]]] = {}
        for entry in data["result"]:
            named = self._name(query, dict(entry["metric"]))
            if named is not None:
                instance, series = named
                by_instance.setdefault(instance, []).append((series, entry["values"]))
        return [self._batch(instance, held) for instance, held in sorted(by_instance.items())]

    def _batch(self, instance: str, held: Sequence[tuple[Series, list[list[Any]]]]) -> pa.RecordBatch:
        counts = [len(points) for _, points in held]
        instants = np.array([point[0] for _, points in held for point in points], np.float64)
        values = np.array([float(point[1]) for _, points in held for point in points], np.float64)
        return sample_batch(
            self._source_name,
            instance,
            shown(self._source.url),
            series=[series for series, _ in held],
            places=np.repeat(np.arange(len(held)), counts),
            observed_at_ms=milliseconds_of_seconds(instants),
            values=values,
        )

    def _name(self, query: Query, labels: dict[str, str]) -> tuple[str, Series] | None:
        exposed_name = labels.pop("__name__", query.name or "")
        instance = labels.pop(self._source.instance_label, "")
        broker_id = self._source.brokers.get(instance, labels.pop(self._source.broker_label, None))
        if broker_id is not None:
            labels["broker_id"] = str(broker_id)
        if query.name is not None:
            return instance, Series(query.name, tuple(sorted(labels.items())), exposed_name)
        series = name_series(exposed_name, labels)
        if series is None or series.name in self._source.queries:
            return None
        return instance, series

    def problems(self) -> Iterator[Problem]:
        """Warnings of the server, and its clock where it differs from ours when it answered."""
        reasons = [
            f"the server warns: {format_name(warning, 200)}" for warning in sorted(self._warnings)[:_MOST_WARNINGS]
        ]
        theirs_ms, ours_ms = self._clocks or (0, 0)
        if abs(theirs_ms - ours_ms) > MAX_SKEW_MS:
            clocks = f"its clock says {format_instant(theirs_ms)} where ours says {format_instant(ours_ms)}"
            reasons.append(f"{clocks}: correct the clock that is wrong; samples keep the server's instants")
        return (Problem(path=shown(self._source.url), reason=reason, severity="suspect") for reason in reasons)


@parser
def probe_prometheus(source: PrometheusServer, *, pause: Callable[[float], None]) -> Finding:
    """Asks a server how many of the wanted series it has, for `doctor`; `InputError` or `ConfigError` with the cause.

    No series of a broker while targets are down is a failure: the server answers, and what it scrapes does not.
    """
    counts: Counter[str] = Counter()
    with HttpReader(source.access, pause) as http:
        server = _Server(source, "", http)
        for query in iter_queries(source):
            result = server.ask("query", {"query": f"count({query.promql})"})["result"]
            counts[query.subject.partition("(")[0].rstrip("_")] += int(result[0]["value"][1]) if result else 0
        targets = server.ask("query", {"query": f"up{{{source.selector}}} == 0"})["result"]
    series = [f"{name} {count}" for name, count in counts.items() if count]
    down = name_some("down:", sorted(target["metric"].get(source.instance_label, "") for target in targets))
    is_ok = bool(series) and (not down or any(name.startswith(_OF_BROKERS) for name in series))
    found = f"{shown(source.url)}: {', '.join(series) or 'none of the series that count'}"
    lacks = "" if is_ok or not series else "; no series of a broker"
    return Finding(
        name="",
        is_ok=is_ok,
        found=f"{found}{lacks}{'; targets ' if down else ''}{down}",
        advice="" if is_ok else "see why Prometheus cannot scrape its targets, or correct `selector` of the source",
    )

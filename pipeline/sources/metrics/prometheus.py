"""Samples from a Prometheus server's HTTP API, `query_range`, by pages of time: a point has the newest sample of five minutes before."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.codec.metrics.metric_names import Series, name_series
from pipeline.codec.metrics.metric_table import FORMS, Form
from pipeline.codec.metrics.prometheus_answer import AnsweredQuery, AnsweredSeries, PrometheusAnswer
from pipeline.config.http_access import PrometheusServer
from pipeline.errors import FAILURES, ConfigError, HttpStatusError, InputError, parser
from pipeline.model.log import Problem
from pipeline.model.number_text import format_name
from pipeline.model.window import TimeWindow, format_instant
from pipeline.sources.metrics import scraped_brokers
from pipeline.sources.metrics.http_text import HttpReader, shown
from pipeline.sources.metrics.metric_source import MetricReading, SampleQuestion
from pipeline.sources.metrics.sample_rows import MAX_SKEW_MS, TOO_LONG, SampleIntake, sample_batches, take_instants
from pipeline.sources.metrics.scraped_brokers import APP_INFO, OF_BROKERS, ToldSeries
from pipeline.sources.questions import Finding, name_some


class Query(NamedTuple):
    """An expression; the canonical name of all series in the answer, or (`is_generated`) what all their names begin with."""

    promql: str
    subject: str
    is_generated: bool = False
    is_coarse: bool = False  # one point a window, else all


def iter_queries(source: PrometheusServer) -> Iterator[Query]:
    """The generated queries, which ask for every name of the table and little else, then the configured ones."""
    alike: dict[tuple[str, bool, tuple[str, ...]], list[Form]] = defaultdict(list)
    for form in sorted(FORMS, key=lambda form: form.metric.family != APP_INFO):  # who is who comes first
        labels = tuple(sorted(label for label, values in form.where.items() if values is not None))
        alike[form.metric.family, form.metric.is_coarse, labels].append(form)
    for (family, is_coarse, labels), forms in alike.items():
        names: dict[tuple[str, ...], list[str]] = defaultdict(list)  # prefixes by the suffixes that all of them have
        for prefix in dict.fromkeys(form.prefix for form in forms):
            suffixes = dict.fromkeys(form.name.removeprefix(prefix) for form in forms if form.prefix == prefix)
            names[tuple(suffixes)].append(prefix)
        patterns = (f"({'|'.join(prefixes)})({'|'.join(suffixes)})" for suffixes, prefixes in names.items())
        matchers = [f'__name__=~"(?i:{"|".join(patterns)})"']
        for label in labels:
            values = dict.fromkeys(value for form in forms for value in form.where[label] or ())
            matchers.append(f'{label}=~"(?i:{"|".join(values).replace(".", "[.]")})"')
        promql = f"{{{','.join([*matchers, *filter(None, [source.selector])])}}}"
        yield Query(promql, family, is_generated=True, is_coarse=is_coarse)
    yield from (Query(promql, name) for name, promql in source.queries.items() if promql)


_Data = TypeVar("_Data")
POINTS_PER_PAGE = 11_000
_TOO_MUCH = 422
_HOPELESS = frozenset({401, 403, 404, 429})
_TELLING = (
    *(APP_INFO, "kafka_server_brokertopicmetrics"),
    *("kafka_network_requestmetrics", "kafka_producer_producer_metrics"),
)
_PROBED_MS = 600_000
_GIVE_UP, _MOST_WARNINGS = 2, 20
MOST_OBJECTS, MOST_LABELS, MOST_POINTS = 1_000_000, 2_000_000, 10_000_000
"""Of an answer; a series is two objects. So what is held of it has a bound, whatever its shape."""
_NARROW = "read fewer windows at once, or fewer series by `selector`"
_QUERY = msgspec.json.Decoder(PrometheusAnswer[AnsweredQuery])
_NAMES = msgspec.json.Decoder(PrometheusAnswer[list[str]])


def plan_pages(span: TimeWindow, step_ms: int, *, points_per_page: int = POINTS_PER_PAGE) -> list[range]:
    """The multiples of the step, counted from the epoch, in a span, and one before it: counters need a predecessor."""
    return _cut(range(-(-span.start_ms // step_ms) * step_ms - step_ms, span.end_ms, step_ms), points_per_page)


def plan_coarse_pages(span: TimeWindow, step_ms: int, window_ms: int) -> list[range]:
    return _cut(range(span.start_ms + window_ms - min(step_ms, window_ms), span.end_ms, window_ms), POINTS_PER_PAGE)


def _cut(instants_ms: range, points_per_page: int) -> list[range]:
    starts = range(0, len(instants_ms), points_per_page)
    return [instants_ms[start : start + points_per_page] for start in starts]


def read_prometheus(source: PrometheusServer, question: SampleQuestion) -> MetricReading:
    """Asks for every known metric over a span; who cannot be reached or refuses is asked once, who fails twice in a row no more."""
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
    return MetricReading(
        batches=tuple(server.brokers.name_each(batches)),
        problems={question.name: tuple(problems)},
        taking={question.name: server.brokers.taking_ms},
    )


class _Server:
    def __init__(
        self, source: PrometheusServer, source_name: str, http: HttpReader, clock: Callable[[], int] | None = None
    ) -> None:
        self._source, self._source_name, self._http, self._clock = source, source_name, http, clock
        self._url = source.url.rstrip("/") + "/api/v1/"
        self._warnings: set[str] = set()
        self._intake = SampleIntake()
        self._clocks: tuple[int, int] | None = None
        self.brokers = scraped_brokers.ScrapedBrokers(source.instance_label)

    @parser
    def ask(
        self, endpoint: str, asked: Mapping[str, str], decoder: msgspec.json.Decoder[PrometheusAnswer[_Data]]
    ) -> _Data:
        """An answer's `data`; its warnings and its date are remembered; `InputError` where there is nothing."""
        url = self._url + endpoint
        answer = self._http.read(url, asked, accept="application/json")
        if answer.content_type == "text/html":
            reason = "an HTML page where JSON was expected: is this the address of a Prometheus server?"
            raise InputError(reason, path=shown(url))
        with self._http.understanding(url):
            if (count := answer.content.count(b"{")) > MOST_OBJECTS:
                raise InputError(f"{count:,} objects: at most {MOST_OBJECTS:,} are read; {_NARROW}", path=shown(url))
            try:
                document = decoder.decode(answer.content)
                warnings = document.list_warnings()
            except (ValueError, RecursionError) as error:
                reason = "not the answer of a Prometheus server (expected JSON with data.result): is the address right?"
                raise InputError(reason, path=shown(url)) from error
        if self._clock is not None and answer.date_ms:
            self._clocks = (answer.date_ms, self._clock())
        for warning in warnings[:_MOST_WARNINGS]:
            if len(self._warnings) < _MOST_WARNINGS:
                self._warnings.add(format_name(warning, 200))
        return document.data

    @parser
    def read_page(self, query: Query, page: range) -> list[pa.RecordBatch]:
        """Rows of one page of instants, by instance; one that is too much for the server is asked for in halves."""
        asked = {"start": page[0], "end": page[-1], "step": page.step}
        seconds = {name: f"{at_ms / 1000:.3f}" for name, at_ms in asked.items()}
        try:
            data = self.ask("query_range", {"query": query.promql, **seconds}, _QUERY)
        except HttpStatusError as error:
            if error.status != _TOO_MUCH or len(page) < 2:
                raise
            middle = len(page) // 2
            return [*self.read_page(query, page[:middle]), *self.read_page(query, page[middle:])]
        if data.kind != "matrix":
            reason = f"a range query gave a {data.kind}: the query has to be an instant vector"
            raise InputError(reason, path=shown(self._url + "query_range"))
        with self._http.understanding(self._url):
            return self._take(query, data.result, page)

    def _take(self, query: Query, result: Sequence[AnsweredSeries], page: range) -> list[pa.RecordBatch]:
        by_instance: dict[str, list[ToldSeries]] = {}
        label_count = point_count = 0
        for entry in result:
            try:
                points, labels = entry.points(len(page) + 1), entry.labels()
                label_count += len(labels or ())
                point_count += 0 if points is None else len(points)
                told = None if points is None or labels is None else self._name(query, labels, points)
            except FAILURES:  # costs no other series; a native histogram has no `values`
                left_out = f"series that cannot be read (native histograms?) are left out [{query.subject}]"
                self._intake.reasons.add(left_out)
                continue
            if labels is None:
                self._intake.reasons.add(TOO_LONG)
            elif points is None:
                self._intake.reasons.add(f"series with more points than were asked for are left out [{query.subject}]")
            elif label_count > MOST_LABELS or point_count > MOST_POINTS:
                most = f"{MOST_LABELS:,} labels or {MOST_POINTS:,} points"
                raise InputError(f"series with more than {most}: {_NARROW}", path=shown(self._source.url))
            elif told is not None:
                by_instance.setdefault(told.instance, []).append(told)
        batches = [batch for of, held in sorted(by_instance.items()) for batch in self._batches(of, held, page)]
        self.brokers.take([told for held in by_instance.values() for told in held])
        return batches

    def _batches(self, instance: str, held: Sequence[ToldSeries], page: range) -> Iterator[pa.RecordBatch]:
        places = np.repeat(np.arange(len(held)), [len(told.instants) for told in held])
        instants = np.concatenate([told.instants for told in held])
        values = np.concatenate([told.values for told in held])
        observed_at_ms = take_instants(instants * 1000)
        # Thanos and VictoriaMetrics move points back to multiples of the step.
        is_asked = np.isin(observed_at_ms % page.step, (0, page[0] % page.step))
        is_asked &= (observed_at_ms > page[0] - page.step) & (observed_at_ms <= page[-1])
        if not is_asked.all():
            self._intake.reasons.add("points of instants that were not asked for are left out")
        known_as, series = (self._source_name, instance, shown(self._source.url)), [told.series for told in held]
        samples = places[is_asked], observed_at_ms[is_asked], values[is_asked]
        return sample_batches(known_as, series, samples, intake=self._intake)

    def _name(self, query: Query, labels: dict[str, str], points: NDArray[np.float64]) -> ToldSeries | None:
        take_instants(points[:, 0] * 1000)  # fails for what no calendar holds
        exposed_name = labels.pop("__name__", "" if query.is_generated else query.subject)
        told, brokers = dict(labels), self._source.brokers
        scraped = labels.pop(self._source.instance_label, "")
        own = labels.pop(f"exported_{self._source.instance_label}", "")  # what a gateway says that it has it of
        instance = f"{own} by {scraped}" if own else scraped
        label_id = labels.pop(self._source.broker_label, None)
        broker_id = brokers.get(own, brokers.get(scraped, label_id))
        if broker_id is not None:
            labels["broker_id"] = str(broker_id)
            instance = instance or f"broker {broker_id}"  # as by OpenTelemetry: else all brokers were one
        if not query.is_generated:
            series: Series | None = Series(query.subject, tuple(sorted(labels.items())), exposed_name)
        elif (series := name_series(exposed_name, labels)) is not None and series.name in self._source.queries:
            series = None
        return None if series is None else ToldSeries(instance, series, told, points[:, 0], points[:, 1])

    def look_at_brokers(self, newest_ms: int) -> None:
        last_ms, step_ms = newest_ms - newest_ms % self._source.interval_ms, self._source.interval_ms
        page = range(max(0, last_ms - max(_PROBED_MS, 4 * step_ms)), last_ms + 1, step_ms)
        for query in iter_queries(self._source):
            if newest_ms and query.is_generated and query.subject.startswith(_TELLING):
                self.read_page(query._replace(promql=f'{query.promql[:-1]},topic=""}}'), page)

    def problems(self) -> Iterator[Problem]:
        reasons = [f"the server warns: {warning}" for warning in sorted(self._warnings)]
        theirs_ms, ours_ms = self._clocks or (0, 0)
        if abs(theirs_ms - ours_ms) > MAX_SKEW_MS:
            clocks = f"its clock says {format_instant(theirs_ms)} where ours says {format_instant(ours_ms)}"
            reasons.append(f"{clocks}: correct the clock that is wrong; samples keep the server's instants")
        path = shown(self._source.url)
        refused = (*map("; ".join, self.brokers.findings()), *sorted(self._intake.reasons))
        yield from (Problem(path=path, reason=reason) for reason in refused)
        yield from (Problem(path=path, reason=reason, severity="suspect") for reason in reasons)


@parser
def probe_prometheus(source: PrometheusServer, *, pause: Callable[[float], None]) -> list[Finding]:
    """Asks a server how many of the wanted series it has, for `doctor`; `InputError` or `ConfigError` with the cause.

    No broker's series while targets are down is a failure, and so are several clusters or a gateway; unknown names are told.
    """
    counts: Counter[str] = Counter()
    newest_ms = 0
    with HttpReader(source.access, pause) as http:
        server = _Server(source, "", http)
        for query in iter_queries(source):
            result = server.ask("query", {"query": f"count({query.promql})"}, _QUERY).result
            points = [one.point() for one in result]
            counts[query.subject] += int(points[0][1]) if points else 0
            newest_ms = max(newest_ms, *(round(at_s * 1000) for at_s, _ in points), 0)
        targets = server.ask("query", {"query": f"up{{{source.selector}}} == 0"}, _QUERY).result
        about_kafka = '__name__=~"(?i:.*(kafka|redpanda|producer).*)"'
        wanted = ",".join(filter(None, (about_kafka, source.selector)))
        names = server.ask("label/__name__/values", {"match[]": f"{{{wanted}}}"}, _NAMES)
        with suppress(InputError):  # who has no range queries says so in a run
            server.look_at_brokers(newest_ms)
    series = [f"{name} {count}" for name, count in counts.items() if count]
    down = name_some("down:", sorted((target.labels() or {}).get(source.instance_label, "") for target in targets))
    is_ok = bool(series) and (not down or any(name.startswith(OF_BROKERS) for name in series))
    text = f"{shown(source.url)}: {', '.join(series) or 'none of the series that count'}"
    text += "" if is_ok or not series else "; no series of a broker"
    advice = "" if is_ok else "see why Prometheus cannot scrape its targets, or correct `selector` of the source"
    answered = Finding(name="", is_ok=is_ok, found=f"{text}{'; targets ' if down else ''}{down}", advice=advice)
    mixed = [Finding(name="brokers", is_ok=False, found=of, advice=todo) for of, todo in server.brokers.findings()]
    unknown = scraped_brokers.find_unknown_names([name for name in names if name not in source.queries.values()])
    return [answered, *mixed, *unknown]

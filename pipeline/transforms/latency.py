"""`gold.latency`, each broker beside its peers and its own past; and how long requests took between two scrapes.

Kafka's `request-latency-avg` is over samples of 30 s, the current one and one or two before it (`SampledStat`: of 3.2.3
a sample ends 60 s after it began, of 3.9.1 and 4.1.1 60 s after its last event, as their recordings show). With the
requests counted, average times count is the time that all requests of these samples took, and from scrape to scrape
that grows by what the new ones took. No metric says when a sample begins: it is the instant with which no request takes
less than nothing or longer than the longest. librdkafka's `rtt` is left alone: it has far more than five requests under
way, from which no delay follows.
"""

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from pipeline.arrays import Flags, Floats, Ints
from pipeline.transforms.arithmetic import divide, sum_in_order, sum_sorted
from pipeline.transforms.producer_nodes import START_NAMES, read_client_values, read_node_values

ALL_CLIENTS = "*"
HISTORY_WINDOWS = 24
LEAST_HISTORY = 3
_PEERS = ("window_start", "client_id")


def compare_latency(producer_nodes: pa.Table) -> pl.DataFrame:
    """Rows of `gold.latency` from `silver.producer_nodes` of one cluster, of the windows wanted and the 24 before."""
    columns = (*_PEERS, "broker_id", "request_count", "request_latency_avg_ms", "request_latency_max_ms")
    nodes = pl.DataFrame(producer_nodes.select(columns))
    everyone = nodes.with_columns(pl.lit(ALL_CLIENTS).alias("client_id"))
    pairs = pl.concat([_sum_nodes(nodes.filter(pl.col("client_id") != ALL_CLIENTS)), _sum_nodes(everyone)])
    latency = pl.col("request_latency_avg_ms")
    own = ("client_id", "broker_id")
    past = pl.concat_list(latency.shift(n).over(own, order_by="window_start") for n in range(1, HISTORY_WINDOWS + 1))
    known = past.list.drop_nulls().list.sort()  # Polars' own median is off in the last bit
    count = known.list.len()
    middle = known.list.get((count - 1) // 2, null_on_oob=True) + known.list.get(count // 2, null_on_oob=True)
    history_ms = pl.when(count >= LEAST_HISTORY).then(middle / 2)
    return pairs.with_columns(
        divide(latency, _median_of_others(latency).over(_PEERS)).alias("ratio_to_peers"),
        divide(latency, history_ms).alias("ratio_to_history"),
    )


def _median_of_others(values: pl.Expr) -> pl.Expr:
    """Of each known value of a group the median of the others, from the sorted group: a client may name brokers without end."""
    place, count = values.rank("ordinal").cast(pl.Int64) - 1, values.count().cast(pl.Int64) - 1
    middle = [pl.when(place <= at).then(at + 1).otherwise(at) for at in ((count - 1) // 2, count // 2)]
    in_order = values.sort(nulls_last=True)
    low, high = (in_order.gather(pl.when(count > 0).then(at).otherwise(0)) for at in middle)
    return pl.when((count > 0) & values.is_not_null()).then((low + high) / 2)


def _sum_nodes(nodes: pl.DataFrame) -> pl.DataFrame:
    latency, requests = pl.col("request_latency_avg_ms"), pl.col("request_count")
    timed = requests.filter(latency.is_not_null())
    return nodes.group_by(*_PEERS, "broker_id").agg(
        sum_in_order(requests.sort()),
        divide(sum_sorted(latency * requests), sum_in_order(timed.sort())).alias("request_latency_avg_ms"),
        pl.col("request_latency_max_ms").max(),
    )


SAMPLE_MS = 30_000  # `metrics.sample.window.ms`
KEPT = (1, 2)  # samples beside the current one
LEAST_REQUESTS = 10  # spans with fewer are joined: a mean of few says little
_TRIED_MS = 500  # apart are the instants tried as begin of a sample
_CLIENT = ("source", "instance", "client_id")
_SUBJECT = (*_CLIENT, "broker_id")
_VALUES = ("observed_at_ms", "request_total", "byte_total", "latency_avg", "latency_max")


def measure_requests(samples: pl.DataFrame) -> pl.DataFrame:
    """Mean latency by span between scrapes, client and broker; without a broker the wait of batches of all brokers."""
    rows: list[dict[str, Any]] = []
    started = samples.filter(pl.col("name").is_in(START_NAMES)).group_by(_CLIENT)
    starts = {client: np.sort(own["value"].drop_nulls().unique().to_numpy()) for client, own in started}
    scrapes = {
        instance: np.sort(own["observed_at_ms"].unique().to_numpy())
        for instance, own in samples.select("source", "instance", "observed_at_ms").group_by("source", "instance")
    }
    nodes = read_node_values(samples).filter(~pl.col("is_librdkafka")).select(*_SUBJECT, *_VALUES)
    waits = read_client_values(samples).select(*_CLIENT, "observed_at_ms", "queue_time_avg", "queue_time_max")
    summed = pl.col("request_total", "byte_total").sum()
    sums = nodes.group_by(*_CLIENT, "observed_at_ms").agg(summed, broker_id=pl.lit(None, pl.Int64))
    queues = sums.join(waits, on=[*_CLIENT, "observed_at_ms"])
    queues = queues.rename({"queue_time_avg": "latency_avg", "queue_time_max": "latency_max"})
    both = pl.concat([nodes, queues.select(nodes.columns)])
    for own in both.sort(*_SUBJECT, "observed_at_ms").partition_by(_SUBJECT, maintain_order=True):
        known = dict(zip(_SUBJECT, own.select(_SUBJECT).row(0), strict=True))
        client = known["source"], known["instance"], known["client_id"]
        instants = scrapes[client[:2]], starts.get(client, np.empty(0))
        # parted where the counter fell: another process
        known_only = own.filter(pl.col("request_total").is_not_null())
        number = (pl.col("request_total").diff() < 0).fill_null(value=False).cum_sum()
        for life in known_only.with_columns(number.alias("life")).partition_by("life", maintain_order=True):
            rows += [known | span for span in _list_spans(life, instants)]
    return pl.DataFrame(rows, {**dict.fromkeys(_CLIENT, pl.String), "broker_id": pl.Int64, **_SPAN}, orient="row")


_SPAN = {"start_ms": pl.Int64, "end_ms": pl.Int64} | dict.fromkeys(
    ("request_count", "byte_count", "latency_ms"), pl.Float64
)


def _list_spans(life: pl.DataFrame, instants: tuple[Ints, Floats]) -> list[dict[str, Any]]:
    """A connection that the scrape before did not have counts from there, or from a start in between (`instants`)."""
    columns = [life[name].cast(pl.Float64).to_numpy() for name in _VALUES]
    first_ms = columns[0][0]
    scrapes, starts = (each[each < first_ms] for each in instants)
    if before := [*scrapes[-1:], *starts[starts >= first_ms - SAMPLE_MS][-1:]]:
        new = (float(max(before)), 0.0, 0.0, np.nan, np.nan)
        columns = [np.concatenate([[value], column]) for value, column in zip(new, columns, strict=True)]
    at_ms, counts, sizes, averages, longest = columns
    if len(at_ms) < 2:
        return []
    means = take_apart(at_ms, counts, averages, longest)
    spans, start = [], 0
    for end in range(1, len(at_ms)):
        rise = np.diff(counts[start : end + 1])
        known = (rise > 0) & np.isfinite(means[start:end])
        if rise.sum() < LEAST_REQUESTS or not known.any():
            continue
        latency_ms = float(np.average(means[start:end][known], weights=rise[known]))
        size = float(sizes[end] - sizes[start])
        values = (int(at_ms[start]), int(at_ms[end]), float(rise.sum()), max(size, 0.0), latency_ms)
        spans.append(dict(zip(_SPAN, values, strict=True)))
        start = end
    return spans


def take_apart(at_ms: Floats, counts: Floats, averages: Floats, longest: Floats) -> Floats:
    """Mean between each two of the scrapes' instants, from events until then and Kafka's averages; NaN without any."""
    result = np.full(len(at_ms) - 1, np.nan)
    first = int(np.argmax(np.isfinite(averages)))
    if not first:  # none, or an older connection: what its samples hold of the time before is not known
        return result
    per_ms = max((counts[-1] - counts[0]) / (at_ms[-1] - at_ms[0]), 1e-9)
    # A sample begins with the first event after the one before has ended.
    period_ms = SAMPLE_MS + min(1 / per_ms, SAMPLE_MS)
    # Samples that still count then began no earlier, however long nobody looked.
    earliest_ms = max(at_ms[first - 1], at_ms[first] - (max(KEPT) + 1) * period_ms)
    begins = np.tile(np.arange(earliest_ms, at_ms[first], _TRIED_MS), len(KEPT))
    kept = np.repeat(KEPT, len(begins) // len(KEPT))
    sums, is_cut = _add_up(at_ms, counts, np.nan_to_num(averages), (begins, kept, period_ms))
    rise, grown = np.diff(counts), np.diff(sums, axis=0)
    most = np.maximum(np.nan_to_num(longest[1:]), np.nan_to_num(averages[1:])) * rise
    excess = np.clip(-grown, 0, None) + np.clip(grown - most[:, None], 0, None)
    best = int(np.argmin(excess.sum(axis=0)))
    counted = rise > 0
    means = np.clip(grown[counted, best], 0, most[counted]) / rise[counted]
    result[counted] = _bound_cut(means, is_cut[1:, best][counted])
    return result


def _add_up(at_ms: Floats, counts: Floats, averages: Floats, tried: tuple[Floats, Ints, float]) -> tuple[Floats, Flags]:
    """What all events until each instant took, for each begin tried, and whether a sample was dropped just before."""
    begins, kept, period_ms = tried
    sums = np.zeros((len(at_ms), len(begins)))
    is_cut = np.zeros(sums.shape, bool)
    before = np.full(len(begins), -1.0)
    columns = np.arange(len(begins))
    for number, instant in enumerate(at_ms):
        oldest = np.floor((instant - begins) / period_ms) - kept
        start_ms = begins + oldest * period_ms
        high = np.clip(np.searchsorted(at_ms, start_ms), 1, max(number - 1, 1))
        part = np.clip((start_ms - at_ms[high - 1]) / (at_ms[high] - at_ms[high - 1]), 0.0, 1.0)
        count = counts[high - 1] + part * (counts[high] - counts[high - 1])
        low_sum, high_sum = sums[high - 1, columns], sums[high, columns]
        took = low_sum + part * (high_sum - low_sum)
        sums[number] = took + averages[number] * (counts[number] - count) if number else 0.0
        is_cut[number] = (oldest != before) & (oldest >= 0) & (number > 0)
        before = oldest
    return sums, is_cut


def _bound_cut(means: Floats, is_cut: Flags) -> Floats:
    if len(means) < 3:
        return means
    low, high = np.minimum(means[:-2], means[2:]), np.maximum(means[:-2], means[2:])
    middle = np.where(is_cut[1:-1], np.clip(means[1:-1], low, high), means[1:-1])
    return np.concatenate([means[:1], middle, means[-1:]])

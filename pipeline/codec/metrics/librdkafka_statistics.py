"""Statistics of librdkafka (`statistics.interval.ms`): one JSON object a line, or one object in a file.

By librdkafka's `STATISTICS.md`, latencies come in microseconds (`throttle` in milliseconds) and cover the time since
the statistics before; they get `_ms` here. Node -1 is a bootstrap connection, partition -1 records not yet assigned.
"""

import contextlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.codec.metrics.metric_names import LIBRDKAFKA_PREFIX, BadLine, BadLines, MetricText, Series, TimedSample
from pipeline.errors import parser

_CLIENT = {name: name for name in ("msg_cnt", "msg_max")}
_CLIENT |= {name: f"{name}_bytes" for name in ("msg_size", "msg_size_max")}
_CLIENT |= {name: f"{name}_total" for name in ("tx", "tx_bytes", "txmsgs", "txmsg_bytes")}
_BROKER = {name: f"{name}_total" for name in ("tx", "txbytes", "txerrs", "txretries", "req_timeouts")}
_BROKER |= {name: name for name in ("outbuf_cnt", "waitresp_cnt")}
_BROKER_WINDOWS = {"rtt": 1000, "int_latency": 1000, "outbuf_latency": 1000, "throttle": 1}
"""Windows by what one millisecond is in them."""
_TOPIC_WINDOWS = {"batchsize": "bytes", "batchcnt": "records"}
_PARTITION = {"txmsgs": "txmsgs_total", "txbytes": "txbytes_total", "msgq_cnt": "msgq_cnt", "msgq_bytes": "msgq_bytes"}
_LINE = re.compile(r"[^\n]*\n?")


@parser
def parse_librdkafka_statistics(text: str, *, observed_at_ms: int | None = None) -> MetricText:
    """Reads objects, one a line or one in all; `observed_at_ms` is a single one's instant, else its `time` counts."""
    samples: list[TimedSample] = []
    bad_lines = BadLines()
    anchors: dict[str, tuple[int, int]] = {}
    documents = list(_iter_documents(text, bad_lines))
    for number, document in documents:
        try:
            # `time` has whole seconds, `ts` microseconds since some start: the first of an instance ties them together
            handle, ts, time_ms = str(document["name"]), int(document["ts"]), int(document["time"]) * 1000
            anchor = anchors.get(handle)
            if anchor is None or ts < anchor[1]:
                anchor = anchors[handle] = (time_ms, ts)
            own_ms = anchor[0] + (ts - anchor[1]) // 1000
            at_ms = observed_at_ms if observed_at_ms is not None and len(documents) == 1 else own_ms
            samples += _samples(document, at_ms)
        except (KeyError, TypeError, ValueError, AttributeError) as error:  # whose words may be the document's
            bad_lines.append(BadLine(number, f"no statistics of librdkafka ({type(error).__name__})"))
    return MetricText(tuple(samples), bad_lines.told())


def _iter_documents(text: str, bad_lines: BadLines) -> Iterator[tuple[int, dict[str, Any]]]:
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(whole := json.loads(text), dict):
            yield 1, whole
            return
    for number, line in enumerate(_LINE.finditer(text), start=1):  # a list of them could take thirty times the text
        if not line[0].strip():
            continue
        try:
            document = json.loads(line[0])
        except (ValueError, RecursionError):
            bad_lines.append(BadLine(number, "no JSON"))
            continue
        if isinstance(document, dict):
            yield number, document
        else:
            bad_lines.append(BadLine(number, "a JSON object was expected"))


def _samples(document: Mapping[str, Any], at_ms: int) -> Iterator[TimedSample]:
    handle = document["name"]
    base = {"client_id": str(document.get("client_id") or handle.partition("#")[0]), "handle": str(handle)}
    if "age" in document:
        yield _sample(at_ms, "start_time_ms", base, at_ms - int(document["age"]) // 1000)
    yield from _fields(at_ms, "", base, document, _CLIENT)
    for broker in document["brokers"].values():
        labels = base | {"node_id": f"node-{int(broker['nodeid'])}"}
        if int(broker["nodeid"]) < 0:  # several bootstrap connections share -1
            labels["broker"] = str(broker.get("nodename") or broker["name"])
        yield from _fields(at_ms, "broker_", labels, broker, _BROKER)
        if "Produce" in broker.get("req", {}):
            yield _sample(at_ms, "broker_produce_total", labels, broker["req"]["Produce"])
        for window, per_ms in _BROKER_WINDOWS.items():
            for name in ("avg", "max"):
                yield _sample(at_ms, f"broker_{window}_{name}_ms", labels, _window(broker, window, name) / per_ms)
    for topic in document.get("topics", {}).values():
        labels = base | {"topic": str(topic["topic"])}
        for window, unit in _TOPIC_WINDOWS.items():
            yield _sample(at_ms, f"topic_{window}_avg_{unit}", labels, _window(topic, window, "avg"))
            yield _sample(at_ms, f"topic_{window}_cnt", labels, float(topic.get(window, {}).get("cnt", math.nan)))
        for partition in topic["partitions"].values():
            of_partition = labels | {"partition": str(int(partition["partition"]))}
            yield from _fields(at_ms, "partition_", of_partition, partition, _PARTITION)


def _fields(
    at_ms: int, prefix: str, labels: Mapping[str, str], held: Mapping[str, Any], names: Mapping[str, str]
) -> Iterator[TimedSample]:
    return (_sample(at_ms, prefix + name, labels, held[field]) for field, name in names.items() if field in held)


def _window(held: Mapping[str, Any], window: str, name: str) -> float:
    """A value of a window; NaN where nothing was recorded since the statistics before."""
    values = held.get(window) or {}
    return float(values[name]) if values.get("cnt") else math.nan


def _sample(at_ms: int, name: str, labels: Mapping[str, str], value: float) -> TimedSample:
    canonical = LIBRDKAFKA_PREFIX + name
    return TimedSample(at_ms, Series(canonical, tuple(sorted(labels.items())), canonical), float(value))

"""What brokers took for each request of a run, from what the proxy noted: by broker and by how long it had been idle."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pipeline.simulator.scenario.measured import MEASURED_SERVICE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

QUANTILES = (
    0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999, 1.0,
)  # fmt: skip
IDLE_CLASSES_NS = (0, 100_000, 1_000_000, 3_000_000, 8_000_000, 25_000_000, 1 << 62)
FEW = 40
QUEUED_NS = 60_000  # a request read so soon after the answer before it had been waiting in the socket
LEAST_NS = 1_000
MS = 1_000_000


def read_requests(file: Path, from_ns: int = 0) -> NDArray[np.int64]:
    """Requests as `Proxy.java` writes them, by arrival.

    Args:
        file: What the proxy wrote.
        from_ns: Those that arrived before are left out.

    Returns:
        Rows of broker, connection, partitions, bytes, arrived, answered, released, written; instants in ns.
    """
    noted = np.loadtxt(file, skiprows=1, dtype=np.int64, ndmin=2, usecols=range(8))
    return noted[noted[:, 4] >= from_ns][np.argsort(noted[noted[:, 4] >= from_ns][:, 4], kind="stable")]


def sum_batch_bytes(file: Path) -> Counter[tuple[str, int]]:
    """Bytes of the batches in all Produce requests of a file of `Proxy.java`, by the client's id and broker."""
    sums: Counter[tuple[str, int]] = Counter()
    for line in file.read_text().splitlines()[1:]:
        broker, *_, batch_bytes, client_id = line.split("\t")
        sums[client_id, int(broker)] += int(batch_bytes)
    return sums


def join_services(requests: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of bytes, further partitions, service time, idle time before it, and 1 if the request had been waiting.

    Each connection's first request is left out.

    A service lasts from a request's arrival, or from the release of the answer before if it had been waiting, until the
    broker has answered. Idle is the time from the broker's own answer before: it rests while the proxy holds that back.
    """
    rows = []
    for connection in np.unique(requests[:, 1]):
        own = requests[requests[:, 1] == connection]
        last, own = own[:-1], own[1:]
        queued = own[:, 4] - last[:, 7] < QUEUED_NS
        start = np.where(queued, last[:, 6], own[:, 4])
        rows.append(np.c_[own[:, 3], own[:, 2] - 1, own[:, 5] - start, start - last[:, 5], queued])
    return np.concatenate(rows) if rows else np.zeros((0, 5), np.int64)


def summarise_services(
    requests: NDArray[np.int64], delays_ms: Mapping[int, Sequence[float]]
) -> dict[str, dict[str, object]]:
    """By broker: quantiles of its service without what bytes and further partitions take, by idle class; and what 1,024 bytes take.

    ``hold_beyond`` are quantiles of how much longer than asked a response was held, of those that were.

    Args:
        requests: From `read_requests`.
        delays_ms: By broker, what was asked for in turn.
    """
    return {
        str(broker): _summarise(requests[requests[:, 0] == broker], delays_ms.get(int(broker), ()))
        for broker in np.unique(requests[:, 0])
    }


def _summarise(requests: NDArray[np.int64], delays_ms: Sequence[float]) -> dict[str, object]:
    size, further, service, idle, _ = join_services(requests).T
    service = service - further * MEASURED_SERVICE.partition_ns
    kib_ns = measure_kib_ns(size, service, idle)
    without_bytes = np.maximum(service - size * kib_ns // 1024, LEAST_NS)
    classes = []
    for idle_from_ns, idle_to_ns in pairwise(IDLE_CLASSES_NS):
        inside = (idle_from_ns <= idle) & (idle < idle_to_ns)
        if inside.sum() >= FEW:
            classes.append({"idle_from_ns": idle_from_ns} | quantiles_of(without_bytes[inside]))
    held = requests[:, 6] - requests[:, 5]
    asked = np.array([0, *sorted(round(delay * MS) for delay in delays_ms)])
    beyond = held - asked[np.searchsorted(asked, held, side="right") - 1]
    beyond = beyond[held >= asked[1]] if len(asked) > 1 else beyond[:0]
    return {
        "kib_ns": kib_ns,
        "classes": classes or [{"idle_from_ns": 0} | quantiles_of(without_bytes)],
        "hold_beyond": quantiles_of(beyond) if len(beyond) >= FEW else None,
    }


def measure_kib_ns(size: NDArray[np.int64], service: NDArray[np.int64], idle: NDArray[np.int64]) -> int:
    """What 1,024 bytes add: medians of the largest and the smallest third, in the idle class with most requests."""
    classes = np.searchsorted(IDLE_CLASSES_NS, idle, side="right")
    if not len(classes):
        return 0
    inside = classes == np.bincount(classes).argmax()
    size, service = size[inside], service[inside]
    low, high = np.quantile(size, [1 / 3, 2 / 3])
    small, large = size <= low, size >= high
    more_bytes = size[large].mean() - size[small].mean()
    if min(small.sum(), large.sum()) < FEW or more_bytes < 1024:
        return 0
    more_ns = float(np.median(service[large]) - np.median(service[small]))
    return max(round(more_ns / more_bytes * 1024), 0)


def quantiles_of(samples: NDArray[np.int64]) -> dict[str, object]:
    """How many there are, and their quantiles."""
    return {"count": len(samples), "ns": [int(value) for value in np.quantile(samples, QUANTILES)]}

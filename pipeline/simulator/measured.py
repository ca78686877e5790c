"""What was measured of real clients and brokers: the defaults of scenarios, each number with its source.

Bed: Kafka 4.1.1 brokers behind a proxy that holds Produce responses, clients 3.2.3 to 4.1.1, Java 17, two cores, loopback.
"""

from __future__ import annotations

from pipeline.simulator.client import ThreadCosts
from pipeline.simulator.distribution import Distribution
from pipeline.simulator.scenario import Service

_US = 1_000

MEASURED_SERVICE = Service(
    request_ns=Distribution(
        (
            (0.0, 60 * _US),
            (0.5, 90 * _US),
            (0.9, 160 * _US),
            (0.99, 730 * _US),
            (0.999, 3_000 * _US),
            (1.0, 10_000 * _US),
        )
    ),
    idle=(
        (
            15_000 * _US,
            Distribution(
                ((0.0, 100 * _US), (0.5, 350 * _US), (0.9, 600 * _US), (0.99, 1_500 * _US), (1.0, 10_000 * _US))
            ),
        ),
    ),
    partition_ns=50 * _US,
    kib_ns=8 * _US,
)
MEASURED_OVERSLEEP = Distribution(
    ((0.0, 60 * _US), (0.5, 160 * _US), (0.9, 300 * _US), (0.99, 1_500 * _US), (1.0, 5_000 * _US))
)
"""How much longer than asked the proxy holds a response."""
MEASURED_PERF_TEST_OVERSLEEP = Distribution(
    ((0.0, 50 * _US), (0.5, 62 * _US), (0.9, 85 * _US), (0.99, 250 * _US), (1.0, 2_000 * _US))
)
"""How much longer than asked the perf test sleeps."""
MEASURED_COSTS = ThreadCosts(
    append_ns=1_000,
    wake_call_ns=Distribution(
        ((0.0, 8 * _US), (0.5, 11 * _US), (0.905, 16 * _US), (0.91, 110 * _US), (0.99, 260 * _US), (1.0, 1_000 * _US))
    ),
    wake_ns=Distribution(
        (
            (0.0, 40 * _US),
            (0.05, 60 * _US),
            (0.5, 100 * _US),
            (0.9, 150 * _US),
            (0.99, 400 * _US),
            (1.0, 1_000 * _US),
        )
    ),
    response_wake_ns=Distribution(((0.0, 10 * _US), (0.5, 40 * _US), (0.99, 200 * _US), (1.0, 1_000 * _US))),
    loop_ns=30 * _US,
    request_ns=40 * _US,
    transit_ns=70 * _US,
    timer_ns=60 * _US,
    metadata_ns=165_000 * _US,
    connect_ns=10_000 * _US,
)

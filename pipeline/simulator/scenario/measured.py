"""What was measured of real clients and brokers: the defaults of scenarios, each number with its source.

Bed: brokers 4.1.1 behind a proxy that takes one request at a time and holds Produce responses, clients 3.2.3 to 4.1.1,
Java 17, two cores, loopback, nothing else running. `quiet runs` are KIP-794's experiment on it.

| number | source |
|---|---|
| service, request and tail | proxy log of quiet runs after 5 s: requests < 4 KiB p50 0.11 ms, p90 0.18, p99 0.6 to 0.9 |
| service per KiB | the same at 16 KiB and saturated: p50 0.25 ms; a saturated node's request latency / 5 in flight: 20.46 to 20.59 ms at 20 ms of delay |
| service after idleness | the same at 15 to 50 requests a second: 0.3 to 0.5 ms; a slow broker rests while its answer is held: 16 KiB then p50 0.25, p90 0.6, p99 2.8 |
| service per partition | proxy log with 12 partitions: 0.03 to 0.07 ms |
| oversleep of the proxy | its log: 20 ms take 20.13 to 20.20 p50, 21 to 22 p99 |
| oversleep of the perf test | CreateTime in the logs: 322 bursts a second, 3.107 ms apart for a sleep of 3; 9 % four milliseconds apart |
| append, wake call | a client that notes its clock (`tests/lab/producers/TimedLoad.java`), its code compiled, 2,048 records a second, three versions timed twice: medians of each quantile of the six |
| wake | the same from the return of the waking `send()` to the next look at the queues; 1 % look before |
| response wake | the same from the proxy's release of a response |
| loop | the same from look to look of a sender that need not sleep |
| transit | the same from the look to the request's arrival at the proxy |
| timer | `epoll_wait`'s slack of 50 us and a wake-up |
| metadata | records sent unthrottled to catch up at the start / rate: 127 to 190 ms in four quiet runs |
| connect | not measured alone; 30 ms instead of 10 changes no figure below |
| run to run | the same load timed twice on one bed, four minutes between, three client versions: wake-ups and turns took 1.5 to 1.8 times as long, a broker's service 1.3 to 1.7 times |

What follows from which (slow broker's share in % / average latency in ms (batches of a healthy broker), 2,048 records a
second, 20 ms on one of three brokers, 8 seeds):

| change | KIP-480 | uniform, as released | defaults |
|---|---|---|---|
| as measured | 74.0 / 577 (2956) | 44.1 / 52 (5444) | 39.3 / 44 (5913) |
| evenly spaced records instead of bursts | 91.3 / 7281 (3644) | 44.9 / 58 (26227) | 38.1 / 47 (29702) |
| waking and turns cost nothing | 93.1 / 8120 (3720) | 45.3 / 59 (29998) | 40.8 / 51 (32634) |
| 8 % of wake-ups hold up the application's thread | 75.3 / 965 (3007) | 44.2 / 52 (5865) | 39.5 / 44 (6368) |
| wake twice as long | 73.3 / 357 (2927) | 43.7 / 52 (5312) | 38.8 / 44 (5768) |
| turns cost nothing | 74.0 / 559 (2954) | 44.0 / 52 (5438) | 39.4 / 44 (5884) |
| no wait for metadata and connections | 73.9 / 540 (2963) | 44.0 / 52 (5471) | 39.3 / 44 (5933) |
| a broker is never cold | 74.0 / 373 (2957) | 44.0 / 51 (5460) | 39.3 / 43 (5912) |
| service and delay without a tail | 74.0 / 266 (2962) | 43.9 / 51 (5468) | 39.4 / 43 (5902) |
| 21 ms instead of 20 | 74.1 / 1644 (2954) | 44.4 / 56 (5422) | 39.0 / 46 (5942) |
| one request in flight | 74.1 / 918 (2954) | 43.3 / 19 (5523) | 36.5 / 14 (6181) |
| all runs alike (no run-to-run factor) | 74.1 / 575 (2957) | 44.0 / 52 (5450) | 39.2 / 44 (5914) |
| real, on the other bed | 76.3 / 1072 (2963) | 45.3 / 53.5 (6045) | 40.9 / 45.6 (6463) |

So the batches of healthy brokers hang on whether a burst is cut, and that on whether the sender, woken, holds up the
application's thread: on the other bed it did so in 8 % of wake-ups. The old partitioner near saturation hangs on a tenth of
a millisecond of the slow broker, which is never warm: it rests while its answer is held back.
"""

from __future__ import annotations

from pipeline.simulator.clients.client import ThreadCosts
from pipeline.simulator.scenario.distribution import Distribution
from pipeline.simulator.scenario.scenario import Service

_US = 1_000
_RUN_TO_RUN_PPM = Distribution(((0.0, 780_000), (1.0, 1_250_000)))

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
                (
                    (0.0, 80 * _US),
                    (0.5, 130 * _US),
                    (0.9, 470 * _US),
                    (0.99, 2_600 * _US),
                    (0.999, 3_000 * _US),
                    (1.0, 10_000 * _US),
                )
            ),
        ),
        (
            25_000 * _US,
            Distribution(
                ((0.0, 100 * _US), (0.5, 350 * _US), (0.9, 600 * _US), (0.99, 1_500 * _US), (1.0, 10_000 * _US))
            ),
        ),
    ),
    partition_ns=50 * _US,
    kib_ns=8 * _US,
    run_to_run_ppm=_RUN_TO_RUN_PPM,
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
    append_ns=600,
    wake_call_ns=Distribution(
        (
            (0.0, 4 * _US),
            (0.1, 9 * _US),
            (0.5, 17 * _US),
            (0.9, 33 * _US),
            (0.98, 83 * _US),
            (0.99, 183 * _US),
            (1.0, 3_400 * _US),
        )
    ),
    wake_ns=Distribution(
        (
            (0.0, 0),
            (0.01, 4 * _US),
            (0.05, 15 * _US),
            (0.5, 43 * _US),
            (0.9, 96 * _US),
            (0.95, 172 * _US),
            (0.99, 1_530 * _US),
            (1.0, 6_560 * _US),
        )
    ),
    response_wake_ns=Distribution(
        (
            (0.0, 17 * _US),
            (0.1, 40 * _US),
            (0.5, 86 * _US),
            (0.8, 180 * _US),
            (0.95, 563 * _US),
            (0.98, 946 * _US),
            (0.99, 2_240 * _US),
            (1.0, 7_800 * _US),
        )
    ),
    loop_ns=53 * _US,
    transit_ns=84 * _US,
    timer_ns=60 * _US,
    metadata_ns=165_000 * _US,
    connect_ns=10_000 * _US,
    run_to_run_ppm=_RUN_TO_RUN_PPM,
)

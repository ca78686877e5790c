"""The fidelity harness's own parts: what it reads, how it judges, what it draws."""

import numpy as np
import pytest

from tests.lab.fidelity.arrivals import Series
from tests.lab.fidelity.draws import draw_settings
from tests.lab.fidelity.recordings import decode_setting, encode_setting
from tests.lab.fidelity.rows import HOLDS, MISSES, judge_ratio, judge_share
from tests.lab.fidelity.run import read_nodes, read_total
from tests.lab.fidelity.settings import SETTINGS
from tests.lab.fidelity.timings import _find_turns
from tests.lab.process import LabError

OUTPUT = """\
10119 records sent, 2023.4 records/sec (0.99 MB/sec), 49.5 ms avg latency, 231.0 ms max latency.
122880 records sent, 2046.813671 records/sec (1.00 MB/sec), 45.55 ms avg latency, 231.00 ms max latency, 1 ms 50th, \
125 ms 95th, 136 ms 99th, 149 ms 99.9th.

producer-metrics:request-total:{client-id=perf-producer-client}                               : 15748.000
producer-node-metrics:outgoing-byte-total:{client-id=perf-producer-client, node-id=node--1}   : 60.000
producer-node-metrics:outgoing-byte-total:{client-id=perf-producer-client, node-id=node-0}    : 26545025.000
producer-node-metrics:request-total:{client-id=perf-producer-client, node-id=node-2}          : 6437.000
"""


def test_total_is_the_last_line_with_percentiles():
    """Windows' lines have none and are passed over."""
    total = read_total(OUTPUT)

    assert total["record_count"] == 122880
    assert total["throughput_records_per_s"] == 2046.813671
    assert (total["latency_avg_ms"], total["latency_p95_ms"], total["latency_p999_ms"]) == (45.55, 125, 149)


def test_output_without_a_total_is_an_error():
    """Such as that of a tool which was killed."""
    with pytest.raises(LabError, match="no total"):
        read_total(OUTPUT.splitlines()[0])


def test_metrics_of_bootstrap_connections_are_left_out():
    """Their node ids are negative."""
    assert read_nodes(OUTPUT) == {"0": {"outgoing_bytes": 26545025.0}, "2": {"request_count": 6437.0}}


@pytest.mark.parametrize("setting", [*SETTINGS, *draw_settings(7, 40)], ids=lambda setting: setting.name)
def test_settings_survive_their_encoding(setting):
    """So a recording says for good what was run."""
    assert decode_setting(encode_setting(setting)) == setting


def test_draws_depend_on_their_seed_only():
    """The first settings of a seed are the same however many are drawn; other seeds give others."""
    assert draw_settings(3, 5) == draw_settings(3, 9)[:5]
    assert draw_settings(3, 5)[0].loads != draw_settings(4, 5)[0].loads or draw_settings(3, 1) != draw_settings(4, 1)


def test_share_bar_widens_with_the_spread_of_the_seeds():
    """Two points, or 2.5 standard deviations."""
    narrow, wide = np.array([40.0, 40.2, 39.8]), np.array([38.0, 42.0, 40.0])

    assert judge_share("share", 42.5, narrow).verdict == MISSES
    assert judge_share("share", 41.9, narrow).verdict == HOLDS
    assert judge_share("share", 44.5, wide).verdict == HOLDS
    assert not judge_share("share", 44.5, wide).is_inside


def test_ratio_bar_is_of_the_real_figure():
    """8 % of 100 is 8."""
    assert judge_ratio("batches", 100, np.array([107.0, 108.0]), 8).verdict == HOLDS
    assert judge_ratio("batches", 100, np.array([108.5, 109.0]), 8).verdict == MISSES
    assert judge_ratio("batches", 100, np.array([200.0, 200.0]), None).verdict == ""


def test_series_keep_their_rate_and_keys():
    """A burst's records are due at once; so many in a hundred have a key."""
    records = Series("bursts", 1000, 20, burst_records=50, keyed_percent=30).make()

    assert len(records) == 20_000
    assert len(np.unique(records["due_ns"])) == 400
    assert 0.28 < np.mean(records["key"] >= 0) < 0.32
    assert (np.diff(records["due_ns"].astype(np.int64)) >= 0).all()


def test_turns_are_found_among_readings_of_the_clock():
    """Milliseconds, then two readings of nanoseconds, and a third after the sockets, with others between."""
    clock = np.array([(0, 10), (1, 11), (1, 50), (0, 52), (1, 55), (0, 56), (0, 60), (1, 61), (1, 62), (1, 63)])

    assert _find_turns(clock).tolist() == [[10, 11, 50, 55], [60, 61, 62, 63]]

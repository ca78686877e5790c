"""A recorded pair replayed: one traffic, two real runs; of the second only its figures are looked at, at the end.

`make fidelity ARGS=--pairs` prints the table of all pairs, latencies too. Oracle: the real clients and brokers.
"""

import pytest

from tests.engines import sail
from tests.lab.fidelity.pairs.compare import WRONG_WAY, compare_back_test, compare_change
from tests.lab.fidelity.pairs.misses import BACK_TEST, CHANGE, explain
from tests.lab.fidelity.pairs.pair import AFTER, BEFORE, COMMITTED
from tests.lab.fidelity.pairs.tables import predict, read_recordings
from tests.lab.fidelity.rows import MISSES

SEEDS = 10
KIND = "slow-broker"
JUDGED = ("bytes", "records")  # shares, records per batch, records/s


@pytest.fixture(scope="module")
def rows():
    """What was recorded under one client, replayed as it was and under the other, by table."""
    found = {side: each for (_, side), each in read_recordings(COMMITTED, KIND).items()}
    told = predict(sail(), found[BEFORE], SEEDS)
    change = compare_change(found[BEFORE].figures, found[AFTER].figures, told)
    return found[BEFORE], {BACK_TEST: compare_back_test(found[BEFORE].figures, told), CHANGE: change}


@pytest.mark.parametrize("table", [BACK_TEST, CHANGE])
def test_a_recorded_run_tells_of_the_other(rows, table):
    """Shares, batches and throughput hold their bars and go the right way, the named misses aside."""
    recording, tables = rows
    judged = [row for row in tables[table] if row.figure.startswith(JUDGED)]
    off = [
        row
        for row in judged
        if (row.verdict == MISSES or row.way == WRONG_WAY) and explain(recording, table, row.figure, row.off) is None
    ]
    assert off == []
    assert len(judged) >= 5

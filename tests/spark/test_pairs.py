"""A recorded pair replayed: one traffic, two real runs; of the second only its figures are looked at, at the end.

`make fidelity ARGS=--pairs` prints the table of all pairs. Oracle: the real clients and brokers.
"""

from __future__ import annotations

import pytest

from tests.lab.fidelity.pairs.compare import WRONG_WAY, compare_back_test, compare_change
from tests.lab.fidelity.pairs.misses import explain
from tests.lab.fidelity.pairs.pair import SIDES
from tests.lab.fidelity.pairs.tables import COMMITTED, predict, read_recordings
from tests.lab.fidelity.rows import MISSES

SEEDS = 10
KIND = "slow-broker"


@pytest.fixture(scope="module", params=SIDES)
def recording(request):
    """A side of the pair, and its other side's figures."""
    found = {side: each for (name, side), each in read_recordings(COMMITTED, KIND).items()}
    own = found[request.param]
    return own, found[own.other_side].figures


def test_the_other_client_is_predicted(spark, recording):
    """Every figure holds its bar and goes the right way, the named misses aside; so does the back-test."""
    own, other = recording
    found = predict(spark, own, SEEDS)
    rows = {"back-test": compare_back_test(own.figures, found), "change": compare_change(own.figures, other, found)}
    off = [
        (table, row)
        for table, several in rows.items()
        for row in several
        if (row.verdict == MISSES or row.way == WRONG_WAY) and explain(own, table, row.figure) is None
    ]

    assert off == []
    assert len(rows["change"]) >= 8

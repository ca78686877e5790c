"""A queue's list of batches that were sent and are not done. Oracle: the list's definition, for every order of completion."""

from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.compilation import make_items
from pipeline.simulator.engine.accumulator import forget_sent
from pipeline.simulator.engine.client_state import PartitionQueue, ProducerBatch
from pipeline.simulator.engine.state import NONE

SENT = (1, 2, 3)


@pytest.mark.parametrize("done", list(permutations(SENT)))
def test_whatever_batch_is_done_the_others_stay_in_order(done):
    sim = SimpleNamespace(
        batches=make_items(ProducerBatch, 4).view(np.recarray), queues=make_items(PartitionQueue, 1).view(np.recarray)
    )
    for number in SENT:
        batch = sim.batches[number]
        batch.sequence, batch.previous_sent, batch.next_sent = number - 1, number - 1, (number + 1) % 4
    sim.queues[0].last_sent = SENT[-1]
    for count, number in enumerate(done, start=1):
        forget_sent.py_func(sim, sim.batches[number])
        linked, before = [], int(sim.queues[0].last_sent)
        while before != NONE:
            linked.append(before)
            before = int(sim.batches[before].previous_sent)
        assert linked == sorted({*SENT} - {*done[:count]}, reverse=True)

"""The rack of a producer whose keyless records stay with leaders of one rack (KIP-1123), from where they lie."""

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np

from pipeline.calibration.partitioner.clients import list_strategies
from pipeline.calibration.partitioner.settings import DEFAULT_BATCH_BYTES
from pipeline.calibration.session_traffic import SessionBatches, SessionTraffic
from pipeline.measures.chance import CHANCE_LEVEL
from pipeline.partitioners.clients.java import RACK_AWARE
from pipeline.partitioners.registry import find_strategy
from pipeline.partitioners.strategy import choose_partition


def find_client_rack(traffic: SessionTraffic, batches: SessionBatches, racks: Mapping[int, str]) -> str:
    """The rack that leads all partitions the keyless records lie in, where chance would hardly do that; else "".

    `racks` are those of the leaders by partition, "" of a broker without one; partitions without a leader are left out.
    A change of partition is a draw; where a rack leads one partition, so are twice the bytes of a full batch.
    """
    keyless = ~traffic.is_keyed
    used = np.unique(traffic.partition[keyless]).tolist()
    racks_used = {racks.get(partition, "") for partition in used}
    led = Counter(racks.values())
    if len(racks_used) != 1 or "" in racks_used or len(led) < 2:
        return ""
    [rack] = racks_used
    in_order = batches.partition[np.argsort(batches.base_ms, kind="stable")]
    draws = int((np.diff(in_order[np.isin(in_order, used)]) != 0).sum())
    if led[rack] == 1:
        run_bytes = 2 * max(DEFAULT_BATCH_BYTES, int(batches.size_bytes.max(initial=0)))
        draws = int(traffic.body_bytes[keyless].sum(dtype="int64")) // run_bytes
    return rack if draws * math.log(len(racks) / led[rack]) > -math.log(CHANCE_LEVEL) else ""


def is_free_of_keys(
    traffic: SessionTraffic, racks: Mapping[int, str], client_rack: str, key_family: str | None
) -> bool:
    """Whether keys say nothing against a rack that leads one partition: there are none, or they are hashed as Java does.

    Clients that hash a key that is missing put it where an empty one goes.
    """
    if not traffic.is_keyed.any():
        return True
    [own] = (partition for partition, rack in racks.items() if rack == client_rack)
    hashed = find_strategy(RACK_AWARE)
    return hashed.name in list_strategies(key_family) and choose_partition(hashed, b"", len(racks)) != own

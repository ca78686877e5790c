"""When a broker answers so late that producers load it otherwise than its peers."""

SLOW_RATIO = 1.5  # latency over that of its peers from which a broker is called slow
SLOWER_MS = 5.0  # and by so much: less is no reason for a producer's batches to grow


def is_slow(latency_avg_ms: float | None, ratio_to_peers: float | None) -> bool:
    """Whether a broker answers so much later than its peers that batches for it grow.

    >>> is_slow(535.0, 41.0), is_slow(3.0, 3.0), is_slow(14.0, 1.1), is_slow(None, None)
    (True, False, False, False)
    """
    if latency_avg_ms is None or not ratio_to_peers:
        return False
    return ratio_to_peers >= SLOW_RATIO and latency_avg_ms - latency_avg_ms / ratio_to_peers >= SLOWER_MS

"""How large a client takes a compressed batch to be while it fills it: single precision, as in Java.

References:
    Kafka `MemoryRecordsBuilder.estimatedBytesWritten`, `CompressionRatioEstimator.updateEstimation`.
"""

from __future__ import annotations

import numpy as np

from pipeline.simulator.engine.record_size import BATCH_HEADER_BYTES

FIRST_RATIO = np.float32(1.0)
"""The compression ratio assumed for a topic and codec before a batch was compressed."""
ESTIMATION_FACTOR = np.float32(1.05)
RATIO_STEP_UP = np.float32(0.05)
RATIO_STEP_DOWN = np.float32(0.005)


def estimate_compressed_bytes(records_bytes: int, ratio: np.float32) -> int:
    """A compressed batch's bytes while it is being filled, header included.

    Args:
        records_bytes: Of its records, uncompressed.
        ratio: The compression ratio assumed when the batch was begun.

    >>> estimate_compressed_bytes(1000, FIRST_RATIO)
    1111
    """
    return BATCH_HEADER_BYTES + int(np.float32(records_bytes) * ratio * ESTIMATION_FACTOR)


def update_ratio(ratio: np.float32, observed: np.float32) -> np.float32:
    """The ratio assumed after a batch of the same topic and codec was closed with the observed one."""
    if observed > ratio:
        return np.float32(max(ratio + RATIO_STEP_UP, observed))
    if observed < ratio:
        return np.float32(max(ratio - RATIO_STEP_DOWN, observed))
    return ratio

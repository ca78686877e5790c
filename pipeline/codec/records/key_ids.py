"""Key ids: BLAKE2b-128 of a key's bytes, keyed with the deployment secret, as 32 hex digits.

The same key has the same id in every topic and cluster of a deployment, so that traffic can be compared across them. Keys
of topics whose keys are stored in clear have ids of their own (another personalisation): a clear key tells nothing of the
same key elsewhere.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

SECRET_BYTES = 32
DIGEST_BYTES = 16
FEW_KEYS = 20_000
_KERNELS = "pipeline.codec.records.key_id_kernels"
_CLEAR = b"clear"


@dataclass(frozen=True, slots=True)
class KeySecret:
    """The deployment secret; shows itself nowhere."""

    value: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.value) != SECRET_BYTES:
            raise ValueError(f"a secret of {len(self.value)} bytes; expected {SECRET_BYTES}")


def make_key_id(secret: KeySecret, key: bytes, *, is_clear: bool = False) -> str:
    """The id of one key: the reference.

    Args:
        secret: The deployment's.
        key: Its bytes; a null key has no id.
        is_clear: Keys of its topic are stored in clear.

    >>> make_key_id(KeySecret(bytes(32)), b"kafka")
    'a99694912f493eb5aa0255297fd8d299'
    """
    person = _CLEAR if is_clear else b""
    return hashlib.blake2b(key, digest_size=DIGEST_BYTES, key=secret.value, person=person).hexdigest()


def make_key_ids(secret: KeySecret, keys: pa.Array, *, is_clear: bool = False) -> pa.Array:
    """The ids of a column of keys.

    Args:
        secret: The deployment's.
        keys: Large binary without nulls or an offset.
        is_clear: As in `make_key_id`.

    Returns:
        As many strings.
    """
    if len(keys) < FEW_KEYS and _KERNELS not in sys.modules:  # Numba takes longer to import
        return pa.array([make_key_id(secret, key, is_clear=is_clear) for key in keys.to_pylist()], pa.string())
    from pipeline.codec.records.key_id_kernels import BLOCK_BYTES, ID_DIGITS, write_key_ids  # noqa: PLC0415 - imports Numba

    text = np.empty((len(keys), ID_DIGITS), np.uint8)
    text[:] = np.frombuffer(make_key_id(secret, b"", is_clear=is_clear).encode(), np.uint8)
    offsets = np.frombuffer(keys.buffers()[1], np.int64, len(keys) + 1) if len(keys) else np.zeros(1, np.int64)
    data = np.frombuffer(keys.buffers()[2] or b"", np.uint8)
    secret_block = np.zeros(BLOCK_BYTES, np.uint8)
    secret_block[:SECRET_BYTES] = np.frombuffer(secret.value, np.uint8)
    write_key_ids(secret_block, _parameters(is_clear=is_clear), offsets, data, text)
    ends = pa.py_buffer(np.arange(0, ID_DIGITS * len(keys) + 1, ID_DIGITS, dtype=np.int32))
    return pa.Array.from_buffers(pa.string(), len(keys), [None, ends, pa.py_buffer(text)])


def _parameters(*, is_clear: bool) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    block = bytearray(64)
    block[0], block[1], block[2], block[3] = DIGEST_BYTES, SECRET_BYTES, 1, 1
    if is_clear:
        block[48 : 48 + len(_CLEAR)] = _CLEAR
    return np.frombuffer(bytes(block), "<u8").astype(np.uint64)

"""Key ids: BLAKE2b-128 of a key's bytes, keyed with the deployment secret, as 32 hex digits.

The same key has the same id in every topic and cluster of a deployment; where keys are stored in clear they have ids of
their own (another personalisation): a clear key says nothing about the same key elsewhere.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

SECRET_BYTES = 32
NULL_KEY, SOME_KEY, EMPTY_KEY = 0, 1, 2
"""Numbers of keys without an id; a null key has the first everywhere (the number of an id is 0 once in 2**64)."""


@dataclass(frozen=True, slots=True)
class KeySecret:
    """The deployment secret; shows itself nowhere."""

    value: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.value) != SECRET_BYTES:
            raise ValueError(f"a secret of {len(self.value)} bytes; expected {SECRET_BYTES}")


def make_key_ids(secret: KeySecret, keys: Iterable[bytes], *, is_clear: bool = False) -> list[str]:
    """Makes the ids of keys, 1 us each; `is_clear`: keys of their topic are stored in clear."""
    keyed = hashlib.blake2b(digest_size=16, key=secret.value, person=b"clear" if is_clear else b"")
    ids = []
    for key in keys:
        hashed = keyed.copy()
        hashed.update(key)
        ids.append(hashed.hexdigest())
    return ids


def number_of_id(key_id: str) -> int:
    """The first 64 bits of a key's id, as a signed number."""
    return int.from_bytes(bytes.fromhex(key_id[:16]), "big", signed=True)

"""Says in words what a scan found wrong: flawed batches, and why a walk stopped where it did."""

import numpy as np
from numpy.typing import NDArray

from pipeline.codec.log.batch_headers import BATCH_HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC_AT, Flaw, Stop
from pipeline.codec.log.record_batch import read_entry_records
from pipeline.errors import InputError
from pipeline.model.log import Problem

MAX_PROBLEMS = 1000  # per scan: a file of noise must not become a table of noise
FIRST_BYTES = 64
_MOST_EXPLAINED = 10_000  # records that plain Python reads again to say which of them is broken: 50 ms
_HEADER_BYTES = {0: 18, 1: 26, 2: BATCH_HEADER_BYTES}  # by magic
_BEHIND = "behind a batch whose checksum does not match: its length may be wrong"
_UNPLACED = {
    Stop.BEYOND_FILE: "torn: a batch that wants more than there is",
    Stop.BAD_LENGTH: "a batch length that is negative, or too small or large",
    Stop.BAD_MAGIC: "a magic other than 0, 1 or 2",
    Stop.ZERO_LENGTH: "a batch length of 0",
}
_TEXT = frozenset(b"\t\n\r") | frozenset(range(0x20, 0x7F))


def limit_problems(path: str, problems: list[Problem], *, others: int = 0) -> tuple[Problem, ...]:
    """Puts problems in file order, at most `MAX_PROBLEMS`; the last one then counts the rest and the `others`."""
    ordered = sorted(problems, key=lambda problem: -1 if problem.position is None else problem.position)
    if not others and len(ordered) <= MAX_PROBLEMS:
        return tuple(ordered)
    kept = ordered[: MAX_PROBLEMS - 1]
    others += len(ordered) - len(kept)
    return (*kept, Problem(path=path, position=kept[-1].position, reason=f"{others} more problems in this file"))


def describe_flaw(path: str, row: np.void, entry: bytes, *, is_placed: bool = True) -> Problem:
    """Explains the flaw of a batch with the bytes `entry`; quotes none where no batch may begin (not `is_placed`)."""
    position, flaw = int(row["position"]), Flaw(int(row["flaw"]))
    if not is_placed and flaw in {Flaw.CRC, Flaw.OFFSETS}:
        return Problem(path=path, position=position, reason=f"no sound batch here, {_BEHIND}")
    reasons = {
        Flaw.CRC: f"checksum mismatch: the batch's bytes do not give the stored {int(row['crc'])}",
        Flaw.RECORD_COUNT: f"{int(row['record_count'])} records cannot be in a batch of {int(row['size_bytes'])} bytes "
        f"with offsets {int(row['base_offset'])} to {int(row['last_offset'])}",
        Flaw.OFFSETS: f"base offset {int(row['base_offset'])} with a last offset that is negative or below it",
        Flaw.BUDGET: f"{int(row['record_count'])} records left out: this part of the file claims more records, or "
        "decompresses to more, than one reading may take",
        Flaw.CODEC: f"unknown compression codec {int(row['attributes']) & 7} for magic {int(row['magic'])}",
    }
    reason = reasons.get(flaw, "records do not parse")
    if flaw not in reasons and int(row["record_count"]) <= _MOST_EXPLAINED:
        try:
            read_entry_records(entry)
        except InputError as error:
            reason = f"records do not parse: {error.reason}"
    return Problem(path=path, position=position, reason=reason, first_bytes=_keep_header(entry))


def _keep_header(entry: bytes) -> bytes:
    return entry[: _HEADER_BYTES.get(entry[MAGIC_AT], 0)] if len(entry) > MAGIC_AT else b""


def describe_stop(path: str, position: int, stop: Stop, first_bytes: bytes, left: int, *, is_placed: bool) -> Problem:
    """Explains why nothing from `position` on was read, `left` bytes before the end; only a torn batch is quoted."""
    if position == 0 and (text := name_text(first_bytes)):
        return Problem(path=path, position=position, reason=text)
    if not is_placed:
        return Problem(path=path, position=position, reason=f"{_UNPLACED[stop]} ({left} bytes are left), {_BEHIND}")
    length = int.from_bytes(first_bytes[8:LOG_OVERHEAD_BYTES], "big", signed=True)
    reasons = {
        Stop.BEYOND_FILE: f"torn: the batch wants {length + LOG_OVERHEAD_BYTES} bytes, {left} are left in the file"
        if len(first_bytes) >= LOG_OVERHEAD_BYTES
        else f"torn: {left} bytes left, too few for a batch header",
        Stop.BAD_LENGTH: f"batch length {length}: negative, or too small or large to be a batch",
        Stop.BAD_MAGIC: f"magic {first_bytes[16] if len(first_bytes) > 16 else None}, want 0, 1 or 2",
        Stop.ZERO_LENGTH: f"batch length 0, and the {left} bytes from here on are not all zero",
    }
    kept = _keep_header(first_bytes) if stop is Stop.BEYOND_FILE else b""
    return Problem(path=path, position=position, reason=reasons[stop], first_bytes=kept)


def name_text(first_bytes: bytes) -> str:
    """The kind of text that a file holds, by its first bytes; "" if it is no text. A log begins with an offset, so with a zero byte."""
    if first_bytes.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer, not the file itself: `git lfs pull` fetches it"
    probe = first_bytes[: MAGIC_AT + 1]
    return "a text file, not a log" if len(probe) >= 8 and _TEXT.issuperset(probe) else ""


def find_steps_back(rows: NDArray[np.void], last_offset: int | None = None) -> NDArray[np.int64]:
    """Rows (without a flaw) whose base offset is not above the `last_offset` before: damage that no checksum covers."""
    flawed = rows["flaw"] != Flaw.NONE
    sound = np.flatnonzero(~flawed) if flawed.any() else slice(None)
    base_offset, last = rows["base_offset"][sound], rows["last_offset"][sound]
    steps_back = np.flatnonzero(base_offset[1:] <= last[:-1]) + 1
    if last_offset is not None and len(base_offset) and base_offset[0] <= last_offset:
        steps_back = np.concatenate([np.zeros(1, np.int64), steps_back])
    return steps_back if isinstance(sound, slice) else sound[steps_back]

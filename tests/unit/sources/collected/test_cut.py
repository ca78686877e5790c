"""Where a collector stops in a segment. Oracle: batches and problems written here."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from pipeline.codec.log.segment import scan_headers
from pipeline.model.log import Problem
from pipeline.sources.collected.partition_scan import _cut
from tests.unit.sources.collected.disks import make_batches

WHOLE_FILE = Problem(path="x", reason="of the whole file")


@pytest.mark.parametrize("is_active", [True, False])
def test_a_problem_without_a_position_is_told_wherever_the_cut_is(tmp_path, is_active):
    """Of those with a position only what lies in the part that is collected, all where the segment is complete."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(make_batches(0, 9)[0]))
    headers = scan_headers(path)
    beyond = Problem(path="x", reason="beyond", position=headers.file_bytes)
    headers = replace(headers, problems=(WHOLE_FILE, beyond))
    read = SimpleNamespace(is_active=is_active, high_watermark=-1)
    found, is_end = _cut(headers, read, is_last=True)
    assert (len(found), is_end) == (len(headers), not is_active)
    assert found.problems == ((WHOLE_FILE,) if is_active else (WHOLE_FILE, beyond))

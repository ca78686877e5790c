"""Every text of Kafka's tools among the specimens parses, and nothing in it is left unexplained."""

import re
from collections import Counter

import pytest

from pipeline.codec.tools import reassignment_text, tool_text
from pipeline.codec.tools.dump_text import find_dumped_files, parse_dumped_segment
from pipeline.errors import InputError

PARSERS = {
    "get-offsets-": tool_text.parse_offsets,
    "log-dirs-": tool_text.parse_log_dirs_describe,
    "topics-describe-": tool_text.parse_topics_describe,
    "reassign-verify": reassignment_text.parse_reassignment_status,
}
NOT_READ = ("reassign-", "topics-to-move", "transactions-")
"""What the product takes nothing from."""


def test_dumps(tool_texts):
    """Texts of batches are read; those with records are refused, as what a record holds can look like any line."""
    counts = Counter(check_dump(path) for path in tool_texts.glob("dump*.txt"))
    assert (counts["read"], counts["refused"]) == (9, 9)


def test_a_dump_of_other_people(shared_data):
    assert [check_dump(path) for path in (shared_data / "cli/dump_log").glob("*dump*.txt")] == ["refused"]


def check_dump(path):
    text = path.read_text(errors="replace")
    ((_, dumped),) = find_dumped_files(text.encode())
    if not dumped.endswith(".log"):
        return "no segment"
    if re.search(r"^(?:\|| payload:)", text, re.MULTILINE):
        with pytest.raises(InputError, match="lines about records"):
            parse_dumped_segment(text)
        return "refused"
    found = parse_dumped_segment(text)
    assert found.wrong_checksums == [], path.name
    assert found.batches, path.name
    return "read"


@pytest.mark.parametrize("kind", PARSERS)
def test_texts_of_the_other_tools(tool_texts, kind):
    paths = sorted(tool_texts.glob(f"{kind}*"))
    assert paths
    for path in paths:
        assert len(PARSERS[kind](path.read_text())) > 0, path.name


def test_no_specimen_is_left_out(tool_texts):
    names = [path.name for path in tool_texts.iterdir()]
    assert [name for name in names if not name.startswith(("dump-", *PARSERS, *NOT_READ))] == []

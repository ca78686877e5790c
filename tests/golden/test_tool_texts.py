"""Every text of Kafka's tools among the specimens parses, and nothing in it is left unexplained."""

from __future__ import annotations

import pytest

from pipeline.codec.tools import reassignment_text, tool_text
from pipeline.codec.tools.dump_text import parse_dump_log

PARSERS = {
    "get-offsets-": tool_text.parse_offsets,
    "log-dirs-": tool_text.parse_log_dirs_describe,
    "topics-describe-": tool_text.parse_topics_describe,
    "reassign-verify": reassignment_text.parse_reassignment_status,
}
NOT_READ = ("reassign-", "topics-to-move", "transactions-")
"""What the product takes nothing from."""


def test_dumps(tool_texts):
    texts = sorted(tool_texts.glob("*dump*.txt"))
    assert len(texts) > 39
    check_dumps(texts)


def test_a_dump_of_other_people(shared_data):
    texts = sorted((shared_data / "cli/dump_log").glob("*dump*.txt"))
    assert texts
    check_dumps(texts)


def check_dumps(texts):
    for path in texts:
        dump = parse_dump_log(path.read_text(errors="replace"), path=path)
        assert dump.unexplained == (), path.name
        (file,) = dump.files
        assert file.wrong_checksums == [], path.name
        if path.name.endswith("-records.txt"):
            kept = [r for r in file.records if r.key_bytes > 0 or r.value_bytes > 0]
            assert all(r.text for r in kept), path.name
            assert len(file.records) <= sum(batch.record_count for batch in file.batches)
        if path.name.endswith("index.txt"):
            assert file.entries, path.name


@pytest.mark.parametrize("kind", PARSERS)
def test_texts_of_the_other_tools(tool_texts, kind):
    paths = sorted(tool_texts.glob(f"{kind}*"))
    assert paths
    for path in paths:
        assert len(PARSERS[kind](path.read_text())) > 0, path.name


def test_no_specimen_is_left_out(tool_texts):
    names = [path.name for path in tool_texts.iterdir()]
    assert [name for name in names if not name.startswith(("dump-", *PARSERS, *NOT_READ))] == []

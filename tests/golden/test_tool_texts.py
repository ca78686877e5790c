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
    "reassign-": reassignment_text.parse_reassignment_plans,
    "topics-to-move": reassignment_text.parse_topics_to_move,
    "transactions-": tool_text.parse_transactions,
}


def test_dumps(shared_data):
    folders = (shared_data / "specimens/cli", shared_data / "cli/dump_log")
    texts = sorted(path for folder in folders for path in folder.glob("*dump*.txt"))
    assert len(texts) > 40
    for path in texts:
        dump = parse_dump_log(path.read_text(errors="replace"), path=path)
        assert dump.unexplained == (), path.name
        (file,) = dump.files
        assert file.valid_batch_count == len(file.batches), path.name
        if path.name.endswith("-records.txt"):
            kept = [r for r in file.records if r.key_bytes > 0 or r.value_bytes > 0]
            assert all(r.text for r in kept), path.name
            assert len(file.records) <= sum(batch.record_count for batch in file.batches)
        if path.name.endswith("index.txt"):
            assert file.entries, path.name


@pytest.mark.parametrize("kind", PARSERS)
def test_texts_of_the_other_tools(shared_data, kind):
    paths = sorted((shared_data / "specimens/cli").glob(f"{kind}*"))
    if kind == "reassign-":
        paths = [path for path in paths if "verify" not in path.name]
    assert paths
    for path in paths:
        assert len(PARSERS[kind](path.read_text())) > 0, path.name


def test_no_specimen_is_left_out(shared_data):
    names = [path.name for path in (shared_data / "specimens/cli").iterdir()]
    assert [name for name in names if not name.startswith(("dump-", *PARSERS))] == []

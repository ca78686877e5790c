"""Every text of Kafka's tools among the specimens parses, and nothing in it is left unexplained."""

import pytest

from pipeline.codec.tools import reassignment_text, tool_text

PARSERS = {
    "get-offsets-": tool_text.parse_offsets,
    "log-dirs-": tool_text.parse_log_dirs_describe,
    "topics-describe-": tool_text.parse_topics_describe,
    "reassign-verify": reassignment_text.parse_reassignment_status,
}
NOT_READ = ("dump-", "reassign-", "topics-to-move", "transactions-")
"""What the product takes nothing from."""


@pytest.mark.parametrize("kind", PARSERS)
def test_texts_of_the_other_tools(tool_texts, kind):
    paths = sorted(tool_texts.glob(f"{kind}*"))
    assert paths
    for path in paths:
        assert len(PARSERS[kind](path.read_text())) > 0, path.name


def test_no_specimen_is_left_out(tool_texts):
    names = [path.name for path in tool_texts.iterdir()]
    assert [name for name in names if not name.startswith((*PARSERS, *NOT_READ))] == []

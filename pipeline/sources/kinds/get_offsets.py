"""Text of `kafka-get-offsets`."""

from typing import Literal

from pipeline.config.section import ConfigPath
from pipeline.sources.source import Described, TextSource


class GetOffsets(TextSource):
    """Text of `kafka-get-offsets`; says how far the logs of `log_dirs_describe` reach."""

    rank = 60

    kind: Literal["get_offsets"]
    path: ConfigPath

    def describe(self, described: Described) -> None:
        """Adds the high watermark of every partition."""
        from pipeline.codec.tools.tool_text import parse_offsets

        described.high_watermarks |= self.parse(self.path, parse_offsets, described) or {}

"""DataFrame to DataFrame, no IO."""

from __future__ import annotations

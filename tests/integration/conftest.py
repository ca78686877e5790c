"""The capture, as the lane of `tests/spark` sees it."""

from __future__ import annotations

from tests.spark.conftest import capture, manifest

__all__ = ["capture", "manifest"]

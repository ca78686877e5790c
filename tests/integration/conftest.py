"""The capture as the lane of `tests/spark` sees it, and Airflow's database and slice as that of `tests/dags` does."""

from __future__ import annotations

from tests.dags.conftest import capture_slice, described, ranged
from tests.spark.conftest import capture, manifest

__all__ = ["capture", "capture_slice", "described", "manifest", "ranged"]

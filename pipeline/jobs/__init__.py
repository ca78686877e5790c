"""One file = one Airflow task: load, transform, save."""

from __future__ import annotations

"""Where reports are below Airflow's own address. Loads nothing: Airflow imports it in every process."""

from __future__ import annotations

URL_PREFIX = "/partition-health"

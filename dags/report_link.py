"""The button of a task that leads to the reports about its run's windows."""

from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from dags.report_address import URL_PREFIX


class ReportLink(BaseOperatorLink):
    name = "Report"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        from airflow.sdk.configuration import conf  # reads and makes files of its own

        base = str(conf.get("api", "base_url", fallback="")).rstrip("/")
        return f"{base}{URL_PREFIX}/run/{quote(ti_key.dag_id, safe='')}/{quote(ti_key.run_id, safe='')}"

"""Asks the pages of the reports in Airflow's own application as several users, for `ask_as_viewer`."""

import re
from urllib.parse import quote

NAME = "demo-2026-11-21T09-43Z.html"
RUNS = {
    "one_window": ("partition_health_health", "2026-11-21T09:43:00Z", None),
    "scheduled__2026-11-21T09:05:00+00:00": ("partition_health_ingest", "2026-11-21T09:43:00Z", None),
    "other_window": ("partition_health_health", "2026-11-21T09:44:00Z", None),
    "ranged": ("partition_health_replay", None, {"window": "2026-11-21T09:00:00Z/PT3H"}),
    "nothing": ("partition_health_health", None, None),
    "of_others": ("payroll", "2026-11-21T09:43:00Z", {"window": 7}),
}
"""DAG, partition key and parameters of runs, by their ids."""
DOCS = "data-docs/demo/index.html"
PATHS = ("", NAME, DOCS, "demo-2026-11-21T09-44Z.html", "secret.html", "..%2Fsecret.html", "%2e%2e/secret.html", "demo.html", "data-docs/demo/secret.txt", "data-docs/..%2Fsecret.html", "data-docs/demo/..%2F..%2Fsecret.html",
         "data-docs/%2e%2e/secret.html", "link-2026-11-21T09-43Z.html", f"{NAME}%00", "%ff%fe.html")  # fmt: skip  # paths, several a line


def open_reports(client, sign_in):
    """Answers by role; `sign_in` gives the headers of a role that may be None."""
    add_runs()
    found = {}
    for role in (None, "nobody", "viewer"):
        client.cookies.clear()
        headers = {} if role is None else sign_in(None if role == "nobody" else role)
        answers = {path: client.get(f"/partition-health/{path}", headers=headers) for path in PATHS}
        found[str(role)] = {
            "statuses": {path: answer.status_code for path, answer in answers.items()},
            "list": answers[""].text,
            "report": answers[NAME].text,
            "docs": answers[DOCS].text,
            "headers": {path: dict(answers[path].headers) for path in ("", NAME, DOCS)},
            "runs": {run_id: ask_run(client, run_id, headers) for run_id in (*RUNS, "unknown")},
            "written": [
                getattr(client, verb)(f"/partition-health/{name}", headers=headers).status_code
                for verb in ("post", "put", "delete", "patch")
                for name in (NAME, DOCS)
            ],
            "runs_written": [
                getattr(client, verb)("/partition-health/run/health/one_window", headers=headers).status_code
                for verb in ("post", "put", "delete", "patch")
            ],
        }
    return found


def ask_run(client, run_id, headers):
    """Status, and where it leads or which reports it lists."""
    dag_id = RUNS.get(run_id, ("health",))[0]
    path = f"/partition-health/run/{dag_id}/{quote(run_id, safe='')}"
    answer = client.get(path, headers=headers, follow_redirects=False)
    return [answer.status_code, answer.headers.get("Location") or re.findall(r'href="(.*?)"', answer.text)]


def add_runs():
    """Puts the runs into Airflow's database."""
    from airflow.models.dagrun import DagRun  # noqa: PLC0415
    from airflow.utils.session import create_session  # noqa: PLC0415
    from airflow.utils.types import DagRunType  # noqa: PLC0415

    with create_session() as session:
        for run_id, (dag_id, partition_key, conf) in RUNS.items():
            run = DagRun(dag_id=dag_id, run_id=run_id, run_type=DagRunType.MANUAL, conf=conf)
            run.partition_key = partition_key
            session.add(run)

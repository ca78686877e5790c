"""Runs `health` and `ingest`, then asks every route of Airflow's application as a Viewer and without login, and the pages of reports as several users.

The variable `PLANTED` holds secrets as a JSON list: of a connection, of a variable, and others to look for.
"""

import json
import os
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from tests.dags.open_reports import open_reports
from tests.dags.run_dags import run

WRITING = ("POST", "PUT", "PATCH", "DELETE")
PREFIX = "partition_health_"
OF_AIRFLOW = {"log", "revoked_token"}
"""Tables that say who asked what."""
EXECUTION = (
    "connections/team",
    "variables/team",
    "xcoms/partition_health_health/{dag_run_id}/score_health/return_value",
)
"""Routes for tasks; they are listed by version only."""


def ask(bag, window, hostile, note):
    """What is answered; a window for `health`, what somebody gives as the window of `ingest`, and as the note of its run."""
    # Airflow is imported below where warnings are off: it prints some as it is.
    from airflow.api_fastapi.app import create_app, get_auth_manager  # noqa: PLC0415
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser  # noqa: PLC0415
    from fastapi.testclient import TestClient  # noqa: PLC0415

    plant()
    ran = {"health": run(bag, f"{PREFIX}health", window), "ingest": run(bag, f"{PREFIX}ingest", hostile)}
    app = create_app()
    with TestClient(app, raise_server_exceptions=False) as client:

        def sign_in(role):
            token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="a", role=role))
            return {"Authorization": f"Bearer {token}"}

        def request(verb, path, body=None, role="viewer"):
            """Each time with a token of its own: one of the routes signs off."""
            return client.request(verb, path, json=body, headers=sign_in(role))

        of_run = {dag_id: f"/api/v2/dags/{PREFIX}{dag_id}/dagRuns/{quote(ran[dag_id]['run_id'])}" for dag_id in ran}
        request("PATCH", of_run["ingest"], {"note": note}, role="user")
        dag = request("GET", f"/api/v2/dags/{PREFIX}health").json()
        run_id = ran["health"]["run_id"]
        values = {"dag_id": f"{PREFIX}health", "dag_run_id": run_id, "run_id": run_id, "task_id": "score_health",
                  "xcom_key": "return_value", "connection_id": "team", "variable_key": "team", "pool_name": "default_pool",
                  "section": "api", "option": "secret_key", "map_index": "-1", "file_token": dag["file_token"]}  # fmt: skip  # fields of a value, several a line
        bodies = {
            **{f"/api/v2/{name}": delete(key) for name, key in (("connections", "team"), ("variables", "team"), ("pools", "x"))},
            "/api/v2/dags/{dag_id}/dagRuns": delete(run_id),
            "/api/v2/dags/{dag_id}/clearDagRuns": {"dag_runs": [{"dag_run_id": run_id}], "dry_run": False},
            "/api/v2/connections/enqueue-test": {"connection_id": "team", "conn_type": "smtp"},
        }  # fmt: skip  # a route a line

        def fill(path):
            return re.sub(r"{(\w+)(?::\w+)?}", lambda found: quote(values.get(found[1], "1"), safe=""), path)

        routes = sorted(set(list_routes(app)))
        before = dump()
        unsigned = {
            f"{verb} {path}": client.request(verb, fill(path), json=bodies.get(path, {}), follow_redirects=False)
            for verb, path in routes
            if verb in {"GET", *WRITING}
        }
        written = {
            f"{verb} {path}": request(verb, fill(path), bodies.get(path, {}))
            for verb, path in routes
            if verb in WRITING
        }
        changed = sorted(name for name, rows in dump().items() if rows != before[name])
        read = {path: request("GET", fill(path)) for verb, path in routes if verb == "GET"}
        passwords = Path(os.environ["AIRFLOW_HOME"], "simple_auth_manager_passwords.json.generated")
        secrets = [*json.loads(os.environ["PLANTED"]), *json.loads(passwords.read_text()).values()]
        tasks = {
            dag_id: request("GET", f"{path}/taskInstances").json()["task_instances"] for dag_id, path in of_run.items()
        }
        return {
            "written": {name: answer.status_code for name, answer in written.items()},
            "changed": changed,
            "unsigned": {name: answer.status_code for name, answer in unsigned.items()},
            "unsigned_leaks": sorted(
                name for name, answer in unsigned.items() if any(one in answer.text for one in secrets)
            ),
            "as_user": request("POST", f"/api/v2/dags/{PREFIX}health/dagRuns", {}, role="user").status_code,
            "as_task": [request("GET", f"/execution/{fill(path)}").status_code for path in EXECUTION],
            "read": {path: answer.status_code for path, answer in read.items()},
            "leaks": sorted(path for path, answer in read.items() if any(secret in answer.text for secret in secrets)),
            "secrets": len(secrets),
            "runs": {dag_id: request("GET", path).json() for dag_id, path in of_run.items()},
            "types": sorted({request("GET", path).headers["content-type"] for path in of_run.values()}),
            "rendered": {
                f"{dag_id}.{task['task_id']}": task["rendered_fields"]
                for dag_id, found in tasks.items()
                for task in found
            },
            "owners": dag["owners"],
            "results": ran["health"]["results"],
            "reports": open_reports(client, sign_in),
        }


def delete(key):
    """The body of a request about many."""
    return {"actions": [{"action": "delete", "entities": [key]}]}


def plant():
    """Secrets of each kind that Airflow keeps, and a backfill to meddle with."""
    # Imported here for the same reason as in `main`.
    from airflow.models.backfill import Backfill  # noqa: PLC0415
    from airflow.models.connection import Connection  # noqa: PLC0415
    from airflow.models.variable import Variable  # noqa: PLC0415
    from airflow.utils.session import create_session  # noqa: PLC0415

    password, value, *_ = json.loads(os.environ["PLANTED"])
    now = datetime.now(UTC)
    with create_session() as session:
        session.add(Connection(conn_id="team", conn_type="smtp", login="a", password=password))
        session.add(Variable(key="team", val=value))
        session.add(Backfill(dag_id=f"{PREFIX}ingest", from_date=now, to_date=now))


def list_routes(app, before=""):
    """Method and path of every route, those of applications below included."""
    for route in app.routes:
        if hasattr(route, "methods"):
            yield from ((verb, before + route.path) for verb in route.methods)
        elif hasattr(getattr(route, "app", None), "routes"):
            yield from list_routes(route.app, before + route.path)


def dump():
    """The rows of Airflow's tables."""
    with closing(sqlite3.connect(Path(os.environ["AIRFLOW_HOME"]) / "airflow.db")) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name: sorted(map(repr, database.execute(f"SELECT * FROM {name}")))
            for name in names
            if name not in OF_AIRFLOW
        }

"""Program: ask the pages of the reports in Airflow's own application as several users; print the answers as JSON."""

from __future__ import annotations

import json
import sys
import warnings

NAME = "demo-2026-11-21T09-43Z.html"
PATHS = ("", NAME, "demo-2026-11-21T09-44Z.html", "secret.html", "..%2Fsecret.html", "%2e%2e/secret.html", "demo.html")


def main() -> None:
    warnings.simplefilter("ignore")
    from airflow.api_fastapi.app import init_auth_manager, init_plugins  # noqa: PLC0415  # reads the environment
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser  # noqa: PLC0415
    from fastapi import FastAPI  # noqa: PLC0415
    from fastapi.testclient import TestClient  # noqa: PLC0415

    app = FastAPI()
    manager = init_auth_manager(app)
    init_plugins(app)
    client = TestClient(app, raise_server_exceptions=False)
    found = {}
    for role in (None, "nobody", "viewer"):
        headers = {}
        if role is not None:
            user = SimpleAuthManagerUser(username="a", role=None if role == "nobody" else role)
            headers = {"Authorization": f"Bearer {manager.generate_jwt(user)}"}
        answers = {path: client.get(f"/partition-health/{path}", headers=headers) for path in PATHS}
        found[str(role)] = {
            "statuses": {path: answer.status_code for path, answer in answers.items()},
            "list": answers[""].text,
            "report": answers[NAME].text,
            "policies": [answers[path].headers.get("Content-Security-Policy") for path in ("", NAME)],
            "written": [
                getattr(client, verb)(f"/partition-health/{NAME}", headers=headers).status_code
                for verb in ("post", "put", "delete")
            ],
        }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()

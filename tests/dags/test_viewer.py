"""What a Viewer of Airflow may not do, and names that are templates elsewhere. Oracle: Airflow's own application, whose every
route is asked; its database."""

from pipeline.model.number_text import escape_hidden
from tests.dags.conftest import HOSTILE, PLANTED
from tests.mail_parts import read_mail

HARMLESS = {
    "POST /api/v2/dags/{dag_id}/dagRuns/list": 422,  # it reads
    "POST /api/v2/dags/{dag_id}/dagRuns/{dag_run_id}/taskInstances/list": 422,
    "POST /api/v2/dags/{dag_id}/favorite": 204,  # one's own
    "POST /api/v2/dags/{dag_id}/unfavorite": 204,
    "POST /auth/token": 422,  # signs in
    "POST /auth/token/cli": 422,
    "POST /ui/auth/token": 200,
}
"""Routes that change nothing of others."""
DOCUMENTED = ("docs", "docs/oauth2-redirect", "redoc")
OPEN = {
    **{f"GET /api/v2/{path}": 200 for path in ("monitor/health", "version")},
    **{f"GET /api/v2/auth/{path}": 307 for path in ("login", "logout")},  # to the page that signs in
    **{f"GET {app}/{path}": 200 for app in ("", "/auth", "/execution") for path in DOCUMENTED},
    **{f"GET {path}": 200 for path in ("/openapi.json", "/auth/openapi.json", "/execution/changelog")},
    **{f"GET {app}/{{rest_of_path:path}}": 200 for app in ("", "/auth")},  # the pages' own files
    **{f"POST /auth/{path}": 422 for path in ("token", "token/cli")},  # they ask for name and password
}
"""Routes of Airflow that answer whoever asks: health, version, what its interfaces are, the page that signs in."""


def test_a_viewer_triggers_clears_and_changes_nothing(asked):
    found, _ = asked
    assert {name: status for name, status in found["written"].items() if status not in (403, 405)} == HARMLESS
    assert len(found["written"]) > 50
    assert found["changed"] == []
    assert found["as_user"] == 422  # who may trigger is only told that the request lacks something
    assert set(found["as_task"]) == {403}


def test_who_is_not_signed_in_sees_health_version_and_the_login_page_alone(asked):
    found, _ = asked
    open_routes = {name: status for name, status in found["unsigned"].items() if status not in (401, 403, 404, 405)}
    assert open_routes == OPEN
    assert len(found["unsigned"]) > 120
    assert found["unsigned_leaks"] == []


def test_a_viewer_reads_runs_and_finds_no_secret(asked):
    found, _ = asked
    read = found["read"]
    assert found["secrets"] == len(PLANTED) + 1
    assert found["leaks"] == []
    assert {read[f"/api/v2/{path}"] for path in ("config", "connections", "variables")} == {403}
    assert {read[f"/api/v2/{path}/{{dag_id}}"] for path in ("dags", "dagSources")} == {200}
    assert sum(status == 200 for status in read.values()) > 60


def test_a_name_or_parameter_is_never_a_template(asked):
    found, config = asked
    summary = escape_hidden(f"cluster {HOSTILE}: no trusted window to judge", keep="\n")
    assert found["results"]["health_verdict"] == summary
    assert found["rendered"]["health.health_verdict"]["op_args"] == ["LazyXComSequence(<unevaluated length>)"]
    assert found["runs"]["ingest"]["conf"] == {"window": HOSTILE}
    assert found["runs"]["ingest"]["note"] == HOSTILE
    assert found["owners"] == [HOSTILE]
    assert found["types"] == ["application/json"]
    (path,) = config.outbox.iterdir()
    mail = read_mail(path.read_bytes())
    assert mail["Bcc"] is None
    assert mail["Subject"].startswith(
        "[partition health] task partition_health_ingest.ingest failed: <script>alert(1)</script>{{ 7*7 }}"
    )
    assert mail.get_content_type() == "text/plain"

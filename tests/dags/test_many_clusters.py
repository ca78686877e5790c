"""Four clusters by the DAGs: damaged logs, no logs, a broker that does not answer, and one that is well. Oracle: its tables.

And what Airflow recorded: each cluster is a task of its own, under its name.
"""

import pytest
import yaml

from pipeline.config_file import CONFIG_VARIABLE, load_config
from pipeline.storage.rows import load_rows
from pipeline.tables.gold import VERDICTS
from tests.dags.conftest import KEYED_TOPIC
from tests.engines import SAIL
from tests.lab.process import free_ports
from tests.mail_parts import read_mail

DAG_IDS = ("ingest", "replay", "health")


@pytest.fixture(scope="module")
def ran(described, capture_slice, tmp_path_factory):
    """What each DAG did over one window, and the configuration."""
    folder = tmp_path_factory.mktemp("clusters")
    document = yaml.safe_load(capture_slice.write_config(folder, spark=SAIL).read_text())
    (well,) = document["clusters"].values()
    well["topics"] = [KEYED_TOPIC]
    (port,) = free_ports(1)
    log = folder / f"damaged/0/{KEYED_TOPIC}-0/00000000000000000000.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"\xff" * 4096)
    away = {"sources": [{"kind": "live_cluster", "bootstrap_servers": f"127.0.0.1:{port}"}]}
    damaged = well | {"sources": [{"kind": "log_directories", "paths": [str(folder / "damaged")]}]}
    lost = well | {"sources": [{"kind": "log_directories", "paths": [str(folder / "nowhere")]}]}
    document["clusters"] = {"damaged": damaged, "lost": lost, "away": away, "mistyped": {"source": []}, "well": well}
    config = folder / "partition-health.yaml"
    config.write_text(yaml.safe_dump(document, sort_keys=False))
    home = described["home"].copy_to(folder / "airflow", config)
    window = str(capture_slice.windows[0])
    ran = home.run_script("run_dags", *(f"partition_health_{dag_id}={window}" for dag_id in DAG_IDS))
    return dict(zip(DAG_IDS, ran, strict=True)), load_config(config, is_lenient=True)


def test_each_cluster_is_a_task_under_its_name_and_only_its_own_fails(ran):
    results, config = ran
    ingest, replay, health = (results[dag_id] for dag_id in DAG_IDS)
    taken_up = [state for name, state in ingest["tasks"].items() if name.startswith("take_up")]
    assert taken_up == [["skipped", 1]] * len(taken_up)  # of scheduled runs alone
    assert {name: state for name, state in ingest["tasks"].items() if not name.startswith("take_up")} == {
        "ingest[damaged]": ["failed", 1],
        "ingest[lost]": ["failed", 1],
        "ingest[away]": ["success", 1],
        "ingest[well]": ["success", 1],
        "ingest[mistyped]": ["failed", 1],
        "hand_over": ["success", 1],
    }
    assert ingest["phases"] == {"sources": "failed", "bronze_and_silver": "upstream_failed", "gate": "failed"}
    assert set(replay["phases"].values()) == {"success"}
    assert (ingest["state"], replay["state"]) == ("failed", "success")
    others = replay["tasks"] | health["tasks"]
    assert [name for name, (state, _) in others.items() if state != "success"] == ["health_verdict"]
    assert {row["cluster"] for row in load_rows(config.warehouse, VERDICTS).to_pylist()} == {"away", "well"}


def test_events_name_the_clusters_that_were_done(ran):
    results, _ = ran
    assert sorted(results["ingest"]["events"]["partition_health_ingested"]) == ["away", "well"]
    events = results["health"]["events"]["partition_health_judged"]
    judged = {name: event["verdict"] for name, event in events.items()}
    assert judged == {"well": "ok", "away": "fail", "damaged": "none", "lost": "none"}
    assert "health is not known" in events["away"]["summary"]


def test_one_mail_tells_of_all_that_failed(ran):
    _, config = ran
    mails = [read_mail(path.read_bytes()) for path in config.outbox.glob("failure*.eml")]
    (mail,) = mails
    assert mail["Subject"].startswith("[partition health] 3 of 5 clusters failed in partition_health_ingest.ingest: ")
    text = mail.get_content()
    assert ["damaged:" in text, "lost:" in text, "away:" in text, "well:" in text] == [True, True, False, False]
    assert "clusters.mistyped: key sources is missing" in text


def test_one_of_several_clusters_holds_up_the_others_for_minutes_only(ran, monkeypatch):
    _, config = ran
    monkeypatch.setenv(CONFIG_VARIABLE, str(config.warehouse.parent / "partition-health.yaml"))
    from dags.defaults import each_cluster, turns  # noqa: PLC0415  # reads the configuration when imported

    settings = each_cluster(config)
    assert (turns(config, "replay"), settings["retries"], settings["execution_timeout"]) == (
        [0, 1, 2, 3],
        2,
        config.late_after,
    )

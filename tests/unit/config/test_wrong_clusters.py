"""A configuration of which single clusters are wrong, as Airflow reads it. Oracle: by hand."""

import pytest

from pipeline.config_file import load_config
from pipeline.errors import ConfigError
from pipeline.jobs import daily_mail
from pipeline.storage.outbox import pending
from tests.config_files import write_configuration

SOUND = {"sources": [{"kind": "log_directories", "paths": ["logs"]}], "as_of": "2026-11-21T10:00:00Z"}


def test_a_cluster_that_is_wrong_stops_no_other_and_is_not_taken_for_removed(tmp_path):
    """One wrong key of one cluster took all DAGs away."""
    clusters = {"sound": SOUND, "wrong": SOUND | {"sorces": []}, "empty": {"sources": []}}
    file = write_configuration(tmp_path, clusters, keys={"clear_topics": {"wrong": ["orders"]}})
    with pytest.raises(ConfigError, match=r"clusters\.wrong\.sorces: unknown key"):
        load_config(file)
    config = load_config(file, is_lenient=True)
    assert (list(config.clusters), config.cluster_names) == (["sound"], ("sound", "empty", "wrong"))
    assert "clusters.wrong.sorces: unknown key" in config.unusable["wrong"]
    assert config.schedule_end is None  # the others may be live
    daily_mail.run(config, now_ms=1_795_251_600_000)
    (mail,) = pending(config.warehouse)
    assert mail.subject_line.startswith("[DAY] 3 clusters: 3 not judged")


def test_two_clusters_keep_no_pages_in_one_folder(tmp_path):
    """Counters of two brokers that have the same id became one broker's."""
    scraped = [
        SOUND
        | {"sources": [*SOUND["sources"], {"kind": "exporter_urls", "path": path, "brokers": {1: f"http://{host}"}}]}
        for host, path in (("a", "pages"), ("b", "logs/../pages"), ("c", "pages/c"))
    ]
    clusters = dict(zip("abc", scraped, strict=True))
    config = load_config(write_configuration(tmp_path, clusters), is_lenient=True)
    assert list(config.clusters) == ["a", "c"]
    assert "give each source a path of its own" in config.unusable["b"]


@pytest.mark.parametrize(
    ("clusters", "settings"),
    [({"sound": SOUND, "wrong": {}}, {"mail": {"too": []}}), ({"wrong": {}}, {}), ({"wrong": {}, " ": SOUND}, {})],
    ids=["another section", "no sound one", "a name"],
)
def test_what_is_wrong_besides_stops_all(tmp_path, clusters, settings):
    with pytest.raises(ConfigError):
        load_config(write_configuration(tmp_path, clusters, **settings), is_lenient=True)

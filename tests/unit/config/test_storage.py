"""How an object store is reached: keys from a file or the environment, never shown."""

import pytest
import yaml

from pipeline.config.storage import Credentials, RemoteFolder, Storage, is_remote
from pipeline.config_file import load_config
from pipeline.errors import ConfigError


def test_keys_come_from_the_file_else_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-environment")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    file = tmp_path / "credentials"
    file.write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    assert Storage(credentials=file).read_credentials() == Credentials("a", "b", "")
    assert Storage().read_credentials() == Credentials("from-environment", "", "")
    assert "from" not in repr(Storage().read_credentials())


@pytest.mark.parametrize("text", ["", "[default]\naws_access_key_id = s3cret\n", "s3cret", "[default]\ns3cret\n"])
def test_a_file_without_keys_is_refused_and_not_shown(tmp_path, text):
    file = tmp_path / "credentials"
    file.write_text(text)
    with pytest.raises(ConfigError, match="with aws_access_key_id and") as error:
        Storage(credentials=file).read_credentials()
    assert "s3cret" not in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match="credentials cannot be read"):
        Storage(credentials=tmp_path / "credentials").read_credentials()


def test_what_has_a_scheme_is_remote():
    assert [is_remote(at) for at in ("s3a://b/p", "/data", "data")] == [True, False, False]


DOCUMENT = {
    "outbox": "mails",
    "clusters": {"prod": {"sources": [{"kind": "live_cluster", "bootstrap_servers": "kafka:9092"}]}},
}


def configure(folder, **document):
    file = folder / "partition-health.yaml"
    file.write_text(yaml.safe_dump(DOCUMENT | document))
    return load_config(file)


def test_a_warehouse_in_a_bucket_is_reached_as_the_section_says(tmp_path):
    file = tmp_path / "credentials"
    file.write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    storage = {"endpoint": "http://minio:9000", "region": "eu-west-1", "credentials": "credentials"}
    config = configure(tmp_path, warehouse="s3a://tables/prod/", storage=storage)
    assert config.warehouse == RemoteFolder("s3a://tables/prod/", Storage(**storage | {"credentials": file}))
    assert str(config.warehouse.joinpath("gold", "verdicts")) == "s3a://tables/prod/gold/verdicts"
    options = {"conditional_put": "etag", "region": "eu-west-1", "endpoint": "http://minio:9000", "allow_http": "true"}
    options |= {"access_key_id": "a", "secret_access_key": "b"}
    assert config.warehouse.delta_options() == {f"aws_{name}": value for name, value in options.items()}
    assert "s3a://tables/prod/" in config.model_dump_json()
    assert "'b'" not in repr(config)


def test_locks_and_reports_are_in_a_folder_of_the_machine(tmp_path):
    for warehouse, local in (("s3a://tables/prod", "mails"), ("tables", "tables")):
        config = configure(tmp_path, warehouse=warehouse)
        assert config.local_folder == tmp_path / local
        assert config.report_path("prod", 0).parent == tmp_path / local / "reports"


@pytest.mark.parametrize("warehouse", [{}, None, ["a"]])
def test_a_warehouse_that_is_no_path_is_refused(tmp_path, warehouse):
    with pytest.raises(ConfigError, match="warehouse: found"):
        configure(tmp_path, warehouse=warehouse)


def test_other_stores_are_reached_by_their_own_environment():
    assert RemoteFolder("gs://tables/prod").delta_options() == {}


@pytest.mark.parametrize("name", ["a|b", "a[b", "a]b", "a^b", "a\\b"])
def test_a_warehouse_that_delta_rs_cannot_open_is_refused(tmp_path, name):
    (tmp_path / "c.yaml").write_text(
        yaml.safe_dump({"warehouse": name, "outbox": "outbox", "clusters": {"demo": {"sources": []}}})
    )
    with pytest.raises(ConfigError, match="Delta tables cannot be in"):
        load_config(tmp_path / "c.yaml")

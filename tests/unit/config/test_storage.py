"""How an object store is reached: keys from a file or the environment, never shown."""

from __future__ import annotations

import pytest

from pipeline.config.storage import Credentials, Storage, is_remote
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

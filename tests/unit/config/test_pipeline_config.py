"""Defaults that follow other settings. Oracle: by hand."""

import pytest

from pipeline.config_file import load_config


@pytest.mark.parametrize(
    ("keys", "seconds"),
    [
        ("", 300),
        ("window: PT1H\n", 300),
        ("window: PT10M\n", 300),
        ("window: PT1M\n", 30),
        ("window: PT1M\ngrace: PT5M\n", 300),
        ("grace: PT1S\n", 1),
    ],
)
def test_the_grace_time_follows_the_window_unless_it_is_set(tmp_path, keys, seconds):
    file = tmp_path / "own.yaml"
    sources = f"clusters:\n  c:\n    sources:\n      - {{kind: log_directories, paths: [{tmp_path}]}}\n"
    file.write_text(f"warehouse: w\noutbox: o\n{keys}{sources}")
    assert load_config(file).grace.total_seconds() == seconds

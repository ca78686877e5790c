"""What is kept quiet. Oracle: written out by hand."""

import subprocess
import sys
from dataclasses import replace

import pytest

from pipeline.alerting.mutes import Mute, find_mute, read_mutes, write_mutes
from pipeline.cli import main
from pipeline.errors import ConfigError
from pipeline.model.window import milliseconds_of
from pipeline.storage.locks import holding
from tests.unit.alerting.examples import new_evidence

CHANGE = new_evidence().change  # K-JKT62CWA, broker_share, broker 1, window from 2026-11-21T09:06Z


@pytest.mark.parametrize(
    ("mute", "is_quiet"),
    [
        ({"incident": "K-JKT62CWA", "until": "2026-11-22"}, True),
        ({"incident": "K-JKT62CWA", "until": "2026-11-21T09:06:00Z"}, False),  # from that instant on people are told
        ({"incident": "K-JKT62CWA", "until": "2026-11-21T10:06:01+01:00"}, True),
        ({"incident": "K-OTHER", "until": "2027-01-01"}, False),
        ({"subject": "broker 1", "until": "2027-01-01"}, True),
        ({"subject": "broker 11", "until": "2027-01-01"}, False),
        ({"subject": "broker *", "rule": "broker_*", "cluster": "de*", "until": "2027-01-01"}, True),
        ({"cluster": "prod", "until": "2027-01-01"}, False),
    ],
)
def test_patterns_and_the_end_decide(mute, is_quiet):
    found = find_mute([Mute(**mute)], "demo", CHANGE)
    assert (found is not None) == is_quiet


def test_the_one_that_lasts_longest_is_named():
    short, long = Mute(until="2026-12-01"), Mute(until="2026-12-24", reason="holidays")
    assert find_mute([long, short], "demo", CHANGE).describe() == "muted until 2026-12-24: holidays"
    assert find_mute([long], "demo", replace(CHANGE, window_start_ms=milliseconds_of(long.until))) is None


def test_a_date_written_bare_in_yaml_is_a_date(tmp_path):
    (tmp_path / "mutes.yaml").write_text("- incident: K-1\n  until: 2026-12-01\n- until: 2026-12-01T08:00:00Z\n")
    assert [milliseconds_of(mute.until) for mute in read_mutes(tmp_path / "mutes.yaml")] == [
        1796083200000,
        1796112000000,
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- incident: K-1\n", r"1:3: \[0\]: key until is missing"),
        ("- until: 2026-12-01\n- until: soon\n", r"2:3: \[1\]\.until: 'soon' is not an instant"),
        ("- untill: 2026-12-01\n", "1:3: .*untill: unknown key; nearest: until"),
        ("until: 2026-12-01\n", "1:1: found a mapping; expected a list"),
        ("- [", "1:4: not YAML"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text, said, tmp_path):
    (tmp_path / "mutes.yaml").write_text(text)
    with pytest.raises(ConfigError, match=f"mutes.yaml.*{said}"):
        read_mutes(tmp_path / "mutes.yaml")


def test_written_mutes_are_read_back(tmp_path):
    mutes = (Mute(until="2026-12-01", incident="K-1", reason="é \n:"), Mute(until="2026-12-02", subject="broker 4"))
    write_mutes(tmp_path / "mutes.yaml", mutes)
    assert read_mutes(tmp_path / "mutes.yaml") == mutes
    assert read_mutes(tmp_path / "none.yaml") == ()
    assert [path.name for path in tmp_path.iterdir()] == ["mutes.yaml"]


def test_a_file_that_cannot_be_looked_for_is_one_line(tmp_path):
    with pytest.raises(
        ConfigError, match=r"cannot be read: .*File name too long"
    ):  # the owner of all may look anywhere
        read_mutes(tmp_path / ("m" * 300))


@pytest.fixture
def config_file(tmp_path):
    path = tmp_path / "partition-health.yaml"
    demo = "{sources: [{kind: log_directories, paths: [logs]}], as_of: 2026-11-21T10:00:00Z}"  # a recording
    path.write_text(f"warehouse: w\noutbox: o\nclusters: {{demo: {demo}}}\n")
    return path


def test_the_command_mutes_lists_and_lifts(config_file, capsys):
    here = ["--config", str(config_file)]
    assert main(["mute", "K-1", "--until", "2026-12-01", "--reason", "expansion", *here]) == 0
    assert main(["mute", "--subject", "broker 4", "--until", "2026-12-02", *here]) == 0
    capsys.readouterr()
    assert main(["mute", *here]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == ["until", "2026-12-01", "2026-12-02"]
    assert main(["mute", "K-1", "--lift", *here]) == 0
    assert [mute.subject for mute in read_mutes(config_file.parent / "mutes.yaml")] == ["broker 4"]


def test_of_two_that_mute_at_one_time_neither_is_lost(config_file):
    lock = {"folder": config_file.parent, "name": "mutes.yaml.lock"}
    command = [sys.executable, "-m", "pipeline", "mute", "--until", "2026-12-01", "--config", str(config_file)]
    with holding(**lock):
        muting = subprocess.Popen([*command, "K-1"], stderr=subprocess.PIPE, text=True)
        assert "is held by another process" in muting.stderr.readline()
        write_mutes(config_file.parent / "mutes.yaml", (Mute(until="2026-12-02", incident="K-2"),))
    assert muting.wait() == 0
    muting.stderr.close()
    assert [mute.incident for mute in read_mutes(config_file.parent / "mutes.yaml")] == ["K-2", "K-1"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["K-1"], "say until when"),
        (["--until", "2026-12-01"], "say what to mute"),
        (["K-1", "--until", "whenever"], "whenever"),
        (["K-1", "--until", "2026-11-21T10:00:00Z"], "2026-11-21T10:00:00Z is past"),
        (["K-1", "--lift"], "no such mute"),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments, said, config_file, capsys):
    assert main(["mute", *arguments, "--config", str(config_file)]) == 2
    assert said in capsys.readouterr().err
    assert not (config_file.parent / "mutes.yaml").exists()

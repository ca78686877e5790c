"""Commands that are asked for what is not there say so at once. Oracle: by hand."""

import pytest

from pipeline.cli import main
from pipeline.cli.run import _as_text
from pipeline.files import replace_file
from tests.config_files import write_configuration
from tests.report_tables import write_config, write_warehouse


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """A warehouse with incident K-JKT62CWA."""
    folder = tmp_path_factory.mktemp("misuse")
    write_warehouse(folder / "warehouse")
    write_config(folder)
    return str(folder / "partition-health.yaml")


@pytest.mark.parametrize(
    ("incident", "code", "said"),
    [
        ("K-JKT62CWA", 0, ""),
        ("K-JKT*", 0, ""),
        ("K-ZZZZZZZZ", 2, "no incident K-ZZZZZZZZ; there is K-JKT62CWA"),
        ("K-JKT62CWB", 2, "no incident K-JKT62CWB; there is K-JKT62CWA"),
    ],
)
def test_only_an_incident_that_is_there_is_muted(config, capsys, incident, code, said):
    assert main(["mute", incident, "--until", "2030-01-01", "--config", config]) == code
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT * FROM gold.broker_shares", "no table gold.broker_shares; there is gold.broker_share"),
        ("select 1 from (select * from `silver.arrival`)", "no table silver.arrival; there is silver.arrivals"),
        ("SELECT * FROM gold.verdicts JOIN gold.incident USING (cluster)", "no table gold.incident; there is"),
    ],
)
def test_sql_about_a_table_that_is_not_there_needs_no_spark(config, capsys, statement, said):
    assert main(["sql", statement, "--config", config]) == 2
    assert said in capsys.readouterr().err


def test_the_verdict_comes_first_and_counts_where_they_are_wanted():
    entry = {"cluster": "c", "is_healthy": True, "verdict": "cluster c: healthy", "warnings": [], "notes": []}
    document = {"window": "w", "clusters": [entry], "mails": ["f.eml"], "row_counts": {"gold.verdicts": 1_234}}
    assert _as_text(document, with_counts=False) == "windows w\n\ncluster c: healthy\n\nmail: f.eml\n"
    assert _as_text(document, with_counts=True).endswith("mail: f.eml\n\n       1,234  gold.verdicts\n")


WHAT_IF = {"--grow": "grow", "--resize-broker": "resize_brokers"}
"""Keys of the configuration's `what_ifs` that options stand for."""


@pytest.mark.parametrize("factor", ["nan", "inf", "1e308", "1e-308", "0", "-1", "x"])
@pytest.mark.parametrize("option", ["--grow", "--resize-broker"])
def test_a_factor_that_nothing_can_grow_by_is_refused_in_one_line(config, capsys, option, factor):
    assert main(["what-if", option, f"1={factor}", "--config", config]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"partition-health: error: {WHAT_IF[option]}.1: found {factor}; expected ")


def test_a_path_that_cannot_be_written_is_said_in_one_line(config, tmp_path, capsys):
    output = tmp_path / "a file" / "report.html"
    output.parent.write_text("")
    assert main(["report", "--output", str(output), "--config", config]) == 2
    assert capsys.readouterr().err == f"partition-health: error: {output.parent}: File exists\n"


def test_a_broker_that_no_cluster_can_have_is_refused_in_one_line(config, capsys):
    assert main(["what-if", "--add-broker=-5", "--config", config]) == 2
    assert capsys.readouterr().err == "partition-health: error: add_brokers.-5.[key]: found -5; expected 0 or more\n"


@pytest.mark.parametrize("option", [("--keep", "7d"), ("--as-of", "yesterday")])
def test_a_time_that_is_none_is_refused_in_one_line(config, tmp_path, capsys, option):
    assert main(["collect", str(tmp_path), "--to", str(tmp_path / "landing"), "--config", config, *option]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"'{option[1]}' is not a" in line


@pytest.mark.parametrize("rate", ["0", "-1", "nan", "inf"])
def test_a_rate_that_nothing_can_be_read_at_is_refused_in_one_line(config, tmp_path, capsys, rate):
    assert main(["collect", str(tmp_path), "--to", str(tmp_path / "landing"), "--config", config, "--rate", rate]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"partition-health: error: --rate {rate}: expected ")


def test_half_a_megabyte_a_second_is_a_rate(config, tmp_path, capsys):
    main(["collect", str(tmp_path), "--to", str(tmp_path / "landing"), "--config", config, "--rate", "0.5"])
    assert "--rate" not in capsys.readouterr().err


def test_a_candidate_that_cannot_be_replayed_is_refused_once_for_all_clusters(tmp_path, capfd):
    clusters = {name: {"sources": [{"kind": "log_directories", "paths": ["nowhere"]}]} for name in "ab"}
    candidate = {"name": "own", "partitioner": "nowhere.py:Own"}
    path = write_configuration(tmp_path, clusters, candidates=[candidate])
    assert main(["run", "--config", str(path)]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("partition-health: error: candidate own: ")


def test_a_report_of_longer_than_there_are_records_is_one_of_all(config, tmp_path):
    assert main(["report", "--last", "900000d", "--output", str(tmp_path / "r.html"), "--config", config]) == 0


def test_what_ends_the_writing_of_a_file_leaves_nothing_behind(tmp_path):
    with pytest.raises(ValueError, match="null"):
        replace_file(tmp_path / "a\0b", b"")
    assert list(tmp_path.iterdir()) == []

"""`simulate` by its output: text by its lines, JSON by its shape, files by what they hold."""

import json
import re

import pytest

from pipeline.cli import main
from pipeline.cli.simulate import format_evidence, format_last_line, format_summaries
from pipeline.simulator.scenario.scenario_file import load_scenario, parse_scenario
from pipeline.simulator.summary import Range, VariantSummary

TINY = """\
name: tiny
summary: Two brokers, one slow.
cluster:
  brokers: [{id: 0, delay_ms: 5}, {id: 1}]
topics:
  - {name: foo, partitions: 3}
producers:
  - name: app
    version: 3.9.1
    config: {client.id: x}
    traffic: {arrivals: {kind: perf_test, records_per_s: 1000}, records: 500, value_bytes: 100}
variants:
  - name: old
    summary: the old default
    version: 3.2.3
  - name: new
"""
RANGE = {"median", "low", "high"}


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return str(path)


def test_the_last_line_is_the_perf_tests():
    """Oracle: a line that the real tool printed."""
    real = (
        "122880 records sent, 2042.3 records/sec (1.00 MB/sec), 53.52 ms avg latency, 250.00 ms max latency, "
        "1 ms 50th, 139 ms 95th, 158 ms 99th, 182 ms 99.9th."
    )
    latencies = {"avg": 53.52, "p50": 1.0, "p95": 139.2, "p99": 157.9, "p999": 182.0, "max": 250.0}
    values = {"record_count": 122880, "payload_bytes": 122880 * 512, "throughput_records_per_s": 2042.3495}
    values |= {f"latency_{name}_ms": value for name, value in latencies.items()}
    assert format_last_line({name: Range(value, value, value) for name, value in values.items()}) == real


def test_text_of_figures():
    """Of figures made up here, so that only the form is looked at."""
    scenario = parse_scenario(TINY, "tiny.yaml")
    run = dict.fromkeys(("latency_p50_ms", "latency_p95_ms", "latency_p99_ms", "latency_p999_ms"), Range(5.25, 5, 6.75))
    run |= {
        "record_count": Range(500, 500, 500),
        "payload_bytes": Range(500 * 2**20 / 1000, 0, 0),
        "throughput_records_per_s": Range(1000.25, 998, 1001),
        "latency_avg_ms": Range(12.345, 11, 13),
        "latency_max_ms": Range(1234.5, 1000, 1300),
    }
    broker = {
        "size_bytes": Range(61000, 60000, 62000),
        "bytes_share": Range(0.61, 0.6, 0.62),
        "record_count": Range(305, 305, 305),
        "batch_count": Range(100, 99, 1101),
        "records_per_batch": Range(3.05, 3, 3.1),
    }
    losses = {"failed_record_count": Range(0, 0, 0), "refused_record_count": Range(7, 0, 9)}
    losses |= {"blocked_ms": Range(1500, 0, 0)}
    summary = VariantSummary(scenario.variants[0], (1, 2), run, (broker, broker), (broker,) * 3, (losses,))
    lines = [re.split(r"\s{2,}", line.strip()) for line in format_summaries(scenario, [summary]).splitlines()]
    text = [" ".join(cells) for cells in lines]
    assert "== old: the old default" in text
    assert "kafka-clients 3.2.3, java-sticky-2.4" in text
    assert "note: without influence on the simulation: client.id" in text
    assert "refused: 7 records by send()" in text
    assert "blocked: send() waited 1.5 s in all for buffer.memory" in text
    assert ["simulated", "1000.2", "12.3", *["5.25"] * 4, "1234"] in lines
    assert ["range", "998.0-1001.0", "11.0-13.0", *["5.00-6.75"] * 4, "1000-1300"] in lines
    share = "61.0 (60.0-62.0) %"
    assert ["1", "61,000 (60,000-62,000)", share, "305", "100 (99-1,101)", "3.0"] in lines
    assert "partitions: foo-0 61.0 %, foo-1 61.0 %, foo-2 61.0 %" in text


def test_text_of_a_run(capsys, tiny):
    assert main(["simulate", tiny, "--seeds", "3"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.count("\n500 records sent, ") == 2
    assert out.index("== old: the old default") < out.index("== new\n")


def test_what_is_reproduced_of_a_source_is_printed(capsys, tmp_path):
    evidence = {"reproduced": ["the shares"], "not_reproduced": ["the bytes"], "fitted": ["delay_ms of 0"]}
    path = tmp_path / "tiny.yaml"
    path.write_text(f"{TINY}evidence: {json.dumps(evidence)}\n")
    command = ["simulate", str(path), "--seeds", "1", "--variant", "new"]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:5] == ["reproduced: the shares", "not reproduced: the bytes", "fitted: delay_ms of 0"]
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["evidence"] == {**evidence, "assumed": []}


@pytest.mark.parametrize("name", ["kip-480-trogdor", "slow-broker-hour"])
def test_built_ins_after_a_source_say_how_far_they_are_what_it_ran(name):
    evidence = load_scenario(name).evidence
    assert all((evidence.reproduced, evidence.not_reproduced, evidence.fitted, evidence.assumed))
    assert "not reproduced: " in format_evidence(evidence)


def test_json(capsys, tiny):
    assert main(["simulate", tiny, "--seeds", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["scenario"] == "tiny"
    old, new = document["variants"]
    assert (old["name"], new["name"]) == ("old", "new")
    latencies = [f"latency_{name}_ms" for name in ("avg", "p50", "p95", "p99", "p999", "max")]
    for name in ("throughput_records_per_s", *latencies):
        assert set(old[name]) == RANGE
        assert old[name]["low"] <= old[name]["median"] <= old[name]["high"]
    for unit in (*old["brokers"], *old["partitions"]):
        for name in ("bytes_share", "record_count", "batch_count", "size_bytes"):
            assert set(unit[name]) == RANGE
    assert [broker["broker_id"] for broker in old["brokers"]] == [0, 1]
    partitions = [(one["topic"], one["partition"], one["broker_id"]) for one in old["partitions"]]
    assert partitions == [("foo", 0, 0), ("foo", 1, 1), ("foo", 2, 0)]
    assert sum(broker["record_count"]["median"] for broker in old["brokers"]) == 500


def test_same_seeds_same_output(capsys, tiny):
    outputs = []
    for seeds in (("--seeds", "2"), ("--seeds", "2"), ("--seeds", "2", "--first-seed", "9")):
        assert main(["simulate", tiny, *seeds, "--json", "--variant", "new"]) == 0
        outputs.append(json.loads(capsys.readouterr().out)["variants"])
    assert outputs[0] == outputs[1] != outputs[2]


def test_plot(capsys, tiny, tmp_path):
    plot = tmp_path / "p.png"
    assert main(["simulate", tiny, "--seeds", "1", "--plot", str(plot)]) == 0
    assert "one seed" in capsys.readouterr().out
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_a_plot_that_cannot_be_written(capsys, tiny, tmp_path):
    (tmp_path / "p.png").mkdir()
    assert main(["simulate", tiny, "--seeds", "1", "--plot", str(tmp_path / "p.png")]) == 2
    assert f"{tmp_path}/p.png: Is a directory" in capsys.readouterr().err


def test_list_and_schema(capsys):
    assert main(["simulate", "--list"]) == 0
    out = capsys.readouterr().out
    assert "kip-794-1mb: " in out
    variants = "sticky, uniform, adaptive, availability-5, uniform-draft, adaptive-draft, availability-5-draft"
    assert f"  variants: {variants}" in out
    assert main(["simulate", "--schema"]) == 0
    assert "delay_ms" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "SCENARIO is missing; --list names the built-in ones"),
        (["nope"], "no scenario and no file nope; expected a file or one of "),
        (["kip-794-1mb", "--seeds", "0"], "--seeds 0; expected 1 to 100000"),
        (["kip-794-1mb", "--plot", "x.gif"], "--plot x.gif; expected a name that ends in .png, .svg, .pdf"),
        (["kip-794-1mb", "--plot", "no/p.png"], "no/p.png: no such folder"),
        (["kip-794-1mb", "--variant", "x"], "kip-794-1mb has no variant x; expected sticky, "),
    ],
)
def test_what_is_wrong_with_the_options(capsys, arguments, message):
    assert main(["simulate", *arguments]) == 2
    assert f"partition-health: error: {message}" in capsys.readouterr().err


def test_what_is_wrong_with_a_file(capsys, tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(TINY.replace("client.id", "linger.m").replace("delay_ms: 5", "delay_ms: -5"))
    assert main(["simulate", str(path)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"partition-health: error: {path}:4:21: cluster.brokers[0].delay_ms: found -5; expected 0 or more",
        f"{path}:10:14: producers[0].config.linger.m: unknown config key; nearest: linger.ms",
    ]


def test_no_name_of_a_file_acts_on_the_terminal(capsys, tmp_path):
    path = tmp_path / "odd.yaml"
    path.write_text(TINY.replace("Two brokers, one slow.", '"\\e]0;owned\\a\\e[2J"'))
    assert main(["simulate", str(path), "--seeds", "1"]) == 0
    out = capsys.readouterr().out
    assert "\\x1b]0;owned\\x07\\x1b[2J" in out
    assert "\x1b" not in out

"""`simulate` by its output: text to the letter, JSON by its shape, files by what they hold."""

import json

import pyarrow.parquet as pq
import pytest

from pipeline.cli import main
from pipeline.cli.simulate_text import format_evidence, format_last_line, format_summaries
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
    compare:
      - {label: published, source: nowhere, throughput_records_per_s: 999.5, latency_avg_ms: 12, size_bytes: {0: 300, 1: 100}}
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
    values = {
        "record_count": 122880,
        "payload_bytes": 122880 * 512,
        "throughput_records_per_s": 2042.3495,
        "latency_avg_ms": 53.52,
        "latency_p50_ms": 1.0,
        "latency_p95_ms": 139.2,
        "latency_p99_ms": 157.9,
        "latency_p999_ms": 182.0,
        "latency_max_ms": 250.0,
    }
    assert format_last_line({name: Range(value, value, value) for name, value in values.items()}) == real


def test_text_to_the_letter():
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
    losses = {
        "failed_record_count": Range(0, 0, 0),
        "refused_record_count": Range(7, 0, 9),
        "blocked_ms": Range(1500, 0, 0),
    }
    summary = VariantSummary(scenario.variants[0], (1, 2), run, (broker, broker), (broker,) * 3, (losses,))

    assert (
        format_summaries(scenario, [summary])
        == """\
tiny: Two brokers, one slow.
2 seeds: medians, and the range from 5 % to 95 %

== old: the old default
   kafka-clients 3.2.3, java-sticky-2.4
500 records sent, 1000.2 records/sec (1.00 MB/sec), 12.35 ms avg latency, 1234.50 ms max latency, 5 ms 50th, 5 ms 95th, 5 ms 99th, 5 ms 99.9th.
note: without influence on the simulation: client.id
refused: 7 records by send()
blocked: send() waited 1.5 s in all for buffer.memory
              records/s     avg ms       50th       95th       99th     99.9th        max
simulated        1000.2       12.3       5.25       5.25       5.25       5.25       1234
  range    998.0-1001.0  11.0-13.0  5.00-6.75  5.00-6.75  5.00-6.75  5.00-6.75  1000-1300
published         999.5       12.0          -          -          -          -          -
broker                              bytes               share  records         batches  records/batch
0       simulated  61,000 (60,000-62,000)  61.0 (60.0-62.0) %      305  100 (99-1,101)            3.0
        published                     300              75.0 %        -               -              -
1       simulated  61,000 (60,000-62,000)  61.0 (60.0-62.0) %      305  100 (99-1,101)            3.0
        published                     100              25.0 %        -               -              -
partitions: foo-0 61.0 %, foo-1 61.0 %, foo-2 61.0 %
published: nowhere
"""
    )


def test_text_of_a_run(capsys, tiny):
    assert main(["simulate", tiny, "--seeds", "3"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.count("\n500 records sent, ") == 2
    assert out.index("== old: the old default") < out.index("published: nowhere") < out.index("== new\n")


def test_what_is_reproduced_of_a_source_is_printed(capsys, tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(
        f"{TINY}evidence: {{reproduced: [the shares], not_reproduced: [the bytes], fitted: [delay_ms of 0]}}\n"
    )
    assert main(["simulate", str(path), "--seeds", "1", "--variant", "new"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:5] == ["reproduced: the shares", "not reproduced: the bytes", "fitted: delay_ms of 0"]
    assert main(["simulate", str(path), "--seeds", "1", "--variant", "new", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["evidence"] == {
        "reproduced": ["the shares"],
        "not_reproduced": ["the bytes"],
        "fitted": ["delay_ms of 0"],
        "assumed": [],
    }


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
    figures = [
        "throughput_records_per_s",
        *(f"latency_{name}_ms" for name in ("avg", "p50", "p95", "p99", "p999", "max")),
    ]
    for name in figures:
        assert set(old[name]) == RANGE
        assert old[name]["low"] <= old[name]["median"] <= old[name]["high"]
    for unit in (*old["brokers"], *old["partitions"]):
        for name in ("bytes_share", "record_count", "batch_count", "size_bytes"):
            assert set(unit[name]) == RANGE
    assert [broker["broker_id"] for broker in old["brokers"]] == [0, 1]
    assert [(one["topic"], one["partition"], one["broker_id"]) for one in old["partitions"]] == [
        ("foo", 0, 0),
        ("foo", 1, 1),
        ("foo", 2, 0),
    ]
    assert sum(broker["record_count"]["median"] for broker in old["brokers"]) == 500
    assert old["compared"][0]["brokers"] == [
        {"broker_id": 0, "size_bytes": 300, "bytes_share": 0.75},
        {"broker_id": 1, "size_bytes": 100, "bytes_share": 0.25},
    ]


def test_same_seeds_same_output(capsys, tiny):
    outputs = []
    for seeds in (("--seeds", "2"), ("--seeds", "2"), ("--seeds", "2", "--first-seed", "9")):
        assert main(["simulate", tiny, *seeds, "--json", "--variant", "new"]) == 0
        outputs.append(json.loads(capsys.readouterr().out)["variants"])
    assert outputs[0] == outputs[1] != outputs[2]


def test_trace_and_plot(capsys, tiny, tmp_path):
    trace, plot = tmp_path / "t.parquet", tmp_path / "p.png"
    assert main(["simulate", tiny, "--seeds", "1", "--trace", str(trace), "--plot", str(plot)]) == 0
    assert "one seed" in capsys.readouterr().out
    table = pq.read_table(trace).to_pandas()
    assert table.groupby("variant").record_count.sum().to_dict() == {"old": 500, "new": 500}
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_list_and_schema(capsys):
    assert main(["simulate", "--list"]) == 0
    out = capsys.readouterr().out
    assert "kip-794-1mb: " in out
    assert (
        "  variants: sticky, uniform, adaptive, availability-5, uniform-draft, adaptive-draft, availability-5-draft"
        in out
    )
    assert main(["simulate", "--schema"]) == 0
    assert "delay_ms" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "SCENARIO is missing; --list names the built-in ones"),
        (["nope"], "no scenario and no file nope; expected a file or one of "),
        (["kip-794-1mb", "--seeds", "0"], "--seeds 0; expected 1 to 100000"),
        (["kip-794-1mb", "--plot", "x.gif"], "--plot x.gif; expected a name that ends in .png, .svg, .pdf"),
        (["kip-794-1mb", "--trace", "no/t.parquet"], "no/t.parquet: no such folder"),
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

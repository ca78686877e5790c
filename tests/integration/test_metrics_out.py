"""Metrics on their whole way: file, node_exporter, Pushgateway and Prometheus as they are; the dashboard's queries answered.

Oracles: `promtool check metrics`, and the two ways to Prometheus, which have to give the same.
"""

import json
import shutil
import subprocess
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from pipeline.config_file import load_config
from pipeline.model.window import HOUR_MS, TimeWindow
from pipeline.report.metrics import publish_metrics
from pipeline.runs import plan_runs
from tests.lab.process import free_ports, start_program, wait_until
from tests.lab.prometheus import Job, start_prometheus
from tests.report_tables import CLUSTER, T0_MS, write_what_metrics_need

PROGRAMS = {name: shutil.which(f"prometheus-{name}") for name in ("node-exporter", "pushgateway")}
DASHBOARD = json.loads((Path(__file__).parents[2] / "docker/grafana/partition-health.json").read_text())
VARIABLES = {"$cluster": CLUSTER, "$broker": "1"}

pytestmark = pytest.mark.skipif(None in PROGRAMS.values(), reason="no node_exporter or no Pushgateway on this machine")


def is_answering(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """A server that has scraped what a run handed over, once by each way."""
    folder = tmp_path_factory.mktemp("metrics")
    write_what_metrics_need(folder / "warehouse")
    node, gateway = free_ports(2)
    programs = {
        node: [PROGRAMS["node-exporter"], "--collector.disable-defaults", "--collector.textfile", f"--collector.textfile.directory={folder}/text"],
        gateway: [PROGRAMS["pushgateway"]],
    }  # fmt: skip  # a program a line
    document = {
        "warehouse": "warehouse",
        "outbox": "outbox",
        "metrics": {"textfile_folder": "text", "pushgateway": {"url": f"http://127.0.0.1:{gateway}"}},
        "clusters": {CLUSTER: {"sources": [{"kind": "log_directories", "paths": ["."]}]}},
    }
    (folder / "c.yaml").write_text(yaml.safe_dump(document))
    (run,) = plan_runs(load_config(folder / "c.yaml"), TimeWindow(T0_MS, T0_MS + HOUR_MS), run_id="r", now_ms=T0_MS)
    with ExitStack() as stack:
        for port, command in programs.items():
            name = Path(command[0]).name
            process = start_program(name, [*command, f"--web.listen-address=127.0.0.1:{port}"], folder / f"{name}.log")
            stack.callback(process.stop)
            wait_until(lambda: is_answering(f"http://127.0.0.1:{port}/metrics"), "answer", process)  # noqa: B023
        for _ in range(2):  # a second run replaces what the first one handed over
            assert publish_metrics(run) == ()
        jobs = {name: Job([port], 2) for name, port in (("node", node), ("gateway", gateway))}
        server = stack.enter_context(start_prometheus(folder / "prometheus", jobs))
        answers = []

        def is_scraped():
            answers[:] = server.query("count(partition_health_window_start_timestamp_seconds) == 2")
            return bool(answers)

        wait_until(is_scraped, "scrape of both", server.process)
        at_s = answers[0]["value"][0]  # a scrape that fails later changes no answer
        yield lambda query: server.query(query, at_s=at_s), folder / f"text/partition_health_{CLUSTER}.prom"


def test_promtool_has_nothing_to_say(prometheus):
    _, file = prometheus
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=file.read_text(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_both_ways_lead_to_the_same_series(prometheus):
    query, file = prometheus
    found = {}
    for job in ("node", "gateway"):
        rows = query(f'{{__name__=~"partition_health_.*",job="{job}"}}')
        assert not [row for row in rows if row["metric"].get("cluster") != CLUSTER]
        found[job] = {
            (*sorted((k, v) for k, v in row["metric"].items() if k not in ("job", "instance", "exported_job")), row["value"][1])
            for row in rows
        }  # fmt: skip  # a series a line
    assert found["node"] == found["gateway"]
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    assert len(found["node"]) == len(lines)
    assert query("node_textfile_scrape_error")[0]["value"][1] == "0"


@pytest.mark.parametrize("panel", DASHBOARD["panels"], ids=lambda panel: f"{panel['id']} {panel['title']}")
def test_every_query_of_the_dashboard_has_an_answer(prometheus, panel):
    ask, _ = prometheus
    for target in panel["targets"]:
        query = target["expr"]
        for name, value in VARIABLES.items():
            query = query.replace(name, value)
        assert ask(query), query

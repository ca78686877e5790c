"""Data Docs of a cluster whose every suite found something, with names that would act if anything let them."""

from dataclasses import replace

from expectations.data_docs import write_data_docs
from expectations.gate import run_suite
from expectations.replay_gate import add_extremes
from tests.gates.examples import ADDED, FAILING, PASSING, traffic
from tests.gates.rows import gate_run, rows_of

ACTS = "document.title='pwned'"
HOSTILE = (
    f"<script>{ACTS}</script>",
    f'"><img src=x onerror={ACTS}>',
    f"</style></title><svg onload={ACTS}>",
    '<meta http-equiv="refresh" content="0;url=https://example.org/">',
    f'<a href="javascript:{ACTS}">{"$PARAMETER ${x} $"}</a>',
    "{{ 7 * 7 }}\u202e\r\n",
)


def check_suites():
    """Reports of all suites over rows that break their checks; of the suite of keys two, for two tables, one of them a success."""
    found = {}
    for suite, (table, parameters, passing) in PASSING.items():
        broken = [row for rows in FAILING[suite].values() for row in rows]
        rows = rows_of(table, [*passing, *broken], counts=ADDED.get(suite, ()))
        found[suite] = run_suite(suite, add_extremes(rows) if suite == "hash_verdicts_gate" else rows, parameters)
    table, parameters, passing = PASSING["keys_gate"]
    paths = [{"path": name} for name in HOSTILE]
    found["keys_gate"] = replace(run_suite("keys_gate", rows_of(table, [*paths, *paths]), parameters), table=table)
    topics = [traffic(2, topic=name, missing_offset_count=1) for name in HOSTILE]
    found["partition_traffic_gate"] = run_suite("partition_traffic_gate", rows_of("silver.partition_traffic", topics))
    above = [
        {"rule": "broker_share", "subject": name, "is_above": True, "above_count": 3, "verdict": "fail"}
        for name in HOSTILE
    ]
    verdicts = rows_of("gold.verdicts", above, counts=("k",)).append_column("severity", [["critical"] * len(above)])
    found["health_gate"] = run_suite("health_gate", verdicts)
    arrivals = replace(run_suite("keys_gate", rows_of(table, passing), parameters), table="silver.arrivals")
    return [*found.values(), arrivals]


def write_pages(folder):
    """Writes the pages of a cluster with a bad name; returns their folder."""
    run = gate_run(folder, name=HOSTILE[0])
    write_data_docs(run, check_suites())
    return run.config.data_docs_index(run.cluster_name).parent

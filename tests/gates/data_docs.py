"""Data Docs of a cluster whose every suite found something, with names that would act if anything let them."""

from expectations.actions import write_data_docs
from tests.gates.examples import FAILING, PASSING, WINDOWS, refused, traffic
from tests.gates.rows import gate_run, rows_of, run_suite, suite_rows

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
    """Reports of suites over rows that break their checks, one of them a success."""
    found = {}
    for suite, passing in PASSING.items():
        broken = [row for rows in FAILING[suite].values() for row in rows]
        found[suite] = run_suite(suite, suite_rows(suite, [*passing, *broken]), WINDOWS)
    paths = [refused(name, severity=name) for name in HOSTILE]
    found["quarantine_gate"] = run_suite("quarantine_gate", rows_of("bronze.quarantine", [*paths, *paths]))
    topics = [traffic(2, topic=name, missing_offset_count=1) for name in HOSTILE]
    found["partition_traffic_gate"] = run_suite("partition_traffic_gate", rows_of("silver.partition_traffic", topics))
    above = [
        {"rule": "broker_share", "subject": name, "is_above": True, "above_count": 3, "verdict": "fail"}
        for name in HOSTILE
    ]
    verdicts = rows_of("gold.verdicts", above, counts=("k",)).append_column("severity", [["critical"] * len(above)])
    found["health_gate"] = run_suite("health_gate", verdicts)
    found["arrivals_gate"] = run_suite("arrivals_gate", rows_of("silver.arrivals", [{"topic": "orders"}]))
    return [*found.values()]


def write_pages(folder):
    """Writes the pages of a cluster with a bad name; returns their folder."""
    run = gate_run(folder, name=HOSTILE[0])
    write_data_docs(run, check_suites())
    return run.config.data_docs_index(run.cluster_name).parent

"""A run with a Prometheus server of two clusters: shares are measured, and no other cluster's broker or client is in any table."""

import pytest
import yaml

from pipeline.config_file import load_config
from pipeline.runs import plan_runs
from tests.batches import make_batch, make_records
from tests.engines import SAIL
from tests.spark.capture_runs import stored
from tests.table_rows import take_all
from tests.unit.sources.http_servers import serving
from tests.unit.sources.metrics.test_metric_readings import SPAN
from tests.unit.sources.metrics.test_scraped_brokers import A, B, answering, cluster_of

FILLED = ("bronze.metric_samples", "silver.producer_nodes", "silver.broker_metrics", "gold.latency")


@pytest.fixture
def run(tmp_path):
    """All steps of a run over the newest window; rows of a table."""
    log = tmp_path / "logs/orders-0"
    log.mkdir(parents=True)
    batches = [
        make_batch(
            make_records(3, base_offset=3 * n, start_ms=at_ms, key=b"k%d"),
            base_offset=3 * n, max_timestamp_ms=at_ms, base_timestamp_ms=at_ms,
        )
        for n, at_ms in enumerate(range(SPAN.start_ms, SPAN.end_ms, 60_000))
    ]  # fmt: skip  # arguments, several a line
    (log / f"{0:020d}.log").write_bytes(b"".join(batches))
    (tmp_path / "logs/meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")

    def steps(url):
        sources = [{"kind": "log_directories", "paths": ["logs"]}, {"kind": "prometheus", "url": url}]
        document = {"warehouse": "w", "outbox": "o", "window": "PT1M", "spark": SAIL, "keys": {"secret": "secret"}}
        path = tmp_path / "partition-health.yaml"
        path.write_text(yaml.safe_dump({**document, "clusters": {"demo": {"sources": sources}}}))
        runs = plan_runs(load_config(path), SPAN, run_id="test", now_ms=SPAN.end_ms + 60_000)

        take_all(runs)
        return lambda name: stored(tmp_path / "w", name)

    return steps


def test_of_one_cluster_all_is_there(run):
    ours = [*cluster_of("a", A, cluster="a")]
    with serving(answering(*ours)) as site:
        tables = run(site.url)
    assert [name for name in FILLED if not tables(name)] == []


def test_of_two_clusters_nothing_is_forged_and_shares_are_measured(run):
    with serving(answering(*cluster_of("a", A, cluster="a"), *cluster_of("b", B, cluster="b"))) as site:
        tables = run(site.url)
    assert [name for name in FILLED if tables(name)] == []
    (reason,) = {row["reason"] for row in tables("bronze.quarantine") if "clusters" in row["reason"]}
    assert reason.startswith("several Kafka clusters: brokers 1, 2 are there twice, by the label cluster a, b")
    assert {row["broker_id"] for row in tables("gold.broker_share")} == {1}
    assert {row["subject"] for row in tables("gold.verdicts")} & {"client orders", "broker 2"} == set()
    (status,) = {
        (row["source"], row["arrived_count"]) for row in tables("bronze.window_status") if row["source"] == "prometheus"
    }
    assert status == ("prometheus", 0)

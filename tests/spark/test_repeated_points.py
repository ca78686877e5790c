"""Metrics that give a point of a series more than once: one is kept and named, and the windows stay trusted."""

import pytest
import yaml

from pipeline.config_file import load_config
from pipeline.model.window import TimeWindow
from pipeline.steps import ingest_windows
from pipeline.transforms.samples import REPEATED
from tests.batches import START_MS, make_batch, make_records
from tests.engines import on_classic, on_sail
from tests.spark.capture_runs import plan, stored

MINUTE_MS = 60_000
FIRST_MS = START_MS - START_MS % MINUTE_MS
LINE = 'kafka_producer_producer_metrics_record_send_total{{client_id="a"}} {}\n'


@pytest.fixture
def context(tmp_path):
    log = tmp_path / "logs/orders-0"
    log.mkdir(parents=True)
    records = make_records(3, base_offset=0, start_ms=FIRST_MS, key=b"k%d")
    (log / f"{0:020d}.log").write_bytes(make_batch(records, max_timestamp_ms=FIRST_MS, base_timestamp_ms=FIRST_MS))
    (tmp_path / "logs/meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    pages = tmp_path / "scrapes/a"
    pages.mkdir(parents=True)
    (pages / f"{FIRST_MS}.prom").write_text(LINE.format(5))
    (pages / f"0{FIRST_MS}.prom").write_text(LINE.format(7))  # of the same instant
    sources = [{"kind": "log_directories", "paths": ["logs"]}, {"kind": "producer_metrics", "path": "scrapes"}]
    document = {"warehouse": "w", "outbox": "o", "window": "PT1M", "clusters": {"demo": {"sources": sources}}}
    path = tmp_path / "partition-health.yaml"
    path.write_text(yaml.safe_dump(document))
    span = TimeWindow(FIRST_MS, FIRST_MS + MINUTE_MS)
    return plan(load_config(path), span, now_ms=span.end_ms + MINUTE_MS)


def check(spark, context):
    ingest_windows(spark, context)
    (sample,) = stored(context.warehouse, "bronze.metric_samples", "value")
    assert sample["value"] == 7
    reasons = [row["reason"] for row in stored(context.warehouse, "bronze.quarantine", "reason")]
    assert reasons.count(REPEATED) == 1
    trusted = {row["is_trusted"] for row in stored(context.warehouse, "bronze.window_status", "is_trusted")}
    assert trusted == {True}


def test_on_sail(context):
    with on_sail() as spark:
        check(spark, context)


def test_on_classic_spark(context, classic_session):
    with on_classic():
        check(classic_session, context)

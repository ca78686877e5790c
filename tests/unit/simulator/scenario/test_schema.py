"""The schema that is printed, against the parser: a file with every key it names."""

import re

import pytest

from pipeline.cli.simulate import format_schema
from pipeline.simulator.scenario.cluster_section import BrokerSection, TopicSection
from pipeline.simulator.scenario.scenario_file import parse_scenario
from pipeline.simulator.scenario.scenario_section import Evidence, ProducerSection, ScenarioSection, VariantSection
from pipeline.simulator.scenario.traffic_section import TrafficSection

EVERY_KEY = """\
name: my-scenario
summary: One sentence.
cluster:
  brokers:
    - id: 0
      capacity: 2
      delay_ms: [{at_s: 0, ms: 0}, {at_s: 30, ms: 20}]
      service:
        request_ms: {0: 0.1, 0.5: 0.2, 0.99: 2, 1: 5}
        idle: [{after_ms: 1, request_ms: 0.5}, {after_ms: 10, request_ms: 0.8}]
        partition_ms: 0.05
        kib_ms: 0.005
        warm_up_ratio: 2
        warm_up_s: 3
      handlers: 8
      replica_wait_ms: {exponential: 0.3}
      quota_bytes_per_s: 1000000
      errors: [{from_s: 10, to_s: 12, ratio: 0.5}]
    - {id: 1, delay_ms: {every_s: 1, ms: [0, 3, 20]}}
topics:
  - {name: orders, leaders: [0, 1, null, 1], metadata_order: [3, 0, 1]}
  - {name: bills, partitions: 2}
producers:
  - name: app
    count: 4
    client: kafka-clients
    version: 3.9.1
    config: {linger.ms: 5, compression.type: lz4}
    strategy: java-sticky-2.4
    compression_ratio: 0.4
    traffic:
      - topics: {orders: 3, bills: 1}
        arrivals: {kind: on_off, records_per_s: 5000, on_s: 0.1, off_s: 0.9, spacing: poisson}
        records: 10
        duration_s: 60
        start_s: 1
        value_bytes: 512
        keys: {share: 0.3, count: 1000, bytes: 8, zipf_exponent: 1.1}
        explicit: {share: 0.1, partitions: [0, 1]}
        threads: 2
      - {topic: orders, arrivals: {kind: constant, records_per_s: 1}, records: 1, value_bytes: 1}
variants:
  - name: linger-20
    summary: One sentence.
    client: kafka-clients
    version: 3.9.1
    config: {linger.ms: 20}
    strategy: java-builtin
    compression_ratio: 0.5
    producers: [app]
    brokers: [{id: 0, delay_ms: 0}]
evidence: {reproduced: [shares], not_reproduced: [bytes], fitted: [delay_ms], assumed: [the machines]}
"""


PARTS = (ScenarioSection, Evidence, BrokerSection, TopicSection, ProducerSection, TrafficSection, VariantSection)


def test_a_file_with_every_key_is_understood():
    [variant] = parse_scenario(EVERY_KEY, "s.yaml").variants
    [producer, *others] = variant.scenario.producers
    assert [one.name for one in (producer, *others)] == ["app-1", "app-2", "app-3", "app-4"]
    assert len(producer.traffic) == 3
    assert producer.settings.linger_ns == 20_000_000
    assert producer.settings.compression.ratio_ppm == 500_000
    assert variant.scenario.leaders == (0, 1, -1, 1, 0, 1)


@pytest.mark.parametrize(
    "names", [*(tuple(part.model_fields) for part in PARTS), ("perf_test", "constant", "poisson", "on_off", "recorded")]
)
def test_the_schema_names_every_key_that_is_read(names):
    schema = format_schema()
    assert [name for name in names if not re.search(rf"\b{name}\b", schema)] == []

"""The schema of a scenario file, as text for people."""

from __future__ import annotations

SCHEMA = """\
A scenario file is YAML. Keys in [] may be left out; after = the default. Times say their unit, files lie beside it.

name: my-scenario                  [= name of the file]
summary: One sentence.             []

cluster:
  brokers: 3                       so many, ids from 0; or a list:
    - id: 0
      capacity: 1                  [= 1] twice as high: service takes half as long, the fair share is twice as large
      delay_ms: 20                 [= 0] held back before every produce response; or, over time,
                                     [{at_s: 0, ms: 0}, {at_s: 30, ms: 20}]     a schedule
                                     {every_s: 1, ms: [0, 3, 20]}               an even series
                                     {file: delays.csv}                         columns at_s and ms
      service:                     [= as measured on brokers 4.1.1, loopback]
        request_ms: 0.2            for each request: a QUANTITY
        idle:                      [= none] for each request after the connection was idle for so long
          - {after_ms: 1, request_ms: 0.5}
          - {after_ms: 10, request_ms: 0.8}
        partition_ms: 0.05         [= 0] for each further partition in a request
        kib_ms: 0.005              [= 0] for each 1,024 bytes of batches
        warm_up_ratio: 2           [= 1] so much slower at first, falling to 1 within warm_up_s
        warm_up_s: 3               [= 0]
      handlers: 8                  [= no limit] requests in service at a time
      replica_wait_ms: 1.5         [= 0] with acks=all: until the in-sync replicas have the batches; a QUANTITY
      quota_bytes_per_s: 1000000   [= none] producer_byte_rate of each client
      errors:                      [= none] when requests are answered with an error that may be retried
        - {from_s: 10, to_s: 12, ratio: 0.5}   [ratio = 1]

topics:
  - name: orders
    partitions: 6                  leaders in turn over the brokers, topic after topic; or
    leaders: [0, 1, null, 2]       a broker id for each partition; null has no leader
    metadata_order: [3, 0, 1]      [= ascending] partitions with a leader as metadata lists them
                                   every broker must lead a partition

producers:
  - name: app                      its client.id
    count: 4                       [= 1] so many alike
    client: kafka-clients          [= kafka-clients] or librdkafka
    version: 3.9.1                 of the client: it decides the defaults
    config:                        [= none] any producer config of that client, by its own name
      linger.ms: 5
    strategy: java-sticky-2.4      [= as version and config say] of `partition-health partition --strategies`
    compression_ratio: 0.4         with a compression.type: compressed bytes per uncompressed byte of these records
    traffic:                       one section, or a list of them; each is a sending thread
      topic: orders                [= the only topic]; or, by weight,
      topics: {orders: 3, bills: 1}
      arrivals:                    one of
        {kind: perf_test, records_per_s: 2048}    as kafka-producer-perf-test --throughput: bursts; 0 is no throttle
        {kind: constant, records_per_s: 100}
        {kind: poisson, records_per_s: 100}
        {kind: on_off, records_per_s: 5000, on_s: 0.1, off_s: 0.9, spacing: even}    [spacing = even] or poisson; on_s
                                                  and off_s are QUANTITIES
        {kind: recorded, file: arrivals.parquet}  or .csv: columns at_ms, value_bytes; where there, key and partition
      records: 122880              the end: so many records, or
      duration_s: 60               so long
      start_s: 0                   [= 0]
      value_bytes: 512             a QUANTITY
      keys:                        [= no keys]
        share: 0.3                 [= 1] of the records
        count: 1000                different keys
        bytes: 8                   length of each
        zipf_exponent: 1.1         [= 0] how much more frequent the first ones are; 0: all alike
      explicit: {share: 0.1, partitions: [0, 1]}  [= none] records that name their partition
      threads: 2                   [= 1] so many sending threads alike

variants:                          [= one, "as configured"] what is compared; each changes what it names
  - name: linger-20
    summary: One sentence.         []
    client, version, config, strategy, compression_ratio     as above; config is added to the producer's,
                                   unless the client is another one
    producers: [app]               [= all] which of them change
    brokers: [{id: 0, delay_ms: 0}]      keys of single brokers
    compare:                       [= none] figures from elsewhere to show beside
      - label: real here           or published
        source: run of 3 May
        throughput_records_per_s, latency_avg_ms, latency_p50_ms, latency_p95_ms, latency_p99_ms, latency_p999_ms,
        latency_max_ms: 1          []
        size_bytes, record_count, batch_count: {0: 1, 1: 2}  [] by broker id

recovery: {broker: 0, from_s: 45}  [= none] tell how long after second 45 broker 0 has its fair share again

A QUANTITY is a number; quantiles, straight lines between: {0: 0.1, 0.5: 0.2, 0.99: 2, 1: 5}; or its mean where it is
exponential: {exponential: 0.3}.
Configs that a version of the client has, but that do not touch partitions, batches or times, are accepted and told of.
"""
"""Printed by `partition-health simulate --schema`."""

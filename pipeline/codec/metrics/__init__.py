"""Metric formats: Prometheus exposition, librdkafka statistics, perf-test output."""

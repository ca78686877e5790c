"""Metric formats: Prometheus exposition, librdkafka statistics."""

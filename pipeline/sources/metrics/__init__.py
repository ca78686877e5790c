"""Metrics from Prometheus, exporters and saved pages."""

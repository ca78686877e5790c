"""Partitioners, settings and broker latencies, inferred from recorded traffic and metrics: the start of a replay."""

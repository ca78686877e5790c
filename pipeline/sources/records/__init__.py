"""Spark data sources over segment files: batches, keys, arrivals."""

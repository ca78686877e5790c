"""Producers and brokers watched by a Prometheus server and by files: one window of traffic for all modules of this folder."""

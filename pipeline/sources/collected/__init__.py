"""Collected logs: read by collectors on broker hosts, kept in a landing folder until a run reads them."""

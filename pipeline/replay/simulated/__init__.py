"""Recorded traffic through the simulator: producer sessions under every candidate, with several seeds."""

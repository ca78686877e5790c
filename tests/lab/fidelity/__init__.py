"""The simulator held against real producers on real brokers: ``make fidelity``."""

"""One file per client: `STRATEGIES`, a tuple of values. A new file is found by the registry without being named."""

"""Keyless producers of many clients: real ones through real brokers, and simulated beside them."""

"""Scenarios: brokers, topics, traffic and producers, and the YAML that describes them."""

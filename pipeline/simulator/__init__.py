"""A Kafka producer and its brokers in virtual time: batches, requests, sticky partitions, latencies."""

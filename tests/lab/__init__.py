"""The lab: real Kafka brokers and clients for tests and for the committed capture."""

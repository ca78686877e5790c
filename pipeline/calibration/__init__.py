"""What was in use and how fast brokers were, read from recorded traffic and metrics: what a replay starts from."""

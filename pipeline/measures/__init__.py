"""Numbers from counts: shares, imbalance, chance level, causes, latency."""

"""The nouns: frozen values of Kafka logs, clusters, metrics, windows and alerts. Standard library only."""

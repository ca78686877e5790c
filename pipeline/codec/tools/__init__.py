"""Text printed and JSON read by Kafka's own command-line tools."""

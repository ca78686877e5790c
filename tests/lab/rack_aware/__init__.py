"""What the real partitioner of Kafka 4.4 draws, rack-aware or not, over cluster states made from a seed."""

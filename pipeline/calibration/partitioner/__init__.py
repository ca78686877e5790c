"""Which client, partitioner and settings a producer session used, from its records and batches."""

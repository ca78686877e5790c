"""A running cluster read through its brokers: one cluster a version for all modules of this folder."""

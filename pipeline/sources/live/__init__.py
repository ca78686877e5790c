"""A running cluster as a source: its state through the Admin API, its records through Fetch."""

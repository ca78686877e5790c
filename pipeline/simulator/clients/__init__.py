"""The settings and defaults of each client and version."""

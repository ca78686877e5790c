"""Whole ingests of clusters of which one host or server is hostile, drawn at random, and what must hold of each."""

"""Mutated files, texts and records for every parser and kernel; ``python -m tests.lab.fuzz`` counts them."""

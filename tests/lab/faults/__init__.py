"""Faults planted in runs of the pipeline, again and again; ``python -m tests.lab.faults`` counts what they cost."""

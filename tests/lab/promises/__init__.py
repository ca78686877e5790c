"""Advice carried out on real clusters, and what came of it beside what was promised."""

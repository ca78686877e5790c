"""Figures from values, for mail and report."""

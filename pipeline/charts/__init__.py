"""Figures from values, for mail and report."""

from __future__ import annotations

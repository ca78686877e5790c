"""What collectors on broker hosts read, kept in a landing folder until a run takes it up."""

from __future__ import annotations

"""Rule to finding to incident to message to delivery."""

from __future__ import annotations

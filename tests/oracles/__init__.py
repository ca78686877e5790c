"""Independent twins that tests hold the product against."""

from __future__ import annotations

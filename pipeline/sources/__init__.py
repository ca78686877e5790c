"""Where data comes in: log directories, cluster state, metric files."""

from __future__ import annotations

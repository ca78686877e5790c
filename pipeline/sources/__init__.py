"""Sources of data: log directories, live clusters, cluster state, metrics."""

from __future__ import annotations

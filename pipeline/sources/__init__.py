"""Sources of data: log directories, live clusters, cluster state, metrics."""

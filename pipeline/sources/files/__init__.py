"""Log directories and saved tool output: discovery, cluster state, segments."""

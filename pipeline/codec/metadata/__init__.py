"""KRaft's metadata log: its records and the cluster's history."""

"""Rows of a cluster's state in several windows, as an ingest makes them window by window."""

from pipeline.sources.files import cluster_rows


def list_window_states(history, windows, epochs=None, newest=None):
    return [cluster_rows.describe_window(history, one, (epochs or {}).get(one.start_ms), newest) for one in windows]


def list_broker_rows(cluster, history, counts, states, configs, **disks):
    rows = (cluster_rows.iter_broker_rows(cluster, history, counts, known, configs, **disks) for known in states)
    return [row for of_window in rows for row in of_window]


def list_cluster_state_rows(cluster, replicas, states, relative, **moving):
    rows = (cluster_rows.iter_cluster_state_rows(cluster, replicas, known, relative, **moving) for known in states)
    return [row for of_window in rows for row in of_window]

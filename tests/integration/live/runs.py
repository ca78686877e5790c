"""What tests of a live cluster share: its configuration, its rows, and how to wait for and end its brokers."""

import threading
import time
from pathlib import Path

from pipeline.config_file import load_config
from pipeline.model.window import TimeWindow
from pipeline.sources.files.cluster_state import read_replica_states
from pipeline.sources.files.log_directories import discover_logs
from pipeline.sources.kinds.live_cluster import LiveCluster
from pipeline.sources.live.plan import plan_fetches
from pipeline.sources.live.state import read_live_state
from tests.config_files import write_configuration
from tests.lab.live_traffic import MINUTE_MS, MINUTES, TOPICS
from tests.lab.process import PATIENCE_S
from tests.spark.capture_runs import stored


def wait_until(condition, what):
    """Asks until a condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {PATIENCE_S} s"
        time.sleep(0.2)


def wait_for_checkpoints(cluster, topics=()):
    """Until `replication-offset-checkpoint`, written every five seconds, names the end of every log (of some topics)."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        states, _ = read_replica_states(discover_logs([b.log_directory for b in cluster.brokers]))
        wanted = [s for s in states if not topics or s.topic in topics]
        behind = [s for s in wanted if s.log_end_offset and s.high_watermark != s.log_end_offset]
        if not behind:
            return
        assert time.monotonic() < deadline, behind[:3]
        time.sleep(0.2)


def span_of(cluster):
    return TimeWindow(cluster.start_ms, cluster.start_ms + MINUTES * MINUTE_MS)


def live_source(cluster, **settings):
    return LiveCluster(kind="live_cluster", bootstrap_servers=cluster.bootstrap, **settings)


def write_config(folder, cluster, **clusters):
    disks = {"kind": "log_directories", "paths": [str(b.log_directory) for b in cluster.brokers]}
    live = {"kind": "live_cluster", "bootstrap_servers": cluster.bootstrap}
    known = {"disks": [disks], "both": [disks, live], "live": [live], "offsets": [{**live, "read": "offsets"}]}
    named = {
        name: {"sources": [{**known[kind][0], **more}, *known[kind][1:]], "topics": list(TOPICS)}
        for name, (kind, more) in clusters.items()
    }
    return load_config(write_configuration(folder, named, window="PT1M", keys={"secret": "secret"}))


def rows_of(warehouse, name, cluster, *left_out):
    rows = [row for row in stored(warehouse, name) if row["cluster"] == cluster]
    return [{k: v for k, v in row.items() if k not in {*left_out, "cluster", "run_id"}} for row in rows]


def kill_once_talked_to(cluster, node_id):
    """Ends a broker as soon as somebody is connected to its client port; returns the thread that waits for it."""
    broker = cluster.brokers[node_id]
    wanted = f":{broker.client_port:04X}"

    def watch():
        while True:
            lines = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
            if any(parts[2].endswith(wanted) and parts[3] == "01" for parts in lines):
                break
            time.sleep(0.005)
        cluster.kill_broker(node_id)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def read_of(connection, key, now_ms):
    state = read_live_state(connection, topics=[key.topic])
    (read,) = plan_fetches(connection, state, [key], TimeWindow(0, 2 * now_ms), lateness_ms=0, as_of_ms=now_ms)[0]
    return read

"""A broker of three is killed within a window and comes back later: batches count for who led at their leader epoch.

Oracle: what the producer saw acknowledged, the batch headers as the lab reads them, and the leader of every epoch from
`kafka-dump-log --cluster-metadata-decoder` of the controller's metadata log; none of it is the pipeline's own code. A window
may abstain where it cannot know; it never judges wrong shares.

Records are stamped with minutes that are over, so that nobody waits for windows to pass: the broker is killed between the
stamps of one minute, and each run's clock stands where a run of its window would.
"""

import json
import logging
import time
from collections import Counter, defaultdict

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from expectations import gates
from pipeline.config_file import load_config
from pipeline.jobs import ingest, judge_health, measure_rules, score_health
from pipeline.model.window import TimeWindow, milliseconds_of
from pipeline.runs import plan_runs
from tests.config_files import write_configuration
from tests.integration.live.runs import wait_for_checkpoints, wait_until
from tests.lab.cluster import run_tool, start_cluster
from tests.lab.facts import CONTROL_BIT, HEADER
from tests.lab.live_traffic import MINUTE_MS
from tests.lab.process import PATIENCE_S
from tests.spark.capture_runs import stored

TOPICS = {"pairs": "0:1,1:2,2:0,0:2,1:0,2:1", "triples": "2:0:1,0:1:2,1:2:0"}
PLACES = [(topic, number) for topic, replicas in TOPICS.items() for number in range(replicas.count(",") + 1)]
BEFORE, ALIVE, KILLED, AWAY, RETURNED, WELL = range(-1, 5)
"""What happens in each minute; in `RETURNED` the broker starts and preferred leaders are elected."""
RECORDS = 3_000
DEAD = 2
GRACE_MS = 5 * MINUTE_MS
MORE_CONTROL = {"auto.leader.rebalance.enable": "false"}


class Traffic:
    """A producer with acks=all that stamps records with minutes that are over, and what it saw acknowledged."""

    def __init__(self, bootstrap, start_ms):
        self.start_ms = start_ms
        self.acked = set()
        self.failed = []
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "batch.num.messages": 3}
        )

    def write(self, minute, first, last):
        """Hands over records of a part of a minute, 0..1."""
        for number in range(round(RECORDS * first), round(RECORDS * last)):
            topic, partition = PLACES[number // 3 % len(PLACES)]
            stamp = self.start_ms + minute * MINUTE_MS + number * MINUTE_MS // RECORDS
            self._producer.produce(topic, bytes(300), partition=partition, timestamp=stamp, callback=self._told)

    def finish(self):
        assert self._producer.flush(PATIENCE_S) == 0
        assert self.failed == []

    def _told(self, error, message):
        if error is None:
            self.acked.add((message.topic(), message.partition(), message.offset()))
        else:
            self.failed.append(error)


class Runs:
    """Runs of the pipeline over one configuration, by Spark or without, and what they left."""

    def __init__(self, engine, folder, source):
        lab = {"sources": [source], "topics": list(TOPICS), "freshness": "P1D"}
        off = {"keys": {"mode": "off"}, "replay": {"arrivals": False}}
        self._engine, self._path = engine, write_configuration(folder, {"lab": lab}, window="PT1M", **off)
        self.warehouse = load_config(self._path).warehouse
        self.verdicts = {}

    def run(self, start_ms, minutes, *, now_ms):
        span = TimeWindow(start_ms + minutes[0] * MINUTE_MS, start_ms + (minutes[-1] + 1) * MINUTE_MS)
        (run,) = plan_runs(load_config(self._path), span, run_id=str(span), now_ms=now_ms)
        ingest.run(self._engine, run)
        gates.check_ingested(self._engine, run)
        score_health.run(self._engine, run, run.windows)
        measure_rules.run(run, run.windows)
        for verdict in judge_health.run(run, run.windows):
            minute = (verdict.window_start_ms - start_ms) // MINUTE_MS
            self.verdicts[minute, verdict.rule, verdict.subject] = verdict

    def judged(self):
        """Minutes whose shares were judged, by any verdict but that they cannot be."""
        return {
            minute
            for (minute, rule, _), verdict in self.verdicts.items()
            if rule == "broker_share" and verdict.verdict not in {"incomplete", "stale"} and minute != BEFORE
        }

    def loads(self, start_ms):
        """Bytes and data records by minute and broker, none left out."""
        return {
            ((milliseconds_of(row["window_start"]) - start_ms) // MINUTE_MS, row["broker_id"]): (
                row["size_bytes"],
                row["record_count"],
            )
            for row in stored(self.warehouse, "gold.broker_share")
        }

    def reasons(self, rule):
        """What a rule found beyond its limit, by minute and subject."""
        return {
            (minute, subject): v.reason
            for (minute, name, subject), v in self.verdicts.items()
            if name == rule and v.is_above
        }


def leaders_by_epoch(cluster):
    """Leader by topic, partition and epoch, as Kafka's tool prints the controller's metadata log."""
    logs = sorted((cluster.controller_directory / "__cluster_metadata-0").glob("*.log"))
    text = run_tool("kafka-dump-log", "--cluster-metadata-decoder", "--files", ",".join(map(str, logs)))
    names, epochs, leaders = {}, {}, {}
    for line in text.splitlines():
        _, found, payload = line.partition("payload: ")
        record = json.loads(payload) if found else {"type": ""}
        data = record.get("data", {})
        if record["type"] == "TOPIC_RECORD":
            names[data["topicId"]] = data["name"]
        elif record["type"] in {"PARTITION_RECORD", "PARTITION_CHANGE_RECORD"} and "leader" in data:
            place = (names[data["topicId"]], data["partitionId"])
            epochs[place] = data.get("leaderEpoch", epochs.get(place, -1) + 1)
            leaders[*place, epochs[place]] = data["leader"]
    return leaders


def count_truth(cluster, traffic, leaders):
    """Bytes and data records by minute and broker; every acknowledged record is among them."""
    loads, seen = defaultdict(Counter), set()
    for topic, partition in PLACES:
        replica = int(TOPICS[topic].split(",")[partition].split(":")[0])
        (log,) = (cluster.brokers[replica].log_directory / f"{topic}-{partition}").glob("*.log")
        data, position = log.read_bytes(), 0
        while position < len(data):
            base, length, epoch, _, _, attributes, delta, _, newest_ms, *_ = HEADER.unpack_from(data, position)
            assert not attributes & CONTROL_BIT
            minute = (newest_ms - traffic.start_ms) // MINUTE_MS
            loads[minute, leaders[topic, partition, epoch]].update(size_bytes=length + 12, records=delta + 1)
            seen |= {(topic, partition, offset) for offset in range(base, base + delta + 1)}
            position += length + 12
    assert seen >= traffic.acked
    assert len(traffic.acked) == RECORDS * (WELL + 1)
    return {
        (minute, broker): (loads[minute, broker]["size_bytes"], loads[minute, broker]["records"])
        for minute in range(WELL + 1)
        for broker in range(3)
    }


@pytest.fixture(scope="module")
def happened(spark, tmp_path_factory):
    """Five minutes of traffic, the runs that came along with them, those that came later, and the truth."""
    folder = tmp_path_factory.mktemp("leaders")
    with start_cluster(folder, 3, controller_settings=MORE_CONTROL, is_brief=True) as cluster:
        for topic, assignment in TOPICS.items():
            cluster.create_topic(topic, assignment)
        live = {"kind": "live_cluster", "bootstrap_servers": cluster.bootstrap, "groups": False}
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "logger": logging.getLogger("lab")})
        start_ms = now_minute() - 10 * MINUTE_MS
        traffic = Traffic(cluster.bootstrap, start_ms)
        prompt, delayed = (Runs(spark, folder / name, live) for name in ("prompt", "delayed"))

        def look(minute):
            prompt.run(start_ms, [minute], now_ms=start_ms + (minute + 1) * MINUTE_MS)

        def look_back(*minutes):
            for minute in minutes:
                delayed.run(start_ms, [minute], now_ms=start_ms + (minute + 1) * MINUTE_MS + GRACE_MS)

        look_back(BEFORE)
        traffic.write(ALIVE, 0, 1)
        traffic.finish()
        look(ALIVE)
        traffic.write(KILLED, 0, 0.4)
        traffic.finish()
        traffic.write(KILLED, 0.4, 0.6)  # some of it is on its way
        cluster.kill_broker(DEAD)
        traffic.write(KILLED, 0.6, 1)
        traffic.finish()
        wait_until(lambda: led_by(admin, DEAD) == 0, "leaders on the brokers that are left")
        look(KILLED)
        traffic.write(AWAY, 0, 1)
        traffic.finish()
        look(AWAY)
        look_back(ALIVE)
        traffic.write(RETURNED, 0, 0.5)
        traffic.finish()
        cluster.start_broker(DEAD)
        wait_until(lambda: elects_preferred(cluster, admin), "preferred leaders")
        traffic.write(RETURNED, 0.5, 1)
        traffic.finish()
        look(RETURNED)
        look_back(KILLED, AWAY)
        traffic.write(WELL, 0, 1)
        traffic.finish()
        look(WELL)
        look_back(RETURNED, WELL)
        everything = list(range(WELL + 1))
        late = Runs(spark, folder / "late", live)
        late.run(start_ms, everything, now_ms=start_ms + len(everything) * MINUTE_MS + GRACE_MS)
        wait_for_checkpoints(cluster, topics=TOPICS)
        disks = [str(broker.log_directory) for broker in cluster.brokers]
        on_disk = Runs(spark, folder / "on-disk", {"kind": "log_directories", "paths": disks})
        on_disk.run(start_ms, everything, now_ms=now_minute() + MINUTE_MS)
        truth = count_truth(cluster, traffic, leaders_by_epoch(cluster))
        yield start_ms, truth, {"prompt": prompt, "delayed": delayed, "late": late, "disks": on_disk}


def now_minute():
    now_ms = time.time_ns() // 1_000_000
    return now_ms - now_ms % MINUTE_MS


def led_by(admin, broker_id):
    topics = admin.list_topics(timeout=PATIENCE_S).topics
    return sum(topics[topic].partitions[number].leader == broker_id for topic, number in PLACES)


def elects_preferred(cluster, admin):
    """Asks for it once all replicas are in sync; true where broker 2 leads its third again."""
    topics = admin.list_topics(timeout=PATIENCE_S).topics
    if any(len(topics[topic].partitions[n].isrs) < len(topics[topic].partitions[n].replicas) for topic, n in PLACES):
        return False
    cluster.run_tool("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions")
    return led_by(admin, DEAD) == 3


def test_the_dead_broker_had_no_traffic_while_it_was_away(happened):
    """The truth is what was done to the cluster."""
    _, truth, _ = happened
    assert truth[AWAY, DEAD] == (0, 0)
    assert 0 < truth[KILLED, DEAD][0] < truth[ALIVE, DEAD][0]
    assert 0 < truth[RETURNED, DEAD][0] < truth[WELL, DEAD][0]
    assert sum(records for minute, broker in truth for _, records in [truth[minute, broker]]) >= RECORDS * (WELL + 1)


@pytest.mark.parametrize("name", ["prompt", "delayed", "late", "disks"])
def test_a_window_that_is_judged_has_the_true_loads(happened, name):
    start_ms, truth, runs = happened
    found, judged = runs[name].loads(start_ms), runs[name].judged()
    wrong = {
        key: (found.get(key), load)
        for key, load in truth.items()
        if key[0] in judged and found.get(key, (0, 0)) != load
    }
    assert wrong == {}


def test_the_windows_that_can_be_judged_are(happened):
    """Disks hold the history of leaders; runs that follow see every leader, one that comes late only the last ones. A broker
    that does not answer takes nothing away: the records of all partitions came from the others."""
    _, _, runs = happened
    everything = {ALIVE, KILLED, AWAY, RETURNED, WELL}
    assert {name: ran.judged() for name, ran in runs.items()} == {
        "prompt": everything,
        "delayed": everything,
        "late": {WELL},
        "disks": everything,
    }


def test_windows_that_abstain_say_why(happened):
    _, _, runs = happened
    why = runs["late"].reasons("source_arrival")
    assert all("who led in leader epoch" in why[minute, "live_cluster"] for minute in (ALIVE, KILLED, AWAY, RETURNED))
    assert {name: ran.reasons("source_arrival") for name, ran in runs.items() if name != "late"} == {
        "prompt": {},
        "delayed": {},
        "disks": {},
    }


def in_sync(ran, start_ms):
    """By minute, what the rows say of whether broker 2's replicas and those of the others are in sync."""
    found = defaultdict(lambda: (set(), set()))
    for row in stored(ran.warehouse, "bronze.cluster_state"):
        minute = (milliseconds_of(row["window_start"]) - start_ms) // MINUTE_MS
        found[minute][row["replica_id"] != DEAD].add(row["is_in_sync"])
    return dict(found)


def test_state_of_the_run_is_not_in_windows_before_it(happened):
    """It is in the window that holds the moment; the newest one run has what changes slowly, and those before leaders alone."""
    start_ms, _, runs = happened
    newest, asked = start_ms + WELL * MINUTE_MS, start_ms + (WELL + 1) * MINUTE_MS + GRACE_MS
    rows = stored(runs["late"].warehouse, "bronze.cluster_state")
    by_window = defaultdict(list)
    for row in rows:
        by_window[milliseconds_of(row["window_start"])].append(row)
    assert {milliseconds_of(row["observed_at"]) for row in rows} == {asked}
    assert all(row["is_in_sync"] and row["size_bytes"] for row in by_window[asked])
    assert all(row["is_in_sync"] is None and row["size_bytes"] for row in by_window[newest])
    before = [row for start, found in by_window.items() if start < newest for row in found]
    assert {(row["is_in_sync"], row["size_bytes"], row["log_end_offset"]) for row in before} == {(None, None, None)}
    assert DEAD not in {row["leader_id"] for row in by_window[start_ms + AWAY * MINUTE_MS]}


def test_in_sync_sets_are_of_the_moment_or_of_the_window_that_it_closes(happened):
    """Runs that follow ask as a window ends: that is within the next one, and closes the first one of all."""
    start_ms, _, runs = happened
    assert in_sync(runs["prompt"], start_ms) == {
        ALIVE: ({True}, {True}),
        KILLED: ({True}, {True}),  # as it began
        AWAY: ({False}, {True}),
        RETURNED: ({False}, {True}),
        WELL: ({True}, {True}),
        WELL + 1: ({True}, {True}),
    }
    late = in_sync(runs["late"], start_ms)
    assert {minute for minute, told in late.items() if told != ({None}, {None})} == {WELL + 1 + GRACE_MS // MINUTE_MS}


def test_leaders_that_moved_are_told(happened):
    _, _, runs = happened
    moved = runs["disks"].reasons("leaders_moved")
    assert "led 3 partitions" in moved[KILLED, "broker 2"]
    assert {subject for minute, subject in moved if minute == RETURNED} == {"broker 0", "broker 1"}


def test_a_broker_that_was_away_is_told_in_the_windows_it_was_away_in_and_in_no_other(happened):
    """The others ask when it is alive again, or, as they stamp it, after the last of these minutes."""
    _, _, runs = happened
    away = runs["prompt"].reasons("broker_away")
    assert away.keys() == {(minute, "broker 2") for minute in (KILLED, AWAY, RETURNED)}
    assert "others lead its partitions" in away[KILLED, "broker 2"]
    assert "(1 minute of the window)" in away[AWAY, "broker 2"]
    assert "back by" in away[RETURNED, "broker 2"]
    under = {minute for minute, _ in runs["prompt"].reasons("under_replicated")}
    assert under == {KILLED, AWAY, RETURNED}
    for name in ("delayed", "late"):
        assert not {minute for minute, _ in runs[name].reasons("broker_away") if minute <= WELL}
        assert not {minute for minute, _ in runs[name].reasons("under_replicated") if minute <= WELL}


def test_a_fair_share_is_that_of_the_capacity_that_stood(happened):
    """Broker 2 was away from a part of `KILLED` to at least the end of `AWAY`."""
    start_ms, _, runs = happened
    fair = defaultdict(dict)
    for row in stored(runs["prompt"].warehouse, "gold.broker_share"):
        fair[(milliseconds_of(row["window_start"]) - start_ms) // MINUTE_MS][row["broker_id"]] = row["expected_share"]
    assert fair[AWAY] == {0: 0.5, 1: 0.5, DEAD: 0.0}
    assert 0.15 < fair[KILLED][DEAD] < 0.3
    assert all(fair[minute][DEAD] == pytest.approx(1 / 3) for minute in (ALIVE, WELL))

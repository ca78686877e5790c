"""The cluster as it would be. Oracle: three brokers with two partitions each, worked out by hand; the command over made-up tables."""

import json
from dataclasses import replace

import polars as pl
import pytest
from deltalake import DeltaTable

from pipeline.advice.following import LeaderReplay, predict_following
from pipeline.advice.what_ifs import (
    ClusterChange,
    Following,
    PlacedCluster,
    change_cluster,
    foresee,
    pin_following,
    plan_even,
)
from pipeline.cli import main
from pipeline.cli.what_if import describe_what_if
from pipeline.codec.tools.reassignment_text import format_reassignment, parse_reassignment
from pipeline.config_file import load_config
from pipeline.errors import ConfigError, InputError
from pipeline.jobs.recommend import load_placement
from pipeline.measures.zone_plans import rate_brokers
from pipeline.model.placement import PlacementBroker
from pipeline.model.window import HOUR_MS, TimeWindow, instant_of
from pipeline.runs import plan_runs
from pipeline.tables.bronze import BROKERS
from tests.placements import place
from tests.report_tables import T0_MS, write_config, write_rows, write_warehouse

REPLICAS = ((0, 1), (0, 2), (1, 2), (1, 0), (2, 0), (2, 1))


PARTITIONS = tuple(place(at, of, topic="orders" if at < 4 else "clicks") for at, of in enumerate(REPLICAS))
STANDING = tuple(PlacementBroker(broker_id=number, rack="ab"[number > 1]) for number in range(3))
CLUSTER = PlacedCluster(partitions=PARTITIONS, brokers=STANDING)
EVEN = {0: 200, 1: 200, 2: 200}
FOURTH = ClusterChange(added=(PlacementBroker(broker_id=3),))
REASSIGNED = ClusterChange(replicas={("orders", 0): (2, 1)})
UNDONE = replace(REASSIGNED, lost=frozenset({2}))
CHANGES = {
    "nothing": (ClusterChange(), EVEN, {0: 1, 1: 1, 2: 1}, 0),
    # orders-0 goes to broker 1, orders-1 to broker 2
    "a broker lost": (ClusterChange(lost=frozenset({0})), {1: 300, 2: 300}, {1: 1, 2: 1}, 0),
    # what rack b has in sync on rack a goes there
    "a rack lost": (ClusterChange(lost_racks=frozenset("b")), {0: 300, 1: 300}, {0: 1, 1: 1}, 0),
    "a broker added gets nothing": (FOURTH, {**EVEN, 3: 0}, {0: 4 / 3, 1: 4 / 3, 2: 4 / 3, 3: 0}, 0),
    # a fair share of a half, and a quarter each
    "a broker twice as large": (ClusterChange(sizes={0: 2}), EVEN, {0: 2 / 3, 1: 4 / 3, 2: 4 / 3}, 0),
    "a topic that grows": (ClusterChange(growth={"clicks": 3}), {0: 200, 1: 200, 2: 600}, {0: 0.6, 1: 0.6, 2: 1.8}, 0),
    # one replica is copied, the other stays
    "a reassignment": (REASSIGNED, {0: 100, 1: 200, 2: 300}, {0: 0.5, 1: 1, 2: 1.5}, 1_000),
    "a reassignment, and its new leader lost": (UNDONE, {0: 200, 1: 400}, {0: 2 / 3, 1: 4 / 3}, 1_000),
}


@pytest.mark.parametrize(("change", "loads", "ratios", "moved"), CHANGES.values(), ids=CHANGES)
def test_changes(change, loads, ratios, moved):
    changed = change_cluster(CLUSTER, change)
    assert (changed.loads, changed.moved_bytes, changed.leaderless) == (loads, moved, ())
    assert changed.ratios == pytest.approx(ratios)


def test_partitions_without_another_replica_in_sync_are_led_by_nobody():
    partitions = (place(0, (0, 1), in_sync=(0,)), place(1, (0,)), place(2, (1, 0)))
    alone = PlacedCluster(partitions=partitions, brokers=STANDING)
    changed = change_cluster(alone, ClusterChange(lost=frozenset({0})))
    assert [one.partition for one in changed.leaderless] == [0, 1]
    assert changed.loads == {1: 100, 2: 0}


def test_no_partition_needs_more_in_sync_than_it_has_replicas():
    """Each partition with one replica was said to refuse acks=all under a `min.insync.replicas` of 2, which Kafka 3.7 takes."""
    partitions = [replace(place(number, of), least_in_sync=2) for number, of in enumerate([(0,), (0, 1), (0, 1, 2)])]
    cluster = PlacedCluster(partitions=tuple(partitions), brokers=STANDING)
    assert cluster.below_min_isr == ()
    lost = change_cluster(cluster, ClusterChange(lost=frozenset({1})))
    assert [one.partition for one in lost.below_min_isr] == [1]


@pytest.mark.parametrize("takes", [True, False])
def test_no_replica_goes_where_kafka_places_none_or_racks_are_not_known(takes):
    brokers = (*STANDING, PlacementBroker(broker_id=3, rack="c", takes_replicas=takes))
    plan = plan_even(PlacedCluster(partitions=PARTITIONS, brokers=brokers), target_ratio=1.1)
    assert any(3 in move.new_replicas for move in plan.moves) is takes


def test_a_plan_fills_a_broker_that_was_added():
    changed = change_cluster(CLUSTER, ClusterChange(added=(PlacementBroker(broker_id=3, rack="c"),)))
    plan = plan_even(changed, target_ratio=1.34)
    assert plan.moves == ()
    plan = plan_even(change_cluster(changed, ClusterChange(growth={"orders": 2})), target_ratio=1.25)
    assert (plan.kind, plan.peak_ratio) == ("move_replicas", pytest.approx(1.2))
    assert plan.ratios[3] > 0


def test_what_takes_a_dead_brokers_place_leaves_less_room_for_the_rest_of_a_plan():
    """A plan put 1,400 bytes on a disk with room for 1,000: those of the dead broker did not count."""
    rooms = {0: 0, 1: 0, 2: 1_000, 3: 0}
    brokers = tuple(PlacementBroker(broker_id=one, free_bytes=free) for one, free in rooms.items())
    hurt = [place(number, (1, 3), topic="a", load=10, size=100) for number in range(10)]
    hot = [place(number, (0,), topic="b", size=200) for number in range(5)]
    partitions = (*hurt, *hot, place(0, (2,), topic="c", load=10, size=1))
    lost = change_cluster(PlacedCluster(partitions=partitions, brokers=brokers), ClusterChange(lost=frozenset({3})))
    moves = plan_even(lost, target_ratio=1.1).moves
    sizes = {(one.topic, one.partition): one.size_bytes for one in partitions}
    assert sum(sizes[m.topic, m.partition] for m in moves if 2 in {*m.new_replicas} - {*m.replicas}) == 1_000


WRONG = {
    "there is no broker 9": ClusterChange(lost=frozenset({9})),
    "there is no broker 8": ClusterChange(sizes={8: 2.0}),
    "broker 1 is there already": ClusterChange(added=(PlacementBroker(broker_id=1),)),
    "there is no rack z": ClusterChange(lost_racks=frozenset("z")),
    "there is no topic x": ClusterChange(growth={"x": 2.0}),
    "there is no partition orders-7": ClusterChange(replicas={("orders", 7): (0,)}),
    "there is no broker 5": ClusterChange(replicas={("orders", 0): (5,)}),
    "no broker would be left": ClusterChange(lost_racks=frozenset("ab")),
}


@pytest.mark.parametrize(("reason", "change"), WRONG.items(), ids=WRONG)
def test_changes_of_what_is_not_there_are_refused(reason, change):
    with pytest.raises(ConfigError, match=reason):
        change_cluster(CLUSTER, change)


def test_a_reassignment_to_a_broker_that_is_away_is_refused_as_kafka_does():
    """It was worked out as if the dead broker led."""
    away = replace(CLUSTER, brokers=(*STANDING[:2], replace(STANDING[2], is_fenced=True)))
    with pytest.raises(ConfigError, match="broker 2 is away: Kafka refuses a reassignment that names it"):
        change_cluster(away, REASSIGNED)


@pytest.mark.parametrize("text", ["", "{}", '{"partitions":[{"topic":"a","partition":0,"replicas":[]}]}', "[1]"])
def test_a_reassignment_that_is_none_is_refused(text):
    with pytest.raises(InputError):
        parse_reassignment(text, path="f")


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return write_keyed_cluster(tmp_path_factory.mktemp("what-if"))


def write_keyed_cluster(folder):
    """Two topics of six partitions on three brokers, placed by keys, the newest window judged; nothing is to be replayed."""
    path = write_cluster(folder)
    keyed = pl.DataFrame({"topic": ["orders", "clicks"], "placement": ["keys", "keys"]})
    keyed = keyed.with_columns(window_start=pl.lit(instant_of(T0_MS + 2 * HOUR_MS)))
    write_rows(load_config(path).warehouse, "gold.topic_health", keyed)
    return path


@pytest.fixture(scope="module")
def keyless(tmp_path_factory):
    """The same without keys: the load of broker 1 follows it, and the replay of the window is doubted."""
    path = write_cluster(tmp_path_factory.mktemp("keyless"))
    compared = DeltaTable(load_config(path).warehouse / "gold" / "scenario_comparison")
    compared.update(updates={"trust": "'not trustworthy: too wide'"})
    return path


def write_cluster(folder):
    write_warehouse(folder / "warehouse", windows=3)
    config = write_config(folder)
    newest = pl.DataFrame({"topic": ["orders"] * 6 + ["clicks"] * 6, "partition": [*range(6)] * 2})
    newest = newest.with_columns(
        window_start=pl.lit(instant_of(T0_MS + 2 * HOUR_MS)),
        leader=(pl.col("partition") + (pl.col("topic") == "clicks")) % 3,
    )
    rows = [
        newest.with_columns(
            leader_id=pl.col("leader"), replica_id=(pl.col("leader") + at) % 3, replica_position=pl.lit(at),
            is_in_sync=pl.lit(value=True), size_bytes=pl.lit(1_000),
        )
        for at in range(2)
    ]  # fmt: skip  # fields of a value, several a line
    write_rows(config.warehouse, "bronze.cluster_state", pl.concat(rows))
    return folder / "partition-health.yaml"


def ask(config, capsys, *options, as_json=True):
    """What the command answers."""
    assert main(["what-if", "--config", str(config), *options, *(["--json"] if as_json else [])]) == 0
    printed = capsys.readouterr().out
    return json.loads(printed) if as_json else printed


def add_settings(config, folder, settings):
    """A configuration of the same tables with further settings of its cluster."""
    for name in ("warehouse", "outbox"):
        (folder / name).symlink_to(config.parent / name)
    own = folder / "partition-health.yaml"
    own.write_text(config.read_text().replace("    sources:", f"{settings}    sources:"))
    return own


def test_what_nobody_leads_is_load_of_no_broker():
    """Of three brokers two are lost, and with them a third of the bytes: the last one carries no more than it leads."""
    foreseen = foresee(CLUSTER, ClusterChange(lost=frozenset({1, 2})), target_ratio=1.1)
    document = describe_what_if(CLUSTER, foreseen, ())
    assert document["leaderless"] == ["orders-2", "clicks-5"]
    assert [row["changed_size_bytes"] for row in document["brokers"]] == [400, None, None]
    then = change_cluster(CLUSTER, ClusterChange(lost=frozenset({1}))).partitions[:3]
    alone = (*then, place(6, (1,), leader=-1, in_sync=()))
    assert {one: ends[1] for one, ends in predict_following(alone, STANDING, {}).items()} == rate_brokers(
        alone, STANDING
    )


def test_the_command_says_what_a_lost_broker_leaves(config, capsys, tmp_path):
    lose = ["--lose-broker", "2", "--grow", "orders=2"]
    document = ask(config, capsys, *lose)
    now, then = ([row[name] for row in document["brokers"]] for name in ("size_bytes", "changed_size_bytes"))
    assert then[2] is None
    assert sum(then[:2]) == sum(now) + 16_000_000  # orders has 1 + 2 + 3 + 4 + 5 + 1 million bytes
    assert document["leaderless"] == []
    text = ask(config, capsys, *lose, "--plan", str(tmp_path / "plan.json"), as_json=False)
    assert text.startswith(f"Traffic and state of window {document['window']}, the newest that was judged.\n")
    assert document["window"] == "2026-11-21T02:00:00Z/2026-11-21T03:00:00Z"
    assert "Usable: " in text
    assert "Until preferred leaders are elected after it (kafka-leader-election), present leaders go on." in text
    assert "Brokers that are gone hold replicas of 8 partitions; the plan replaces them." in text
    moves = parse_reassignment((tmp_path / "plan.json").read_text())
    assert len(moves) == document["plan"]["moved_partition_count"]


def test_partitions_that_refuse_acks_all_once_a_broker_is_lost_are_told(tmp_path, capsys):
    """Shares were well and every partition had a leader, so the change was let through: half of the producers stood still."""
    config = write_keyed_cluster(tmp_path)
    state = DeltaTable(load_config(config).warehouse / "bronze" / "cluster_state")
    strict = "map(make_array('min.insync.replicas'), make_array('2'))"
    state.update(updates={"configs": strict}, predicate="topic = 'orders' AND partition < 2")
    assert ask(config, capsys)["below_min_isr"] == []
    lose = ["--lose-broker", "1"]
    document = ask(config, capsys, *lose)
    assert (document["below_min_isr"], document["leaderless"]) == (["orders-0", "orders-1"], [])
    said = "Below min.insync.replicas, so that acks=all is refused: orders-0, orders-1."
    assert said in ask(config, capsys, *lose, as_json=False)


def test_the_command_takes_a_reassignment(config, capsys, tmp_path):
    (tmp_path / "f.json").write_text(format_reassignment([("orders", 0, (1, 2))]))
    assert ask(config, capsys, "--reassignment", str(tmp_path / "f.json"))["moved_bytes"] == 1_000
    assert main(["what-if", "--config", str(config), "--lose-broker", "7"]) == 2
    assert "there is no broker 7" in capsys.readouterr().err


def test_what_ifs_of_the_configuration_are_those_of_the_options(config, capsys, tmp_path):
    """Oracle: the command with the options that say the same."""
    (tmp_path / "f.json").write_text(format_reassignment([("orders", 0, (1, 2))]))
    what_ifs = """\
    what_ifs:
      lost: {lose_brokers: [2], grow: {orders: 2}}
      more: {add_brokers: {3: ""}, resize_brokers: {0: 2}, reassignment: f.json}
"""
    own = add_settings(config, tmp_path, what_ifs)
    options = {
        "lost": ["--lose-broker", "2", "--grow", "orders=2"],
        "more": ["--add-broker", "3", "--resize-broker", "0=2", "--reassignment", str(tmp_path / "f.json")],
    }
    expected = []
    for name, asked in options.items():
        document = ask(config, capsys, *asked)
        window = document.pop("window")
        expected.append({"name": name, **document})
    assert ask(own, capsys, "--configured") == {"window": window, "what_ifs": expected}
    lines = ask(own, capsys, "--configured", as_json=False).splitlines()
    assert [line.split()[0] for line in lines if line[:4] in options] == [*options]


def test_a_plan_copies_no_more_than_it_may(config, capsys, tmp_path):
    """Copying a replica of 1,000 bytes to the new broker lowers the peak, two lower it further."""
    own = add_settings(config, tmp_path, "    max_moved_bytes: 1KB\n")
    options = {"1KB": [], "0": ["--max-moved", "0"], "1MiB": ["--max-moved", "1 MiB"]}
    plans = {name: ask(own, capsys, "--add-broker", "3", *asked)["plan"] for name, asked in options.items()}
    assert [plans[name]["moved_bytes"] for name in ("0", "1KB")] == [0, 1_000]
    assert plans["1MiB"]["moved_bytes"] > 1_000
    peaks = [plans[name]["peak_ratio"] for name in ("0", "1KB", "1MiB")]
    assert peaks[0] > peaks[1] >= peaks[2]
    with pytest.raises(SystemExit):
        main(["what-if", "--config", str(own), "--max-moved", "much"])


def test_brokers_have_the_room_of_their_fullest_disk_of_which_a_tenth_stays_free(config):
    """Or what `disk_bytes` leaves them; None where nobody says. Plans filled disks to the last byte."""
    document = config.read_text().replace("    sources:", "    disk_bytes: {1: 2000}\n    sources:")
    own = config.with_name("disks.yaml")
    own.write_text(document)
    window = TimeWindow(T0_MS + 2 * HOUR_MS, T0_MS + 3 * HOUR_MS)
    (run,) = plan_runs(load_config(own), window, run_id="r", now_ms=window.end_ms)
    told = {"window_start": instant_of(window.start_ms), "state_source": "live_cluster", "log_directory_count": 2}
    none = {"configs": {}, "log_dir_bytes": {}, "log_dir_total_bytes": {}, "log_dir_usable_bytes": {}}
    disks = {"log_dir_total_bytes": {"/a": 1000, "/b": 1000}, "log_dir_usable_bytes": {"/a": 500, "/b": 180}}
    rows = [{}, {"log_dir_bytes": {"/a": 400, "/b": 500}}, disks]
    run.replace(BROKERS, [{**none, **told, **row, "broker_id": at} for at, row in enumerate(rows)], (window,))
    assert [one.free_bytes for one in load_placement(run, window)[1]] == [None, 900, 80]


def test_without_a_judged_window_the_command_says_so(capsys, tmp_path):
    write_config(tmp_path)
    assert main(["what-if", "--config", str(tmp_path / "partition-health.yaml")]) == 3
    assert "no window of cluster demo was judged" in capsys.readouterr().err


def test_where_load_follows_a_broker_and_nothing_was_replayed_no_share_is_promised_to_new_leaders(keyless, capsys):
    added = ask(keyless, capsys, "--add-broker", "3")
    assert added["load_follows"] == [1]
    assert added["plan"]["moved_partition_count"] == 0
    assert added["not_predicted"].startswith("the replay of ")
    lost = ask(keyless, capsys, "--lose-broker", "2")
    assert {row["changed_share_ratio"] for row in lost["brokers"]} == {None}
    assert lost["changed_head_room_ratio"] is lost["plan"]["peak_ratio"] is None


def test_where_load_follows_a_broker_the_command_says_why_nothing_is_promised(keyless, capsys):
    said = ask(keyless, capsys, "--add-broker", "3", as_json=False)
    unknown = "What topics without keys (clicks, orders) would bring to other leaders is not predicted: the replay of"
    for words in ("Load follows broker 1", unknown, "There is no plan whose effect can be predicted."):
        assert words in said
    assert "not predicted then" in ask(keyless, capsys, "--lose-broker", "2", as_json=False)


ORDERS = [place(number, (0, 1), load=300, topic="orders") for number in range(2)]
CLICKS = [place(number, replicas, load=200, topic="clicks") for number, replicas in enumerate([(0, 1), (1, 2)])]
HOT = PlacedCluster(partitions=(*ORDERS, *CLICKS), brokers=STANDING)
PINNED = pin_following(HOT, {"clicks"})
"""Load of `orders` follows broker 0."""


def look_ahead(change, shares, reason=""):
    """What is foreseen, and what was asked to be replayed."""
    asked = []

    def replay(leaders, racks):
        asked.append((leaders, racks))
        return LeaderReplay(shares, reason)

    following = Following(keyed=frozenset({"clicks"}), replay=replay)
    return foresee(PINNED, change, target_ratio=1.1, following=following), asked


def test_a_broker_added_gets_what_the_replay_with_the_plans_leaders_says():
    """1,000 bytes, a fair share of 250; `orders` (600) as replayed, `clicks` (400) on its partitions."""
    shares = {"orders": {0: (0.3, 0.35, 0.4), 1: (0.2, 0.3, 0.4), 3: (0.2, 0.35, 0.4)}}
    added = (PlacementBroker(broker_id=3, rack="c"),)
    found, asked = look_ahead(ClusterChange(added=added), shares)
    assert found.is_replayed
    assert found.ratios[0] == pytest.approx((3.2, 3.2, 3.2))  # the broker alone changes nothing
    ((leaders, racks),) = asked
    assert {topic for topic, _ in leaders} == {"orders"}
    assert racks == {3: "c"}
    led = {(move.topic, move.partition): move.new_replicas[0] for move in found.plan.moves}
    on_3 = sum(200 for (topic, _), leader in led.items() if topic == "clicks" and leader == 3)
    assert found.planned[3] == pytest.approx(tuple((on_3 + 600 * end) / 250 for end in (0.2, 0.35, 0.4)))


def test_bytes_then_are_of_what_was_replayed_then_and_not_for_the_plan():
    """Nobody led a partition at the window's end, and the plan alone was replayed: its bytes were spread over the brokers."""
    nobodys = replace(PINNED.partitions[0], partition=2, leader_id=-1, in_sync=())
    alone = replace(PINNED, partitions=(*PINNED.partitions, nobodys))
    added = ClusterChange(added=(PlacementBroker(broker_id=3, rack="c"),))
    even = {"orders": dict.fromkeys(range(4), (0.25, 0.25, 0.25))}
    following = Following(keyed=frozenset({"clicks"}), replay=lambda *_: LeaderReplay(even))
    foreseen = foresee(alone, added, target_ratio=1.1, following=following)
    assert foreseen.is_replayed
    rows = describe_what_if(alone, foreseen, ())["brokers"]
    assert [row["changed_size_bytes"] for row in rows[:3]] == [row["size_bytes"] for row in rows[:3]]


def test_a_plan_that_the_replay_finds_worse_than_leaving_topics_without_keys_is_not_taken():
    found, asked = look_ahead(ClusterChange(), {"orders": {0: (1.0, 1.0, 1.0)}})
    assert {topic for leaders, _ in asked for topic, _ in leaders} == {"orders"}
    assert {move.topic for move in found.plan.moves} == {"clicks"}
    assert found.peak == pytest.approx(600 / (1_000 / 3))


def test_a_lost_brokers_topics_are_replayed_and_a_doubted_replay_promises_nothing():
    lost = ClusterChange(lost=frozenset({0}))
    found, asked = look_ahead(lost, {"orders": {1: (1.0, 1.0, 1.0)}})
    assert asked[0] == ({("orders", 0): 1, ("orders", 1): 1}, {})
    assert found.ratios[1] == (2.0, 2.0, 2.0)
    doubted, _ = look_ahead(lost, {}, "the replay of orders is not there")
    assert (doubted.ratios, doubted.planned, doubted.peak) == ({}, {}, None)
    assert doubted.reason == "the replay of orders is not there"


def test_a_resized_broker_has_another_speed_and_nothing_is_replayed():
    found, asked = look_ahead(ClusterChange(sizes={0: 2.0}), {})
    assert (found.ratios, asked) == ({}, [])
    assert found.reason == "how fast a broker of another size would answer is not known"


def test_pinned_partitions_stay_and_others_are_planned_as_ever():
    assert {move.topic for move in plan_even(PINNED, target_ratio=1.1).moves} == {"clicks"}
    assert foresee(HOT, ClusterChange(lost=frozenset({0})), target_ratio=1.1).ratios[1] == (2.0, 2.0, 2.0)

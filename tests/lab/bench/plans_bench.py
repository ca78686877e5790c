"""Plans beside those of kafka-utils 4.1.0 (Yelp) on ten drawn cluster states: bytes moved, and the spread that results.

kafka-utils' `GeneticBalancer` may copy a tenth of all replicas' bytes. It plans twice: with its default weights, which also
even out replicas and counts, and with all weight on what leaders carry. Ours then may copy what it copied, and no more.

`--peer PYTHON` asks kafka-utils anew, by an interpreter that has it; else its recorded plans are taken. Oracle: leaders, replicas
and bytes counted here, from the replicas that either leaves.
"""

import json
import math
import subprocess
from pathlib import Path

from pipeline.measures.reassignment import plan_replicas
from tests.lab.bench.figures import make_parser, write_between
from tests.lab.bench.plan_states import draw_state

RECORDED = Path(__file__).parents[2] / "golden" / "kafka_utils_plans.json"
SEEDS = range(1, 11)
PART = 0.1  # of all replicas' bytes, that kafka-utils may copy
OTHERS = ("partition-weight-cv", "topic-broker-imbalance", "broker-partition-count", "broker-leader-count")
WEIGHTS = {
    "default": "",
    "leaders": " ".join(("--leader-weight-cv-score-weight 1", *(f"--{name}-score-weight 1e-9" for name in OTHERS))),
}
NO_WORSE = 0.005  # the planner takes changes back that bring the peak less than this
EVEN = 1.0


def ask_kafka_utils(python):
    """Its plans by seed and weights: partitions that change, `[topic, partition, replicas]`."""
    asked = []
    for seed in SEEDS:
        partitions, brokers = draw_state(seed)
        state = {
            "partitions": [[p.topic, p.partition, p.replicas, p.load_bytes, p.size_bytes] for p in partitions],
            "brokers": [[broker.broker_id, broker.rack] for broker in brokers],
            "most_bytes": PART * sum(p.size_bytes * len(p.replicas) for p in partitions),
        }
        asked += [(state, weights) for weights in WEIGHTS.values()]
    script = Path(__file__).with_name("kafka_utils_plan.py")
    done = subprocess.run([python, script], input=json.dumps(asked), capture_output=True, text=True, check=True)
    plans = iter(json.loads(done.stdout))
    return {str(seed): {name: next(plans) for name in WEIGHTS} for seed in SEEDS}


def measure(partitions, brokers, moves):
    """Largest share ratio, coefficient of variation of ratios, and bytes copied, with these replicas by partition."""
    loads, moved = dict.fromkeys((broker.broker_id for broker in brokers), 0), 0
    for partition in partitions:
        replicas = moves.get((partition.topic, partition.partition), partition.replicas)
        loads[replicas[0]] += partition.load_bytes
        moved += partition.size_bytes * len({*replicas} - {*partition.replicas})
    mean = sum(loads.values()) / len(loads)
    deviation = math.sqrt(sum((load - mean) ** 2 for load in loads.values()) / len(loads))
    return max(loads.values()) / mean, deviation / mean, moved


def broken_rules(partitions, brokers, moves):
    """What a plan does that it must not: replicas lost or doubled, fewer racks, more on a disk than it has room for."""
    racks = {broker.broker_id: broker.rack for broker in brokers}
    room = {broker.broker_id: broker.free_bytes for broker in brokers}
    broken = set()
    for partition in partitions:
        replicas = moves.get((partition.topic, partition.partition), partition.replicas)
        if not len(partition.replicas) == len(replicas) == len({*replicas}):
            broken.add("replicas")
        if len({racks[one] for one in replicas}) < len({racks[one] for one in partition.replicas}):
            broken.add("racks")
        for broker_id in {*replicas} - {*partition.replicas}:
            room[broker_id] -= partition.size_bytes
    return broken | ({"disks"} if min(room.values()) < 0 else set())


def compare(recorded):
    """Rows: seed, weights, brokers, partitions, and (peak, variation, bytes, rules broken) now, by kafka-utils and by ours."""
    for seed in SEEDS:
        partitions, brokers = draw_state(seed)
        for weights, plan in recorded[str(seed)].items():
            peer_moves = {(topic, number): replicas for topic, number, replicas in plan}
            peer = measure(partitions, brokers, peer_moves)
            made = plan_replicas(partitions, brokers, target_ratio=EVEN, max_moved_bytes=peer[2])
            moves = {(move.topic, move.partition): move.new_replicas for move in made.moves}
            yield {
                "seed": seed,
                "weights": weights,
                "size": f"{len(brokers)}, {len(partitions)}",
                "now": measure(partitions, brokers, {}),
                "peer": (*peer, broken_rules(partitions, brokers, peer_moves)),
                "ours": (*measure(partitions, brokers, moves), broken_rules(partitions, brokers, moves)),
            }


def is_no_worse(row):
    """Whether neither peak nor variation is higher, no more is copied, and no rule is broken."""
    peer, ours = row["peer"], row["ours"]
    return all(ours[n] <= peer[n] + NO_WORSE for n in (0, 1)) and ours[2] <= peer[2] and not ours[3]


def format_table(rows):
    """A table for a paper, and how many of the ten hold."""
    lines = [
        "| state: brokers, partitions | kafka-utils' weights | peak now | kafka-utils | ours | variation now | kafka-utils | ours"
        " | GB copied: kafka-utils | ours | rules broken: kafka-utils | ours | ours is |",
        "|---" * 13 + "|",
    ]
    for row in rows:
        now, peer, ours = row["now"], row["peer"], row["ours"]
        cells = [f"{row['seed']}: {row['size']}", row["weights"]]
        cells += [f"{each[n]:.3f}" for n in (0, 1) for each in (now, peer, ours)]
        cells += [f"{each[2] / 1e9:.1f}" for each in (peer, ours)]
        cells += [", ".join(sorted(each[3])) or "none" for each in (peer, ours)]
        lines.append(f"| {' | '.join(cells)} | {'no worse' if is_no_worse(row) else '**WORSE**'} |")
    held = {name: sum(is_no_worse(row) for row in rows if row["weights"] == name) for name in WEIGHTS}
    counts = ", ".join(f"{count} of {len(SEEDS)} with {name} weights" for name, count in held.items())
    return "\n".join([*lines, "", f"No worse at no more bytes: {counts}."])


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--peer", metavar="PYTHON", help="interpreter with kafka-utils 4.1.0, to record its plans anew")
    parser.add_argument("--write", type=Path, metavar="FILE", help="paper to write the table into")
    args = parser.parse_args()
    if args.peer:
        RECORDED.write_text(json.dumps(ask_kafka_utils(args.peer), separators=(",", ":")) + "\n")
    rows = list(compare(json.loads(RECORDED.read_text())))
    print(json.dumps([{**row, "peer": row["peer"][:3], "ours": row["ours"][:3]} for row in rows]) if args.json else "")
    text = format_table(rows)
    print(text)
    if args.write:
        write_between(args.write, "plans", text)


if __name__ == "__main__":
    main()

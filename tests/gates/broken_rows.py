"""Defects that take more than another value in a row: keys, a rising error, simulated runs that lose records."""

import dataclasses
from collections import Counter

from pipeline.model.promise import Trust
from pipeline.replay.back_tests import TRUSTS
from pipeline.replay.comparison import comparison_row
from pipeline.replay.rows import broker_rows, partition_rows
from pipeline.replay.simulated.runs import CELL_RECORDS
from pipeline.replay.simulated.topics import SimulatedTopic
from tests.gates.warehouse import rewrite
from tests.unit.replay.test_simulated_rows import outcome_of, record, simulate


def in_use(row):
    return row["topic"] == "orders" and row["is_baseline"]


def other_partition(run, _=None):
    """The hottest key is said to lie on a partition that holds less of it."""

    def change(rows):
        row = next(
            row for row in rows if row["topic"] == "clicks" and row["kind"] == "key" and row["key_id"] == heaviest(rows)
        )
        return [*rows, row | {"partition": (row["partition"] + 1) % 12, "size_bytes": 10 * row["size_bytes"]}]

    rewrite(run, "silver.key_traffic", change)


def heaviest(rows):
    sizes = Counter()
    for row in rows:
        if row["topic"] == "clicks" and row["kind"] == "key":
            sizes[row["key_id"]] += row["size_bytes"]
    return sizes.most_common(1)[0][0]


def swap_sizes(run, _=None):
    """Two keys of a partition have each other's bytes: all sums are as they were."""

    def change(rows):
        keys = sorted((row for row in rows if row["kind"] == "key"), key=lambda row: row["size_bytes"])
        counts = Counter((row["window_start"], row["topic"], row["partition"]) for row in keys)
        most = max(counts, key=lambda place: (counts[place], place))  # whose smallest keys are no hot ones
        first, *others = (row for row in keys if (row["window_start"], row["topic"], row["partition"]) == most)
        other = next(row for row in others if row["size_bytes"] != first["size_bytes"])
        first["size_bytes"], other["size_bytes"] = other["size_bytes"], first["size_bytes"]
        return rows

    rewrite(run, "silver.key_traffic", change)


def rising_error(run, own):
    """The three windows before were predicted well."""

    def change(rows):
        *before, now = sorted((row for row in rows if row["topic"] == "orders"), key=lambda row: row["window_start"])
        for row in before:
            row |= {"share_error_points": 0.1}
        now |= {"share_error_points": 1.4, "share_bar_points": 1.5}
        return rows

    rewrite(run, own, change)


def lossy(kept, lost_count, *, ending=0):
    """Simulated runs that bring part of their records nowhere, through the code that makes the tables' rows.

    `kept`: part of the records that partitions hold; `lost_count`: what the runs say they lost; `ending`: records that
    are neither acknowledged nor lost.
    """

    def plant(run, own):
        runs = simulate(seeds=(1, 2))
        recorded = record(runs[1])
        for seed, one in runs.items():
            cells = one.cells.copy()
            cells[:, CELL_RECORDS] = cells[:, CELL_RECORDS] * kept
            runs[seed] = dataclasses.replace(
                one, cells=cells, refused_count=lost_count, done_count=one.done_count - lost_count - ending
            )
        topic, outcome = outcome_of(SimulatedTopic(recorded, runs))
        columns = comparison_row(topic, outcome, dict.fromkeys(TRUSTS, Trust.TRUSTED) | {"share_error_points": None})
        named = {"topic": "orders", "candidate": "in-use"}

        def change_comparison(rows):
            row = next(row for row in rows if in_use(row))
            named.update({name: row[name] for name in ("topic_id", "window_start")})
            row |= {name: value for name, value in columns.items() if name in row} | {"seed_count": row["seed_count"]}
            return rows

        def put(fresh):
            def change(rows):
                kept_rows = [row for row in rows if not in_use(row)]
                head = {"cluster": run.cluster_name, "is_baseline": True, "run_id": run.run_id, **named}
                return [*kept_rows, *({**head, **row} for row in fresh)]

            return change

        rewrite(run, own, change_comparison)
        rewrite(run, "gold.replay_results", put(list(partition_rows(topic, outcome))))
        rewrite(run, "gold.replay_brokers", put(list(broker_rows(topic, outcome))))
        whole = int(recorded.records.sum())

        def sum_up(rows):
            counts = (
                {"record_count": whole * (row["partition"] == 0)} if row["topic"] == "orders" else {} for row in rows
            )
            return [row | count for row, count in zip(rows, counts, strict=True)]

        rewrite(run, "silver.partition_traffic", sum_up)

    return plant

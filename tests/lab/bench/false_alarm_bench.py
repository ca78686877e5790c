"""False alarms, misses and abstentions: our rule beside those of others, on the same windows of clusters drawn from a wide law.

The truth is what a broker carries in the long run, given the keys and their places (`simulated_windows.Cluster.ratio`). An
alarm is false where that is below the rule's own limit (1.20; 1.09 for Cruise Control; 1.20 for rules that limit no broker).
The others' rules as they stand in their code: Cruise Control's band of 1.09 over the mean by capacity, AutoMQ's of 1.20,
which looks at no broker below 1 MiB/s, klag's mean + 2 SD over a topic's partitions, and a CV of 0.2 as the bound of "good".
CV names no
broker: it accuses all, or where some are over the limit in truth, those. A window of theirs is an alarm; ours is one where the broker is above (one window), or fails (3 of 4, what mails). Our gate has
its defaults, without the floor of 1 KiB/s, so that windows of little traffic count too.

References:
    linkedin/cruise-control `ResourceDistributionGoal`, AutoMQ `AutoBalancer`, themoah/klag, j3-signalroom's key analyzer.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.config.rules import Gate
from pipeline.verdicts.broker_share import judge_broker_share
from tests.lab.bench.figures import write_between
from tests.lab.bench.simulated_windows import HOUR_MS, MEGABYTE, draw_cluster, draw_series, measure

LIMITS = Gate(floor_bytes_per_s=0)
ONE_WINDOW, OF_FOUR = "ours, one window", "ours, 3 of 4 (default)"
CRUISE_CONTROL, AUTOMQ, AUTOMQ_ALL = "Cruise Control, 1.09", "AutoMQ, 1.20", "AutoMQ, 1.20, no floor"
KLAG, CV = "klag, mean + 2 SD", "CV of partitions, 0.2"
RULE_LIMITS = {ONE_WINDOW: 1.2, OF_FOUR: 1.2, CRUISE_CONTROL: 1.09, AUTOMQ: 1.2, AUTOMQ_ALL: 1.2, KLAG: 1.2, CV: 1.2}
AUTOMQ_FLOOR = 1024**2 * HOUR_MS / 1000
HISTORY, JUDGED, MONTH_HOURS = 3, 8, 720
MUCH_BYTES = 100 * MEGABYTE
ENOUGH_SCATTER = 0.05
"""Chance moves a broker's ratio by no more than this from window to window: 1.3 stands two deviations over the limit."""
SAME = 1e-9
"""Ten partitions of fifty over twelve brokers are 1.2 to the last bit but one."""
SEED = 20_261_125


@dataclass(frozen=True, eq=False)
class JudgedWindow:
    """Of every broker: the long-run ratio at this hour, and by rule whether it abstains and whether it accuses."""

    truth: np.ndarray
    is_abstained: dict[str, np.ndarray]
    is_accused: dict[str, np.ndarray]
    verdicts: list


def judge_series(cluster, window_count, rng, first_hour=0):
    """Every window of one series, by all rules."""
    loads, windows = [], list(draw_series(cluster, window_count, rng, first_hour))
    for number, window in enumerate(windows):
        loads += measure(cluster, window, number * HOUR_MS)
    verdicts = judge_broker_share(loads, LIMITS, window_ms=HOUR_MS)
    brokers = len(cluster.capacities)
    return [
        _compare_rules(
            cluster, window, verdicts[number * brokers : (number + 1) * brokers], cluster.ratio(first_hour + number)
        )
        for number, window in enumerate(windows)
    ]


def _compare_rules(cluster, window, verdicts, truth):
    brokers = len(cluster.capacities)
    sizes = [size.sum(axis=0) for size in window.size_bytes]
    carried = sum(np.bincount(topic.leaders, size, brokers) for topic, size in zip(cluster.topics, sizes, strict=True))
    total = max(carried.sum(), 1e-9)
    by_capacity, by_count = carried / total / cluster.fair, carried / total * brokers
    is_small = carried < AUTOMQ_FLOOR
    hot, is_uneven = np.zeros(brokers, bool), False
    for topic, size in zip(cluster.topics, sizes, strict=True):
        hot[topic.leaders[size > size.mean() + 2 * size.std()]] = True
        is_uneven |= bool(size.std() >= 0.2 * size.mean() > 0)
    abstains, never = np.array([v.verdict == "not_enough_traffic" for v in verdicts]), np.zeros(brokers, bool)
    return JudgedWindow(
        truth=truth,
        is_abstained={**dict.fromkeys(RULE_LIMITS, never), ONE_WINDOW: abstains, OF_FOUR: abstains, AUTOMQ: is_small},
        is_accused={
            ONE_WINDOW: np.array([v.is_above for v in verdicts]),
            OF_FOUR: np.array([v.verdict == "fail" for v in verdicts]),
            CRUISE_CONTROL: by_capacity > 1.09,
            AUTOMQ: (by_count > 1.20) & ~is_small,
            AUTOMQ_ALL: by_count > 1.20,
            KLAG: hot,
            CV: is_uneven & ((truth >= RULE_LIMITS[CV]) | (truth < RULE_LIMITS[CV]).all()),
        },
        verdicts=verdicts,
    )


@dataclass
class Tally:
    """Of one rule: broker-windows, those it abstains in, those judged with a truth below its limit, false alarms there.

    Then false alarms where the truth is not even halfway to the limit, windows with a false alarm, and of the series over
    100 MB an hour all and those in most of whose broker-windows it abstains.
    """

    broker_windows: int = 0
    abstained: int = 0
    below: int = 0
    false: int = 0
    false_below_halfway: int = 0
    alarmed_windows: int = 0
    series: int = 0
    abstained_series: int = 0

    def add(self, rule, windows, is_much):
        """Counts a series in."""
        limit, abstained = RULE_LIMITS[rule], 0
        for window in windows:
            abstains, is_below = window.is_abstained[rule], window.truth < limit - SAME
            is_false = window.is_accused[rule] & is_below
            abstained += int(abstains.sum())
            self.broker_windows += len(abstains)
            self.below += int((~abstains & is_below).sum())
            self.false += int(is_false.sum())
            self.false_below_halfway += int((is_false & (window.truth < 1 + (limit - 1) / 2)).sum())
            self.alarmed_windows += bool(is_false.any())
        self.abstained += abstained
        self.series += is_much
        self.abstained_series += is_much and 2 * abstained > sum(len(window.truth) for window in windows)


def count_false_alarms(series, rng):
    """Tallies by rule over clusters as drawn; ratios in truth of the brokers that our default accuses falsely."""
    tallies, accused = {rule: Tally() for rule in RULE_LIMITS}, []
    for _ in range(series):
        cluster, hour = draw_cluster(rng), int(rng.integers(24))
        windows = judge_series(cluster, HISTORY + JUDGED, rng, hour)[HISTORY:]
        for rule, tally in tallies.items():
            tally.add(rule, windows, cluster.bytes_per_hour > MUCH_BYTES)
        for window in windows:
            accused += window.truth[window.is_accused[OF_FOUR] & (window.truth < LIMITS.limit_ratio - SAME)].tolist()
    return tallies, accused


@dataclass
class Found:
    """Planted series, those in which chance is small, and by rule how many were found in time, of those and of all."""

    series: int
    enough: int
    counts: dict[str, list[int]]

    def parts(self, rule):
        """Found, where traffic suffices and of all."""
        return self.counts[rule][0] / max(1, self.enough), self.counts[rule][1] / max(1, self.series)


def count_found(clusters, window_count, rng):
    """Series of so many windows, of clusters in which broker 0 is planted."""
    found = Found(0, 0, {rule: [0, 0] for rule in RULE_LIMITS})
    for cluster in clusters:
        hour = int(rng.integers(24))
        is_enough = all(cluster.scatter(hour + later)[0] <= ENOUGH_SCATTER for later in range(window_count))
        found.series, found.enough = found.series + 1, found.enough + is_enough
        windows = judge_series(cluster, window_count, rng, hour)
        for rule, counts in found.counts.items():
            is_found = any(window.is_accused[rule][0] for window in windows)
            counts[0] += is_enough and is_found
            counts[1] += is_found
    return found


def count_incidents(clusters, rng):
    """Months of hours on clusters as drawn: incidents of brokers below the limit in truth, and clusters with one."""
    incidents = affected = 0
    for _ in range(clusters):
        windows = judge_series(draw_cluster(rng), MONTH_HOURS, rng)
        is_false = np.array([w.is_accused[OF_FOUR] & (w.truth < LIMITS.limit_ratio - SAME) for w in windows])
        begun = int(is_false[0].sum() + (is_false[1:] & ~is_false[:-1]).sum())
        incidents, affected = incidents + begun, affected + (begun > 0)
    return incidents, affected


def make_table(arguments):
    """The table and what belongs to it, as Markdown."""
    rng = np.random.Generator(np.random.Philox(arguments.seed))
    tallies, accused = count_false_alarms(arguments.series, rng)
    planted = [
        count_found((draw_cluster(rng).planted(ratio) for _ in range(arguments.planted)), windows, rng)
        for ratio, windows in ((1.3, 4), (1.5, 3))
    ]
    incidents, affected = count_incidents(arguments.clusters, rng)
    ours, window_count = tallies[OF_FOUR], arguments.series * JUDGED
    lines = [
        f"{arguments.series:,} clusters of seed {arguments.seed}, {window_count:,} windows, {ours.broker_windows:,} "
        f"broker-windows; {arguments.planted:,} series with a broker planted at 1.3 times its share, "
        f"{planted[0].enough:,} of them with traffic that suffices, and {arguments.planted:,} at 1.5 ({planted[1].enough:,}).",
        "",
        "| rule | abstains, of broker-windows | of series over 100 MB/h | false alarms per 1,000 judged | of those, truth not "
        "halfway to the limit | windows with one | 1.3x found within 4, traffic suffices | of all | 1.5x within 3 | of all |",
        "|" + "---|" * 10,
        "| *goal of our default* | | *< 10 %* | *≤ 0.20* | | | *≥ 99 %* | | | |",
    ]
    for rule, tally in tallies.items():
        judged = max(1, tally.below)
        cells = (
            f"{tally.abstained / tally.broker_windows:.1%}",
            f"{tally.abstained_series / max(1, tally.series):.1%}",
            f"{1000 * tally.false / judged:.2f}",
            f"{1000 * tally.false_below_halfway / judged:.2f}",
            f"{tally.alarmed_windows / window_count:.1%}",
            *(f"{part:.1%}" for found in planted for part in found.parts(rule)),
        )
        lines.append(f"| {rule} | {' | '.join(cells)} |")
    ratios = f", whose share in truth is {min(accused):.3f} to {max(accused):.3f} times the fair one" if accused else ""
    lines += [
        "",
        f"Our default accuses falsely in {len(accused)} broker-windows{ratios}. A month of hourly windows on each of "
        f"{arguments.clusters} more clusters: {incidents} false incidents, on {affected} of the clusters.",
    ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=2000)
    parser.add_argument("--planted", type=int, default=1000, help="series with a planted broker, of each ratio")
    parser.add_argument("--clusters", type=int, default=24, help="months")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table between the markers of FILE")
    arguments = parser.parse_args()
    text = make_table(arguments)
    print(text)
    if arguments.write:
        write_between(arguments.write, "false_alarm", text)


if __name__ == "__main__":
    main()

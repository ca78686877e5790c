"""False alarms on balanced traffic and misses of planted brokers: our rule beside those of others, on the same windows.

The others' rules as they stand in their code: Cruise Control's band of 1.09 over the mean, AutoMQ's of 1.20 (without its
floor of 1 MiB/s, below which it looks at nothing), klag's mean + 2 SD over a topic's partitions, and a CV of 0.2 as the
bound of "good". A window of theirs is an alarm; ours is one where the broker is above (one window), or fails (3 of 4).
Floors are off. Keys whose luck takes a broker to the limit are in none of these: they are counted by themselves.

References:
    linkedin/cruise-control `ResourceDistributionGoal`, AutoMQ `AutoBalancer`, themoah/klag, j3-signalroom's key analyzer.
"""

from __future__ import annotations

import time
from collections import defaultdict

import numpy as np

from pipeline.config.rules import Gate
from pipeline.measures.chance import required_units_of_share
from pipeline.verdicts.broker_share import judge_broker_share
from tests.bench.simulated_windows import HOUR_MS, PLACEMENTS, Traffic, draw_series, measure

LIMITS = Gate(limit_ratio=1.2, floor_bytes_per_s=0, chance_level=0.001, k=3, n=4, hash_luck="warn")
BROKERS = (3, 6, 12, 30)
PARTITIONS = (3, 12, 48, 100, 200)
VOLUMES = (10**3, 10**4, 10**5, 10**6, 10**7, 10**8)
SERIES, MONTH = 8, 720
RULES = ("ours, one window", "ours, 3 of 4", "Cruise Control 1.09", "AutoMQ 1.20", "klag mean + 2 SD", "CV 0.2")
LUCKY = "ours: told as hash luck"
SEED = 20_261_121


def settings(planted=1.0):
    """Every number of brokers, the numbers of partitions it divides, every volume and placement."""
    for brokers in BROKERS:
        for partitions in sorted({max(brokers, count // brokers * brokers) for count in PARTITIONS}):
            for volume in VOLUMES:
                for placement in PLACEMENTS:
                    traffic = Traffic(
                        partition_count=partitions,
                        broker_count=brokers,
                        record_count=volume,
                        placement=placement,
                        planted=planted,
                    )
                    if traffic.key_count <= volume:
                        yield traffic


def judge_series(traffic, window_count, rng):
    """Per window: verdict by broker, loads by partition."""
    windows, loads = [], []
    for number, window in enumerate(draw_series(traffic, window_count, rng)):
        windows.append(window.size_bytes.sum(axis=0))
        loads += measure(traffic, window, number * HOUR_MS)
    verdicts = judge_broker_share(loads, LIMITS, window_ms=HOUR_MS)
    by_window = np.array(verdicts, dtype=object).reshape(window_count, traffic.broker_count)
    return list(zip(by_window, windows, strict=True))


def flags(traffic, verdicts, partitions):
    """Brokers that each rule accuses in a window, as booleans by broker; of CV all brokers, since it names none."""
    leaders, brokers = traffic.leaders, traffic.broker_count
    ratios = np.bincount(leaders, partitions) / max(partitions.sum(), 1e-9) * brokers
    mean, deviation = partitions.mean(), partitions.std()
    hot = partitions > mean + 2 * deviation
    return {
        "ours, one window": np.array([v.is_above for v in verdicts]),
        "ours, 3 of 4": np.array([v.verdict == "fail" for v in verdicts]),
        "Cruise Control 1.09": ratios > 1.09,
        "AutoMQ 1.20": ratios > 1.20,
        "klag mean + 2 SD": np.bincount(leaders[hot], minlength=brokers) > 0,
        "CV 0.2": np.full(brokers, deviation >= 0.2 * mean),
        LUCKY: np.array([v.verdict == "warn" and not v.is_above for v in verdicts]),
    }


def count_false_alarms(rng):
    """Broker-windows and accused ones by rule, over all settings; our accused ones by setting."""
    brokers, windows = 0, 0
    accused, alarmed, where = defaultdict(int), defaultdict(int), defaultdict(int)
    judged = 0
    for traffic in settings():
        for verdicts, partitions in judge_series(traffic, SERIES, rng):
            brokers, windows = brokers + traffic.broker_count, windows + 1
            judged += sum(v.verdict != "not_enough_traffic" for v in verdicts)
            for rule, found in flags(traffic, verdicts, partitions).items():
                accused[rule] += int(found.sum())
                alarmed[rule] += bool(found.any())
                if rule == RULES[0] and found.any():
                    where[traffic] += int(found.sum())
    return brokers, judged, windows, accused, alarmed, where


def count_month(rng):
    """A month of hours on six brokers, by placement and volume: windows, broker-windows above, failures."""
    windows = above = failed = 0
    for placement in PLACEMENTS:
        for volume in VOLUMES:
            traffic = Traffic(partition_count=48, broker_count=6, record_count=volume, placement=placement)
            if traffic.key_count > volume:
                continue
            for verdicts, _ in judge_series(traffic, MONTH, rng):
                windows += 1
                above += sum(v.is_above for v in verdicts)
                failed += sum(v.verdict == "fail" for v in verdicts)
    return windows, above, failed


def can_be_told_from_luck(traffic):
    """Keys enough: with fewer, hashing alone gives some broker 1.2 of its share, and the verdict says so."""
    keys, records, brokers = traffic.key_count, traffic.record_count, traffic.broker_count
    required = required_units_of_share(1 / brokers, LIMITS.limit_ratio - 1, LIMITS.chance_level, brokers)
    return not keys or keys * records / (keys + records) >= required


def count_found(traffics, series, rng):
    """Series that have traffic and keys enough to judge, and in how many each rule found the planted broker by then."""
    enough, found_at = 0, {rule: np.zeros(4, np.int64) for rule in RULES}
    for traffic in traffics:
        for _ in range(series if can_be_told_from_luck(traffic) else 0):
            windows = judge_series(traffic, 4, rng)
            if any(v[0].verdict == "not_enough_traffic" for v, _ in windows):
                continue
            enough += 1
            seen = dict.fromkeys(RULES, False)
            for number, (verdicts, partitions) in enumerate(windows):
                for rule, found in flags(traffic, verdicts, partitions).items():
                    if rule in seen:
                        seen[rule] |= bool(found[0])
                        found_at[rule][number] += seen[rule]
    return enough, found_at


def measure_all(detection_series=2):
    rng = np.random.Generator(np.random.Philox(SEED))
    yield "balanced", count_false_alarms(rng)
    yield "month", count_month(rng)
    for planted in (1.3, 1.5):
        yield planted, count_found(settings(planted), detection_series, rng)


def main():
    started = time.perf_counter()
    results = dict(measure_all())
    brokers, judged, windows, accused, alarmed, where = results["balanced"]
    print(
        f"balanced traffic: {brokers:,} broker-windows in {windows:,} windows, {judged / brokers:.0%} with enough to judge"
    )
    (enough_13, found_13), (enough_15, found_15) = results[1.3], results[1.5]
    print(
        "| rule | false alarms per 1,000 broker-windows | windows with one | missed 1.3x after 4 | missed 1.5x after 3 |"
    )
    print("|---|---|---|---|---|")
    for rule in RULES:
        missed = [1 - found_13[rule][3] / enough_13, 1 - found_15[rule][2] / enough_15]
        print(
            f"| {rule} | {1000 * accused[rule] / brokers:.2f} | {alarmed[rule] / windows:.1%} | "
            + " | ".join(f"{part:.2%}" for part in missed)
            + " |"
        )
    print(
        f"keys whose luck takes a broker to 1.20, told so and no failure: {1000 * accused[LUCKY] / brokers:.2f} per 1,000 broker-windows"
    )
    for traffic, count in sorted(where.items(), key=lambda entry: -entry[1])[:5]:
        print(f"  ours above: {count} in {traffic}")
    month, above, failed = results["month"]
    print(
        f"six brokers, {month:,} hourly windows (a month for each placement and volume): {above} above, {failed} failures"
    )
    print(
        f"planted: {enough_13:,} series of 1.3x and {enough_15:,} of 1.5x with enough traffic; {time.perf_counter() - started:.0f} s"
    )


if __name__ == "__main__":
    main()

"""Forecasts on recorded and on drawn hours: errors beside those of libraries' models, ranges, and whether warnings come true.

`--data FOLDER` holds recorded hours as CSV files (`timestamp,value`): `data` of the Numenta Anomaly Benchmark (MIT licence), of which ten
streams of mentions, one of taxi rides and one of processors are long enough. They are no Kafka traffic; shares are made of the ten
streams, dealt to three brokers in parts. Drawn clusters have topics with daily cycles, quieter weekends and weekly bursts, or,
beside them, the same noise and as many bursts at hours without a law. Every origin is forecast from 28 days before it and compared with the seven days after.
"""

import csv
import json
import subprocess
import time
from datetime import datetime
from pathlib import Path

import numpy as np

from pipeline.measures.forecast import forecast_days
from tests.lab.bench.figures import make_parser, write_between

DAY, WEEK, HISTORY, BETWEEN = 24, 168, 672, 79  # hours; origins lie 79 hours apart, so that each hour of the week comes
LIMIT, SEED, CLUSTERS = 1.2, 20_261_123, 60
FILES = ("realTweets/*.csv", "realKnownCause/nyc_taxi.csv", "realKnownCause/cpu_utilization_asg_misconfiguration.csv")
OURS = "ours"


def read_hours(path):
    """Mean value by hour, and the first hour."""
    found = {}
    with path.open() as file:
        for row in csv.DictReader(file):
            hour = int(datetime.fromisoformat(f"{row['timestamp']}+00:00").timestamp()) // 3600
            found.setdefault(hour, []).append(float(row["value"]))
    hours = range(min(found) + 1, max(found))  # the first and the last are cut
    return hours[0], np.array([np.mean(found[hour]) if hour in found else np.nan for hour in hours])


def read_recorded(folder):
    """Series by kind: volumes as recorded, and shares of brokers that lead parts of ten of them."""
    read = {path.stem: read_hours(path) for pattern in FILES for path in sorted(folder.glob(pattern))}
    streams = [read[name] for name in read if name.startswith("Twitter")]
    first = max(start for start, _ in streams)
    count = min(start + len(values) for start, values in streams) - first
    volumes = np.stack([values[first - start : first - start + count] for start, values in streams], axis=1)
    rng, shares = np.random.default_rng(SEED), []
    for _ in range(3):
        parts = rng.multinomial(6, [1 / 3] * 3, size=len(streams)) / 6
        total = np.where(volumes.sum(axis=1) > 0, volumes.sum(axis=1), np.nan)
        shares += list((volumes @ parts / total[:, None] * 3).T)
    return {"volumes": [values[:1_500] for _, values in read.values()], "shares": shares}


def draw_cluster(rng, *, has_cycles):
    """Share ratios by hour and broker, of four weeks and one more."""
    hours, brokers, topics = np.arange(HISTORY + WEEK), int(rng.integers(3, 7)), 12
    carried = np.zeros((len(hours), brokers))
    for _ in range(topics):
        noise = np.zeros(len(hours))
        for hour in hours[1:]:
            noise[hour] = 0.7 * noise[hour - 1] + rng.normal()
        rate = rng.lognormal(0, 1) * np.exp(rng.uniform(0.05, 0.3) * 0.7 * noise)
        is_burst = rng.random(len(hours)) < 1 / WEEK
        if has_cycles:
            rate *= 1 + rng.uniform(0.2, 0.8) * np.cos(2 * np.pi * (hours - rng.integers(DAY)) / DAY)
            rate *= np.where(hours % WEEK >= 5 * DAY, rng.uniform(0.3, 1), 1)
            is_burst = hours % WEEK == rng.integers(WEEK)
        rate *= np.where(is_burst & (rng.random() < 0.3), rng.uniform(2, 6), 1)
        carried += rate[:, None] * rng.dirichlet([3] * brokers)
    return carried / carried.mean(axis=1, keepdims=True)


def forecast(history, *, is_volume=False):
    """Our 168 hours, low and high ends, whether each is trusted, and the processor time."""
    started = time.process_time()
    days = forecast_days(np.log1p(history)[:, None] if is_volume else history[:, None], DAY)
    ends = [np.concatenate([getattr(day, name)[:, 0] for day in days]) for name in ("value", "low", "high")]
    values = [np.expm1(end) for end in ends] if is_volume else ends
    return *values, np.repeat([bool(day.is_trusted[0]) for day in days], DAY), time.process_time() - started


def compare(series, kind, peer):
    """Errors over the mean by model (a day, seven days), processor seconds, and the part inside our ranges."""
    asked = []
    for values in series:
        filled = np.where(np.isnan(values), np.nanmean(values), values)
        asked += [
            (filled[at - HISTORY : at], filled[at : at + WEEK], filled.mean())
            for at in range(HISTORY, len(filled) - WEEK, BETWEEN)
        ]
    ours = [forecast(history, is_volume=kind == "volumes") for history, *_ in asked]
    inside = np.array(
        [(low <= after) & (after <= high) for (_, low, high, *_), (_, after, _) in zip(ours, asked, strict=True)]
    )
    models = {OURS: [(value, seconds) for value, *_, seconds in ours]}
    models["mean of a week"] = [(np.full(WEEK, history[-WEEK:].mean()), 0.0) for history, *_ in asked]
    if peer:
        given = json.dumps([history.tolist() for history, *_ in asked])
        script = Path(__file__).with_name("forecast_peers.py")
        done = subprocess.run([peer, script], input=given, capture_output=True, text=True, check=True)
        models |= json.loads(done.stdout)
    errors = {}
    for name, found in models.items():
        off = np.array(
            [np.abs(np.array(v) - after) / mean for (v, _), (_, after, mean) in zip(found, asked, strict=True)]
        )
        errors[name] = (off[:, :DAY].mean(), off.mean(), np.mean([seconds for _, seconds in found]))
    return len(asked), errors, (inside[:, :DAY].mean(), inside[:, DAY:].mean())


def count_warnings(*, has_cycles):
    """Of drawn clusters: brokers, those warned of and whether it came true, and hours over the limit in the week after."""
    rng, counts = np.random.default_rng([SEED, has_cycles]), np.zeros(5)
    for _ in range(CLUSTERS):
        for ratios in draw_cluster(rng, has_cycles=has_cycles).T:
            _, low, _, is_trusted, _ = forecast(ratios[:HISTORY])
            after = ratios[HISTORY:]
            sure = np.where(is_trusted, low, 0)
            at = int(sure.argmax())
            is_warned = sure[at] >= LIMIT
            is_above = (after >= LIMIT).any()
            counts += (1, is_warned, is_warned and after[at] >= LIMIT, is_above, is_warned and is_above)
    return counts.astype(int).tolist()


def format_paper(recorded):
    """The tables."""
    lines = []
    if recorded:
        (volumes, of_volumes, _), (shares, of_shares, _) = recorded["volumes"], recorded["shares"]
        lines += [
            f"| model | volumes, a day ahead ({volumes} origins) | volumes, seven days | shares, a day ({shares} origins) "
            "| shares, seven days | processor ms |",
            "|---|---|---|---|---|---|",
        ]
        for name, (day, week, seconds) in of_volumes.items():
            other = of_shares[name]
            lines.append(
                f"| {name} | {day:.3f} | {week:.3f} | {other[0]:.3f} | {other[1]:.3f} | {1000 * seconds:.1f} |"
            )
        inside = " and ".join(
            f"{day:.1%} of hours a day ahead and {week:.1%} of later ones ({kind})"
            for kind, (_, _, (day, week)) in recorded.items()
        )
        lines += ["", f"Inside the range, which should be 90 %: {inside}.", ""]
    lines += [
        "| drawn clusters | brokers | warned of | over the limit at the hour named | over it in the week after | of those warned of |",
        "|---|---|---|---|---|---|",
    ]
    for name, has_cycles in (("daily cycles, weekly bursts", True), ("noise, bursts without a law", False)):
        brokers, warned, true, above, found = count_warnings(has_cycles=has_cycles)
        lines.append(f"| {name} | {brokers} | {warned} | {true} | {above} | {found} |")
    return "\n".join(lines) + "\n"


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, help="folder of recorded hours; without it drawn ones alone")
    parser.add_argument("--peer", metavar="PYTHON", help="an interpreter that has statsforecast 2.1.1")
    parser.add_argument("--write", type=Path, metavar="FILE", help="writes the tables into a paper")
    options = parser.parse_args()
    series = read_recorded(options.data) if options.data else {}
    text = format_paper({kind: compare(found, kind, options.peer) for kind, found in series.items()})
    print(text)
    if options.write:
        write_between(options.write, "forecast", text)

"""What benchmarks share: their options, rounds cold and warm, and how figures are printed beside their bars."""

import argparse
import json
import sys
import time

BARS = {
    "headers one-record": {"marginal_wall_ratio": 20.0, "whole_wall_ratio": 5.0},
    "headers 16-KiB": {"marginal_wall_ratio": 6.0, "whole_wall_ratio": 5.0},
    "deep 16-KiB": {"marginal_wall_ratio": 20.0},
    "kernel": {"million_records_per_s": 30.0},
    "deep": {"ratio": -1.5},
    "place": {"ratio": 1.5},
    "keyed ingest": {"whole_ingest_million_records_per_s": 4.0, "whole_ingest_ratio": 10.0},
    "keyed replay": {"first_s": -15.0},
    "replay of synthetic arrivals": {"seconds": -240.0, "peak_memory_mib": -4096.0},
    "replay of a synthetic log": {"seconds_per_gibibyte": -90.0},
    "page of 10,000 partitions": {"wanted_next_million_samples_per_s": 1.0, "wanted_first_s": -2.0},
    "live read": {"live_read_million_records_per_s": 1.0, "ratio": 3.0, "eager_ratio": 3.0, "admin_pass_s": -10.0},
    "kip-794": {"million_records_per_s": 10.0, "wall_s": -6.0},
    "100 on 30": {"slower_than_3_on_3": -2.0},
    "health": {"total_s": -60.0},
}
"""By how a line's name begins, the longest that fits: at least so much, or where negative at most."""


def find_bars(name):
    """The bars of a line, by figure.

    >>> find_bars("deep lz4"), find_bars("deep 16-KiB")["marginal_wall_ratio"], find_bars("nothing")
    ({'ratio': -1.5}, 20.0, {})
    """
    return BARS[max(fitting, key=len)] if (fitting := [begin for begin in BARS if name.startswith(begin)]) else {}


def format_figure(name, figure, value):
    """A figure, and what it should be.

    >>> format_figure("keyed replay, synthetic rows", "first_s", 14.4)
    'first_s 14.4 (bar <= 15: met)'
    >>> format_figure("headers 16-KiB", "marginal_wall_ratio", 5.2), format_figure("headers 16-KiB", "files", 10)
    ('marginal_wall_ratio 5.2 (bar >= 6: MISSED)', 'files 10')
    """
    text, bar = f"{figure} {value:.4g}", find_bars(name).get(figure)
    if bar is None:
        return text
    is_met = value >= bar if bar > 0 else value <= -bar
    return f"{text} (bar {'>=' if bar > 0 else '<='} {abs(bar):g}: {'met' if is_met else 'MISSED'})"


def make_parser(doc, *, quick=None):
    """A parser with `--json`, and with `--quick` where there is a short way."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--json", action="store_true", help="one JSON document at the end")
    if quick:
        parser.add_argument("--quick", action="store_true", help=quick)
    return parser


def print_figures(found, *, as_json):
    """Prints a line per pair of name and figures as they come; with `as_json` on stderr, and a document at the end."""
    document = {}
    for name, figures in found:
        document[name] = figures
        line = f"{name:20s} " + "  ".join(format_figure(name, *figure) for figure in figures.items())
        print(line, file=sys.stderr if as_json else sys.stdout, flush=True)
    if as_json:
        print(json.dumps(document))


def best_of(rounds, action, clock=time.perf_counter):
    """Seconds of the fastest round."""
    times = []
    for _ in range(rounds):
        started = clock()
        action()
        times.append(clock() - started)
    return min(times)


def write_between(path, argument, text, word="bench"):
    """Replaces what a word of the Makefile wrote into a paper before, between its markers."""
    begin, end = f"<!-- made by: make {word} ARGS={argument} -->\n", "<!-- end of what it made -->\n"
    before, found, rest = path.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{path}: no {begin.strip()} with its end")
    path.write_text(f"{before}{begin}{text}\n{end}{after}")

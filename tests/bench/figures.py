"""What benchmarks share: their options, the best of several rounds, and how figures are printed."""

from __future__ import annotations

import argparse
import json
import sys
import time


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
        line = f"{name:20s} " + "  ".join(f"{key} {value:.4g}" for key, value in figures.items())
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

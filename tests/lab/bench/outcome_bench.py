"""Incidents, mails and gates of the committed capture by version 022a283 and by this one: `make bench ARGS="outcome --write"`.

Both run `make run`, each in its own checkout (`build/baseline`, or what `BASELINE` names); then tables, mails and Data Docs that they
left are compared: all columns of incidents (ids too) and verdicts; of a mail its subject, recipient, each line of its first screen
and the files for Kafka's tools; of gates the result of each suite. A difference without a reason in `REASONS` ends it with 1.
`--kept` compares what is there without a run; `--write` puts the table into docs/evidence/tests.md.
"""

import argparse
import json
import re
import sys
from collections import defaultdict
from email import message_from_bytes
from email.policy import SMTP
from pathlib import Path

from deltalake import DeltaTable

from tests.lab.bench.costs_bench import BASE, ROOT, Version, find_baseline
from tests.lab.bench.figures import write_between
from tests.mail_parts import text_of
from tests.spark.capture_runs import comparable_value

PAPER = ROOT / "docs/evidence/tests.md"
KEYS = {
    "gold.incidents": ("window_start", "rule", "subject", "state"),
    "gold.verdicts": ("window_start", "rule", "subject"),
}
NOT_COMPARED = {"run_id", "judged_from"}
WIDTH = 11  # of a label on the first screen
LABEL = re.compile(r"\n(?=\S)")
BADGE = re.compile(r"<title>(PASS|WARN|FAIL) (\S+)")
REASONS = (
    (r"incidents: .*: (merged_into|moved_from|told_since): none -> None$", "columns since, all NULL here"),
    (r"mails: .*: line Why: ", "the same cause in words of people on call"),
    (r"mails: .*: line (Do first|Predicted|Basis): ", "advice about a slow broker comes before the other since"),
    (
        r"mails: .*: line Or: none -> .* orders \(then 35\.3 %, enough\)$",
        "what was advised first, with the same figure",
    ),
    (r"mails: .*: line Details: ", "the report is attached in place of details.html and details.txt"),
    (r"mails: .*: files: ", "the report is attached in place of details.html and details.txt"),
    (r"gates: \w+: none -> \{'result': 'PASS'\}$", "suites since; each passes"),
)
"""Why something differs, by a pattern of its name and both values."""


def list_rows(run, name):
    """The rows of a table by their key, ids left out."""
    rows = DeltaTable(str(run / "warehouse" / name.replace(".", "/"))).to_pyarrow_table()
    kinds = {field.name: field.type for field in rows.schema}
    found = {}
    for row in rows.to_pylist():
        plain = {column: comparable_value(value, kinds[column]) for column, value in row.items()}
        key = ", ".join(str(plain.pop(column)) for column in KEYS[name])
        found[key] = {column: value for column, value in plain.items() if column not in {"cluster", *NOT_COMPARED}}
    return found


def list_mails(run):
    """What each mail says, by its subject."""
    found = {}
    for path in sorted((run / "outbox").glob("*.eml")):
        mail = message_from_bytes(path.read_bytes(), policy=SMTP)
        head, first, screen, *_ = text_of(mail).split("\n\n")
        lines = ((line[:WIDTH].strip(), " ".join(line[WIDTH:].split())) for line in LABEL.split(screen))
        files = {part.get_filename(): part.get_content() for part in mail.iter_attachments()}
        found[mail["Subject"]] = {
            "to": mail["To"],
            "head": (head, " ".join(first.split())),
            **{f"line {label}": text for label, text in lines},
            "files": sorted(files),
            **{name: json.loads(content) for name, content in files.items() if name.endswith(".json")},
        }
    return found


def list_gates(run):
    """The result of each suite that ran."""
    pages = (run / "warehouse/reports/data-docs").rglob("*_gate.html")
    titles = (
        BADGE.search(page.read_text(encoding="utf-8")[:1_000]) for page in sorted(pages) if page.stem[:6] != "suite."
    )
    return {title[2]: {"result": title[1]} for title in titles if title}


def compare(what, before, now):
    """What differs, with both values; what only one version has differs as a whole."""
    for key in sorted(before.keys() | now.keys()):
        old, new = before.get(key), now.get(key)
        if old is None or new is None:
            yield f"{what}: {key}: {old or 'none'} -> {new or 'none'}"
            continue
        for name in (name for name in old if name in new and old[name] != new[name]):
            yield f"{what}: {key}: {name}: {old[name]} -> {new[name]}"
        for name in sorted(old.keys() ^ new.keys()):
            yield f"{what}: {key}: {name}: {old.get(name, 'none')} -> {new.get(name, 'none')}"


def find_reason(difference):
    return next((reason for pattern, reason in REASONS if re.search(pattern, difference)), "no reason is known")


def main():
    parser = argparse.ArgumentParser(prog="make bench ARGS=outcome", description=__doc__)
    parser.add_argument("--kept", action="store_true", help="compare what both left the last time")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAPER.relative_to(ROOT)}")
    arguments = parser.parse_args()
    checkouts = (find_baseline(), ROOT)
    if not arguments.kept:
        for checkout in checkouts:
            Version(checkout, Path()).make_run()
    runs = [checkout / "build/run" for checkout in checkouts]
    lists = {
        **{name: lambda run, name=name: list_rows(run, name) for name in KEYS},
        "mails": list_mails,
        "gates": list_gates,
    }
    counts, by_reason = [], defaultdict(list)
    for what, list_all in lists.items():
        before, now = (list_all(run) for run in runs)
        found = list(compare(what, before, now))
        counts.append(f"| {what} | {len(before)} | {len(now)} | {len(found)} |")
        for difference in found:
            by_reason[find_reason(difference)].append(difference)
    for reason, differences in by_reason.items():
        print(f"{reason}:", *differences, sep="\n  ")
    text = "\n".join(
        [
            f"| of the capture | {BASE} | now | differences |",
            "|---|---|---|---|",
            *counts,
            "",
            *(f"* {len(names)}: {reason}." for reason, names in by_reason.items()),
        ]
    )
    print(text)
    if arguments.write:
        write_between(PAPER, "outcome", text)
    return int("no reason is known" in by_reason)


if __name__ == "__main__":
    sys.exit(main())

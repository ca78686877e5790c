"""Five defects of a table: a wrong owner, a wrong scale, a missing part, a swapped pair and a stale window.

`five_defects.csv` has a line for each table: the column that says whose a row is, the measure that counts most, and the suite and
check that find each defect. A defect that the rows do not allow is left out. `rows_are_as_made` compares rows with what the commit
notes of them, where no other table repeats them.
"""

import csv
from pathlib import Path

with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as file:
    ROWS = {row.pop("table"): row for row in csv.DictReader(file)}
FOUND_BY = {
    table: {name: tuple(check.split(".")) for name, check in row.items() if " " in name and check}
    for table, row in ROWS.items()
}
"""Suite and check by table and defect."""


def plant(defect, table, rows):
    """Rows of a table with a defect, as a broken job would have left them.

    `rows`: of several windows, as dictionaries, which are changed.
    """
    owner, measure = ROWS[table.name]["owner"], ROWS[table.name]["measure"]
    rows = sorted(rows, key=lambda row: repr([row[name] for name in table.key]))
    starts = sorted({row["window_start"] for row in rows}) if "window_start" in table.column_names else []
    if defect == "stale window":
        stale = [row | {"window_start": starts[-1]} for row in rows if row["window_start"] == starts[-2]]
        return [row for row in rows if row["window_start"] != starts[-1]] + stale
    last = [row for row in rows if not starts or row["window_start"] == starts[-1]]
    counting = [row for row in last if row[measure]]
    if defect == "wrong owner":
        _rotate(last, owner)
    elif defect == "wrong scale":
        for row in counting:
            row[measure] *= 2
    elif defect == "missing part":
        rows.remove(counting[0])
    else:
        first, other = counting[0], next(row for row in counting if row[measure] != counting[0][measure])
        first[measure], other[measure] = other[measure], first[measure]
    return rows


def _rotate(rows, owner):
    owners = sorted({row[owner] for row in rows} - {-1})
    if len(owners) == 1:
        owners.append(f"{owners[0]}9" if isinstance(owners[0], str) else owners[0] + 1)
    for row in rows:
        if row[owner] != -1:
            row[owner] = owners[(owners.index(row[owner]) + 1) % len(owners)]

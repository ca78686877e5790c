"""A wrong owner, a wrong scale, a missing part, a swapped pair and a stale window in each table, and the check that finds it.

Oracle: `five_defects.py` plants them without the pipeline's code and names the check.
"""

import pytest

from tests.gates.five_defects import DEFECTS, FOUND_BY, plant
from tests.gates.rows import declared
from tests.gates.warehouse import list_batches, rewrite

FOUND = [(table, defect, found) for table, of in FOUND_BY.items() for defect, found in of.items() if found]


@pytest.mark.parametrize(("table", "defect", "check"), FOUND)
def test_a_defect_is_found_by_its_check(run, find_new, table, defect, check):
    rewrite(run, table, lambda rows: plant(defect, declared(table), rows))
    assert check in find_new(run, check[:1])


@pytest.mark.parametrize("defect", DEFECTS)
def test_what_no_check_finds_is_known(run, find_new, defect):
    """All at once: a check that learns to find one of them is to be named in `five_defects.py`, and the paper shortened."""
    for table, of in FOUND_BY.items():
        if defect in of and of[defect] is None:
            rewrite(run, table, lambda rows, table=table: plant(defect, declared(table), rows))
    assert find_new(run, list_batches(run)) == set()

"""A wrong owner, a wrong scale, a missing part, a swapped pair and a stale window in each table, and the check that finds it.

Oracle: `five_defects.py` plants them without the pipeline's code and names the check.
"""

import pytest

from tests.gates.five_defects import FOUND_BY, plant
from tests.gates.rows import declared
from tests.gates.warehouse import rewrite

FOUND = [(table, defect, found) for table, of in FOUND_BY.items() for defect, found in of.items()]


@pytest.mark.parametrize(("table", "defect", "check"), FOUND)
def test_a_defect_is_found_by_its_check(run, find_new, table, defect, check):
    rewrite(run, table, lambda rows: plant(defect, declared(table), rows))
    assert check in find_new(run, check[:1])

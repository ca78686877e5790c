"""Sums of doubles that do not depend on the order of the rows.

`sum` and `avg` of doubles add in the order in which rows arrive, which differs with the number of cores, files and
windows in a run; their last bits with it. Equal input has to give equal tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column


def exact_sum(values: Column) -> Column:
    """Sum of a group's doubles in ascending order, NULLs left out; 0 where there is none.

    For groups of a few thousand rows: each is held as an array.
    """
    return F.aggregate(F.array_sort(F.collect_list(values)), F.lit(0.0), lambda total, value: total + value)


def exact_mean(values: Column) -> Column:
    """Mean of a group's doubles, NULLs left out; NULL where there is none."""
    return F.try_divide(exact_sum(values), F.count(values))

"""Sums and quotients of DataFrames whose last bits do not depend on the order of the rows.

Doubles are added in the order in which rows arrive, which differs with the number of cores, files and windows in a run.
Equal input has to give equal tables, on every engine: whole numbers are summed exactly, and rounded once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

_EXACT = "decimal(38,0)"
_HALF_BITS = 32
_HALF = 1 << _HALF_BITS


def quotient(part: Column, whole: Column) -> Column:
    """Quotient as a double; NULL where the divisor is 0."""
    return F.when(whole != 0, part.cast("double") / whole.cast("double"))


def square_sum(values: Column) -> Column:
    """Exact sum of squares of whole numbers below 2^31, as a decimal: the halves of each square are summed apart."""
    squares = values * values
    upper = F.sum(F.shiftright(squares, _HALF_BITS)).cast(_EXACT)
    lower = F.sum(squares.bitwiseAND(F.lit(_HALF - 1))).cast(_EXACT)
    return upper * F.lit(_HALF).cast("decimal(11,0)") + lower

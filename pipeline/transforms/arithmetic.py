"""Sums and quotients whose last bits do not depend on the order of the rows: equal input gives equal tables.

Doubles are added in the order in which rows arrive, which differs with the number of cores, files and windows in a run.
"""

import polars as pl

HALF = 1 << 32


def sum_sorted(values: pl.Expr) -> pl.Expr:
    """Sum of a group's doubles in ascending order, NULLs left out; 0 where there is none."""
    return values.sort().cum_sum().drop_nulls().last().fill_null(0.0)


def mean_sorted(values: pl.Expr) -> pl.Expr:
    """Mean of a group's doubles, NULLs left out; NULL where there is none."""
    return divide(sum_sorted(values), values.count())


def sum_in_order(values: pl.Expr) -> pl.Expr:
    """Sum of a group's values one after another in the order of the rows; NULL where there is none."""
    return values.drop_nulls().cum_sum().last()


def divide(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """Quotient as a double; NULL where the divisor is 0."""
    return pl.when(whole != 0).then(part / whole)


def divide_by(values: pl.Expr, number: float) -> pl.Expr:
    """Quotient by a constant, rounded once: by a literal Polars multiplies by its reciprocal, the last bit of which is off."""
    return values / (values * 0 + number)


def sum_squares(values: pl.Expr) -> pl.Expr:
    """Exact sum of squares of whole numbers, rounded once, to a double."""
    return (values.cast(pl.Int128) ** 2).sum().cast(pl.Float64)


def join_squares(upper: pl.Expr, lower: pl.Expr) -> pl.Expr:
    """A sum of squares from the sums of their quotients and remainders by `HALF`, rounded once, to a double."""
    return (upper.cast(pl.Int128) * HALF + lower).cast(pl.Float64)


def instant(milliseconds: pl.Expr) -> pl.Expr:
    return (milliseconds * 1000).cast(pl.Datetime("us", "UTC"))

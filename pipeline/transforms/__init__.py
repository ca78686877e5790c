"""Tables in, tables out, no IO: what the jobs derive, in Polars over Arrow.

Pandas takes 1.4 CPU-s to import (Polars 0.5) and makes doubles of integers with NULL; Arrow's own functions have no
windows.
"""

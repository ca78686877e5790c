"""Tables in, tables out, no IO: what the jobs derive, in Polars over Arrow.

Polars serves all of it: measured against DuckDB (as fast, but SQL in strings), pandas (1.4 CPU-s to import, integers with
NULL become doubles) and Arrow's own functions (no window functions). Its import takes 0.5 CPU-s.
"""

from __future__ import annotations

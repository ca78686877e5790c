"""Everything Great Expectations: suites as JSON, own expectations, the gate."""

from __future__ import annotations

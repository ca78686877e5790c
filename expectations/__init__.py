"""Everything Great Expectations: suites as JSON, own expectations, the gate."""

"""Laws of the excess split. Oracle: the broker's excess itself, and the broker's share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.alerting.evidence import excess_by_topic

LOADS = st.dictionaries(
    st.tuples(st.sampled_from("abcdef"), st.integers(-1, 4)), st.integers(0, 10**12), min_size=1, max_size=30
)


@given(LOADS, st.integers(0, 4), st.floats(0.01, 0.99))
def test_topics_sum_to_the_brokers_excess(loads, broker_id, expected_share):
    total = sum(size_bytes for (_, leader), size_bytes in loads.items() if leader >= 0)
    own = sum(size_bytes for (_, leader), size_bytes in loads.items() if leader == broker_id)

    topics = excess_by_topic(loads, broker_id=broker_id, expected_share=expected_share)

    assert sum(row.excess_bytes for row in topics) == pytest.approx(own - expected_share * total, abs=1e-3, rel=1e-9)
    if total:
        assert sum(row.excess_share for row in topics) == pytest.approx(own / total - expected_share, abs=1e-9)
    assert [row.excess_bytes for row in topics] == sorted((row.excess_bytes for row in topics), reverse=True)

"""Topics by what they add to a broker's excess. Oracle: the sum written out, topic by topic."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pipeline.evidence.incident import rank_topics

LOADS = st.dictionaries(
    st.tuples(st.sampled_from("abcdef"), st.integers(-1, 4)), st.integers(0, 10**12), min_size=1, max_size=30
)


@given(LOADS, st.integers(0, 4), st.sampled_from((0.25, 0.5, 0.75)))
def test_topics_stand_in_the_order_of_their_excess(loads, broker_id, expected_share):
    """Fair shares of quarters, so that floats are exact."""
    total = Counter()
    for (topic, leader), size_bytes in loads.items():
        if leader >= 0:
            total[topic] += size_bytes
    excess = {topic: loads.get((topic, broker_id), 0) - expected_share * in_all for topic, in_all in total.items()}
    topics = rank_topics(loads, broker_id=broker_id, expected_share=expected_share)
    assert sorted(topics) == sorted({topic for topic, leader in loads if leader >= 0})
    assert [(-excess[topic], topic) for topic in topics] == sorted((-excess[topic], topic) for topic in topics)

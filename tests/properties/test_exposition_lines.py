"""Pages of any series and values, read twice: what the kernel finds in the second is what Python reads in the first.

Oracle: `float`, and the series as they were written.
"""

import math
import struct
from functools import partial

from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.codec.metrics.exposition import ExpositionReader
from pipeline.codec.metrics.metric_names import Series, name_series
from pipeline.codec.metrics.metric_table import FORMS_BY_NAME

NAMES = st.from_regex(r"[a-z_:][a-z0-9_:]{0,12}", fullmatch=True)
VALUES = st.one_of(
    st.floats().map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(
        ["+Inf", "-Inf", "NaN", "1e5", "1E-5", "-.5", "5.", "+7", "0", "-0.0", "1.795253820641E12", "1e400"]
    ),
    st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**15), max_value=10**15).map(str),
)
LABELS = st.dictionaries(
    st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True),
    st.text(st.characters(codec="utf-8", exclude_characters='\n"\\'), max_size=12),
    max_size=3,
)
PAGES = st.lists(
    st.tuples(NAMES, LABELS, VALUES), max_size=30, unique_by=lambda line: (line[0], str(sorted(line[1].items())))
)


def keep(name, labels):
    return Series(name, tuple(sorted(labels.items())), name)


def format_line(name, labels, value):
    pairs = ",".join(f'{label}="{text}"' for label, text in labels.items())
    return f"{name}{{{pairs}}} {value}\n" if labels else f"{name} {value}\n"


def bits(value):
    return "NaN" if math.isnan(value) else struct.pack(">d", value)


@given(PAGES)
@example([("a", {}, "9007199254740993"), ("b", {}, "1e22"), ("c", {}, "1e23"), ("d", {}, "0.1e-22")])
def test_known_series_read_as_new_ones(lines):
    text = "".join(format_line(*line) for line in lines)
    written = {(name, tuple(sorted(labels.items()))): bits(float(value)) for name, labels, value in lines}
    reader = ExpositionReader(keep)
    for _ in range(2):
        page = reader.read(text)
        assert page.bad_lines == ()
        found = {reader.series[p][:2]: bits(v) for p, v in zip(page.series.tolist(), page.values.tolist(), strict=True)}
        assert found == written


@given(st.text(max_size=200))
def test_any_text_is_read_or_told_of(text):
    reader = ExpositionReader(keep)
    first, second = reader.read(text), reader.read(text)
    assert first.sample_count == second.sample_count
    assert [(line.number, line.reason) for line in first.bad_lines if line.severity == "refused"] == [
        (line.number, line.reason) for line in second.bad_lines if line.severity == "refused"
    ] or len(first.bad_lines) == len(second.bad_lines)


KAFKA_NAMES = st.one_of(
    NAMES,
    st.builds(
        lambda prefix, cut, rest: prefix[: len(prefix) - cut] + rest,
        st.sampled_from([*sorted(FORMS_BY_NAME), "kafka_server_BrokerTopicMetrics_Count", "kafka_log_Log_Value"]),
        st.integers(0, 3),
        st.sampled_from(["", "x", "Total", "_total", "9"]),
    ),
)


@given(st.lists(st.tuples(KAFKA_NAMES, LABELS, VALUES), max_size=20))
@example(
    [("kafka_brokers", {}, "1"), ("Kafka_Brokers", {}, "1"), ("kafka_broker", {"a": "} 1"}, "1"), ("a", {}, "NaN")]
)
def test_lines_passed_over_by_their_names_are_those_nobody_wants(lines):
    text = "# HELP kafka_brokers x\n" + "".join(format_line(*line) for line in lines)
    quick, slow = ExpositionReader(), ExpositionReader(partial(name_series))
    for _ in range(2):
        left, right = quick.read(text), slow.read(text)
        assert [quick.series[p] for p in left.series] == [slow.series[p] for p in right.series]
        assert list(map(bits, left.values.tolist())) == list(map(bits, right.values.tolist()))
        assert (left.sample_count, left.bad_lines) == (right.sample_count, right.bad_lines)

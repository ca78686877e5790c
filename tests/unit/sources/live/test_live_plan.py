"""Which offsets a run fetches, and who fetches them. Oracle: written out by hand, conservation of ranges."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.model.cluster import ClusterHistory, EarlierState, Timeline
from pipeline.model.log import TopicPartition
from pipeline.model.window import HOUR_MS, TimeWindow
from pipeline.sources.files.segment_plan import pack
from pipeline.sources.live import admin, plan, reading
from pipeline.sources.live.admin import OffsetAt
from pipeline.sources.live.offsets import read_offset_traffic
from pipeline.sources.live.plan import choose_slices, join_reads, sample_partitions, split
from pipeline.sources.live.requests import PAGE_PARTITIONS, Failures
from pipeline.sources.live.settings import FetchRead, LiveSettings
from pipeline.sources.records.event_time import TOLERANCE_MS

KEY = TopicPartition("t", 0)
SPAN = TimeWindow(1_000_000, 2_000_000)
LATE_MS = 2_600_000


def fetch(partition=0, start=0, end=100, size=1000, topic="t"):
    log = {"topic": topic, "topic_id": "", "partition": partition, "leader_id": 1}
    return FetchRead(**log, start_offset=start, end_offset=end, is_first=True, is_last=True, size_bytes=size)


@pytest.mark.parametrize(
    ("start", "end", "wanted"),
    [
        (OffsetAt(10, 1_000_500), None, (10, 100)),  # no record is later: all there is
        (OffsetAt(10, 1_000_500), OffsetAt(60, LATE_MS + 5), (10, 60)),
        (OffsetAt(-1, -1), None, (100, 100)),  # nothing as young as the span
        (OffsetAt(10, 1_000_500), OffsetAt(-1, -1), (10, 100)),
        # a client's timestamp of next year is no end
        (OffsetAt(10, 1_000_500), OffsetAt(20, LATE_MS + TOLERANCE_MS + 1), (10, 100)),
        (OffsetAt(40, 1_000_500), OffsetAt(20, LATE_MS + 5), (40, 100)),  # nor one from before the start
        (OffsetAt(2, 1_000_500), OffsetAt(60, LATE_MS + 5), (5, 60)),  # the log's start moved between two questions
    ],
)
def test_where_a_range_begins_and_ends(start, end, wanted):
    assert plan._range(start, end, log_start=5, high=100, late_ms=LATE_MS) == wanted


@pytest.mark.parametrize(
    ("start", "log_start", "is_short"),
    [
        (OffsetAt(0, 1_500_000), 0, False),  # nothing was ever deleted
        (OffsetAt(50, 1_500_000), 50, True),  # what lay before 50 may have been of the span
        (OffsetAt(50, 1_000_000), 50, False),
        (OffsetAt(60, 1_500_000), 50, False),
        (OffsetAt(-1, -1), 50, False),
    ],
)
def test_retention_within_the_span_is_told(start, log_start, is_short):
    found = plan.find_retention(KEY, start, log_start, SPAN.start_ms)
    assert [shortfall.until_ms for shortfall in found] == ([1_500_000] if is_short else [])
    assert all("message.timestamp.before.max.ms, set on the topic, refuses" in shortfall.reason for shortfall in found)


@pytest.mark.parametrize(("end_before", "is_short"), [(None, False), (100, False), (120, False), (99, True)], ids=str)
def test_a_log_that_is_wholly_gone_is_told_where_it_grew_since_an_earlier_run(end_before, is_short):
    found = plan.find_retention(KEY, OffsetAt(-1, -1), 100, SPAN.start_ms, (end_before, None))
    assert [shortfall.until_ms for shortfall in found] == ([None] if is_short else [])


@pytest.mark.parametrize(
    ("end_before", "told_ms", "is_short"),
    [
        (99, SPAN.start_ms, True),
        (100, SPAN.start_ms, False),  # all of it was read
        (99, SPAN.start_ms - 1, False),  # what is gone may be of before
        (99, None, False),
    ],
)
def test_a_late_record_at_the_begin_of_a_log_hides_no_retention(end_before, told_ms, is_short):
    """The first record of the span is not the first of the log: that one is late."""
    found = plan.find_retention(KEY, OffsetAt(101, SPAN.start_ms), 100, SPAN.start_ms, (end_before, told_ms))
    assert [shortfall.until_ms for shortfall in found] == ([SPAN.start_ms] if is_short else [])


@given(start=st.integers(0, 10**12), count=st.integers(1, 10**6), size=st.integers(0, 10**12))
def test_parts_of_a_range_cover_it_without_overlap(start, count, size):
    parts = split(fetch(start=start, end=start + count, size=size), 128 << 20)
    assert parts[0].start_offset == start
    assert parts[-1].end_offset == start + count
    assert all(a.end_offset == b.start_offset for a, b in pairwise(parts))
    assert [p.is_first for p in parts] == [True, *[False] * (len(parts) - 1)]
    assert [p.is_last for p in parts] == [*[False] * (len(parts) - 1), True]
    assert all(part.offset_count > 0 for part in parts)


def test_a_hundred_thousand_partitions_are_packed():
    reads = tuple(fetch(partition=p, topic=f"t{p % 1000}", size=(p * 7919) % 100_000) for p in range(100_000))
    groups = pack(reads, plan.RANGE_BYTES, 8, order=lambda read: (read.topic, read.partition, read.start_offset))
    packed = [read for group in groups for read in group]
    assert sorted((r.topic, r.partition) for r in packed) == sorted((r.topic, r.partition) for r in reads)
    sizes = [sum(read.size_bytes + 4096 for read in group) for group in groups]
    assert max(sizes) < 1.01 * min(sizes)


def test_questions_about_a_hundred_thousand_partitions_go_out_in_pages():
    leaders = {TopicPartition(f"t{p // 10}", p % 10): p % 3 for p in range(100_000)}
    pages = list(admin._by_broker(leaders))
    assert max(len(page) for _, page in pages) == PAGE_PARTITIONS
    assert {key for _, page in pages for key in page} == leaders.keys()
    assert all(leaders[key] == broker for broker, page in pages for key in page)
    assert len(pages) == 3 * -(-33_334 // PAGE_PARTITIONS)


def test_a_sample_is_the_same_every_time_and_leaves_no_topic_out():
    keys = [TopicPartition(topic, p) for topic in ("a", "b") for p in range(10)] + [TopicPartition("c", 0)]
    chosen = sample_partitions(keys, 0.3)
    assert chosen == sample_partitions(reversed(keys), 0.3)
    assert {topic: sum(key.topic == topic for key in chosen) for topic in "abc"} == {"a": 3, "b": 3, "c": 1}
    assert sample_partitions(keys, 1.0) == set(keys)
    windows = [TimeWindow(60_000 * i, 60_000 * (i + 1)) for i in range(50)]
    slices = choose_slices(windows, 0.1, cluster="demo")
    assert slices == choose_slices(windows, 0.1, cluster="demo") != choose_slices(windows, 0.1, cluster="other")
    assert all(
        w.start_ms <= s.start_ms and s.end_ms <= w.end_ms and s.duration_ms == 6000
        for w, s in zip(windows, slices, strict=True)
    )
    places = [s.start_ms - w.start_ms for w, s in zip(windows, slices, strict=True)]
    assert min(places) < 10_000
    assert max(places) > 40_000


def test_of_reads_that_overlap_the_later_ones_begin_where_the_earlier_end():
    later = [fetch(start=7, end=12), fetch(start=3, end=9), fetch(start=7, end=12, topic="other")]
    joined = join_reads([fetch(end=10)], later)
    joined = join_reads(joined, [fetch(start=20, end=30)])

    told = [(one.topic, one.start_offset, one.end_offset, one.taken_until) for one in joined]
    assert told == [("t", 0, 10, 0), ("t", 10, 12, 10), ("other", 7, 12, 0), ("t", 20, 30, 12)]
    assert all(one.is_first for one in joined)  # the batch that a later slice begins within is its own


def test_a_range_of_any_size_that_a_broker_claims_has_few_parts():
    parts = split(fetch(end=2**62, size=2**62))
    assert len(parts) == plan.MOST_RANGES
    assert (parts[0].start_offset, parts[-1].end_offset) == (0, 2**62)


def test_a_leader_that_claims_endless_logs_has_few_ranges_whatever_it_leads(monkeypatch):
    keys = [TopicPartition("t", number) for number in range(100)]
    leaders = {key: number % 2 for number, key in enumerate(keys)}
    state = state_of(leaders, end=2**62, leader_sizes=dict.fromkeys(keys[::2], 2**63 - 1))
    monkeypatch.setattr(admin, "ask_offsets", lambda *_: dict.fromkeys(keys, OffsetAt(0, SPAN.start_ms)))
    reads, _ = plan.plan_fetches(None, state, keys, SPAN, lateness_ms=0, as_of_ms=SPAN.end_ms)
    assert Counter(read.leader_id for read in reads) == {0: plan.MOST_RANGES, 1: 50}


def state_of(leaders, *, start=0, end=100, **fields):
    """Partitions by who leads them; each log has records from one offset to another."""
    logs = {
        "log_starts": dict.fromkeys(leaders, OffsetAt(start, -1)),
        "high_watermarks": dict.fromkeys(leaders, OffsetAt(end, -1)),
    }
    partitions = {
        key: SimpleNamespace(leader_id=leader, topic_id="", log_name=(*key[:1], "", *key[1:]))
        for key, leader in leaders.items()
    }
    return SimpleNamespace(partitions=partitions, **logs, **{"leader_sizes": {}, "failures": Failures(), **fields})


PAST = EarlierState(
    window_start_ms=0, topic="t", topic_id="", partition=0, leader_id=1, leader_epoch=0,
    log_start_offset=0, log_end_offset=98, size_bytes=0, told_at_ms=SPAN.start_ms + 9,
)  # fmt: skip  # columns of a row, several a line
EARLIER = {KEY: replace(PAST, time_ahead_ms=0)}


def plan_one(monkeypatch, *, start, config=None, log_start=0, **more):
    """The range of a partition of 100 records in a run ten hours later; the first record beyond the lateness is at 60."""
    history = ClusterHistory(state_source="live_cluster", topic_configs={"t": Timeline.always(config or {})})
    state = state_of({KEY: 1}, start=log_start, history=history)
    told = {SPAN.start_ms: start, LATE_MS: OffsetAt(60, LATE_MS + 5)}
    monkeypatch.setattr(admin, "ask_offsets", lambda _, leaders, at_ms, __: dict.fromkeys(leaders, told[at_ms]))
    as_of_ms, lateness_ms = SPAN.end_ms + 10 * HOUR_MS, LATE_MS - SPAN.end_ms
    reads, short = plan.plan_fetches(None, state, [KEY], SPAN, lateness_ms=lateness_ms, as_of_ms=as_of_ms, **more)
    return [(read.start_offset, read.end_offset) for read in reads], len(short)


@pytest.mark.parametrize(
    ("config", "is_sample", "end"),
    [
        ({"message.timestamp.after.max.ms": str(LATE_MS - SPAN.end_ms)}, False, 60),
        ({"message.timestamp.after.max.ms": "9223372036854775807"}, False, 100),
        ({"message.timestamp.type": "LogAppendTime"}, False, 100),  # set after that record came
        ({}, False, 100),  # Kafka before 3.6, or configs that may not be read
        ({}, True, 60),  # a sample goes by times
    ],
)
def test_a_record_that_a_client_stamped_ahead_ends_no_range(monkeypatch, config, is_sample, end):
    start, known = OffsetAt(10, SPAN.start_ms + 500), {} if is_sample else {"earlier": EARLIER, "settled": {KEY: 0}}
    assert plan_one(monkeypatch, start=start, config=config, is_sample=is_sample, **known) == ([(10, end)], 0)


@pytest.mark.parametrize(
    ("ahead_ms", "settled", "end"),
    [
        (LATE_MS - SPAN.end_ms, 60, 60),
        (LATE_MS - SPAN.end_ms + 1, 60, 100),  # it was lowered since
        (None, 60, 100),  # runs before did not note it
        (0, 61, 100),  # the record at 60 came an hour before the span
        (0, None, 100),  # nobody asked before
    ],
)
def test_a_time_ends_a_range_only_where_the_topic_took_none_further_ahead_before(monkeypatch, ahead_ms, settled, end):
    """`message.timestamp.after.max.ms` was lowered after such a record came: what followed it was silently missing."""
    config = {"message.timestamp.after.max.ms": str(LATE_MS - SPAN.end_ms)}
    known = {} if settled is None else {"settled": {KEY: settled}}
    known["earlier"] = {KEY: replace(PAST, time_ahead_ms=ahead_ms)}
    start = OffsetAt(10, SPAN.start_ms + 500)
    assert plan_one(monkeypatch, start=start, config=config, **known) == ([(10, end)], 0)


@pytest.mark.parametrize(("stamped_ms", "is_known"), [(LATE_MS, True), (LATE_MS + HOUR_MS, False), (2**63 - 1, False)])
def test_a_record_stamped_later_than_now_hides_what_offsets_by_time_do_not_tell(monkeypatch, stamped_ms, is_known):
    history = ClusterHistory(state_source="live_cluster", known_since_ms=LATE_MS)
    state = state_of({KEY: 1}, history=history, leader_sizes={KEY: 1000}, in_scope=[KEY])
    state.partitions[KEY].leader_epoch = None
    told = {SPAN.start_ms: OffsetAt(10, SPAN.start_ms + 5), SPAN.end_ms: OffsetAt(60, stamped_ms)}
    monkeypatch.setattr(admin, "ask_offsets", lambda _, leaders, at_ms, __: dict.fromkeys(leaders, told[at_ms]))
    (row,), missing = read_offset_traffic(None, state, [SPAN], [KEY], [])
    assert ((row.first_offset, row.end_offset), [one.key for one in missing]) == ((10, 60), [] if is_known else [KEY])


@pytest.mark.parametrize(
    ("start", "settled", "log_start", "wanted"),
    [
        (OffsetAt(0, LATE_MS + 10**12), 40, 0, ([(40, 100)], 0)),  # a record of the year 2001 or so
        (OffsetAt(0, LATE_MS + 10**12), None, 0, ([(0, 100)], 0)),
        (OffsetAt(5, LATE_MS + 10**12), 40, 5, ([(40, 100)], 0)),  # nor did retention take anything of the span
        (OffsetAt(5, LATE_MS + 10**12), 3, 5, ([(5, 100)], 1)),
        (OffsetAt(0, LATE_MS + 10**12), 101, 0, ([(0, 100)], 0)),  # the log was cut since, or its leader lied
        (OffsetAt(10, SPAN.start_ms + 500), 40, 0, ([(10, 100)], 0)),  # a record of the span is its start
        (OffsetAt(5, SPAN.start_ms + 500), 40, 5, ([(5, 100)], 0)),  # what was deleted had come long before the span
        (OffsetAt(5, SPAN.start_ms + 500), 3, 5, ([(5, 100)], 1)),
        (OffsetAt(5, SPAN.start_ms + 500), 101, 5, ([(5, 100)], 1)),
    ],
)
def test_a_record_far_ahead_at_a_logs_start_has_no_whole_log_read(monkeypatch, start, settled, log_start, wanted):
    known = {} if settled is None else {KEY: settled}
    assert plan_one(monkeypatch, start=start, log_start=log_start, settled=known) == wanted


@pytest.mark.parametrize(
    ("asked_about", "start", "is_short"),
    [
        (None, OffsetAt(-1, -1), False),  # the first run of all: it may have been idle for years
        (("other", ""), OffsetAt(-1, -1), True),
        (("t", "old"), OffsetAt(-1, -1), True),  # it was made anew
        (("t", ""), OffsetAt(-1, -1), False),  # all that is gone was read
        (("other", ""), OffsetAt(99, SPAN.start_ms + 500), True),  # the first one left is late
        (("t", ""), OffsetAt(99, SPAN.start_ms + 500), False),
    ],
)
def test_what_retention_took_of_a_topic_made_since_an_earlier_run_is_told(monkeypatch, asked_about, start, is_short):
    """One that was made, filled for minutes and left to a short retention was no load, and its window complete."""
    past = [replace(PAST, topic=topic, topic_id=topic_id) for topic, topic_id in ([asked_about] if asked_about else [])]
    earlier = {TopicPartition(one.topic, one.partition): one for one in past}
    assert plan_one(monkeypatch, start=start, log_start=98, earlier=earlier)[1] == is_short


def test_where_a_log_ended_is_what_its_leader_said_and_none_before_it(monkeypatch):
    """A broker that leads no more cannot have said that later records of its successor are old ones."""
    told = {}
    monkeypatch.setattr(reading, "plan_fetches", lambda *_, settled, **__: told.update(settled) or ((), ()))
    state = SimpleNamespace(partitions={KEY: SimpleNamespace(leader_id=2, topic_id="id")}, in_scope=(KEY,))
    settings = LiveSettings(bootstrap_servers="b:1")
    past = [
        EarlierState(
            window_start_ms=0, topic="t", topic_id=topic_id, partition=0, leader_id=leader_id, leader_epoch=leader_id,
            log_start_offset=0, log_end_offset=end, size_bytes=0, settled_offset=end,
        )
        for topic_id, leader_id, end in (("id", 1, 5_000), ("id", 2, 30), ("old", 2, 40), ("id", 3, 6_000))
    ]  # fmt: skip  # columns of a row, several a line
    question = SimpleNamespace(windows=(SPAN,), name="c", as_of_ms=LATE_MS, earlier=past)
    own = reading.LiveReading(source=settings, observed_at_ms=LATE_MS)
    reading._with_plan(own, None, state, question)
    assert told == {KEY: 30}


def test_a_broker_tells_offsets_of_its_own_partitions_only():
    def send(_, broker_id):
        rows = [
            SimpleNamespace(partition_index=number, error_code=0, offset=10 * broker_id, timestamp=-1, leader_epoch=0)
            for number in (0, 1)
        ]
        return SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=rows)])

    leaders = {TopicPartition("t", 0): 1, TopicPartition("t", 1): 2}
    told = admin.ask_offsets(SimpleNamespace(send=send), leaders, admin.LATEST, Failures())
    assert {key.partition: at.offset for key, at in told.items()} == {0: 10, 1: 20}

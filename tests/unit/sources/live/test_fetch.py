"""How a range is fetched where a broker refuses an offset. Oracle: the replies as written here, what Kafka's codes mean."""

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from kafka.protocol.consumer import FetchRequest

from pipeline.model.log import Record
from pipeline.model.window import TimeWindow
from pipeline.sources.live.fetch import BY_NAME_VERSION, FetchState, iter_replies
from pipeline.sources.live.range_scan import RangeTask, scan_range
from pipeline.sources.live.settings import FetchRead
from pipeline.sources.records.batch_rows import LeaderEpochs
from pipeline.sources.records.pieces import Kind
from pipeline.sources.records.scan_settings import ScanSettings
from tests.batches import START_MS, make_batch, make_records

OUT_OF_RANGE, NOT_ENOUGH_REPLICAS = 1, 19
HOUR = TimeWindow(START_MS - START_MS % 3_600_000, START_MS - START_MS % 3_600_000 + 3_600_000)
READ = FetchRead(
    topic="t", topic_id="", partition=0, leader_id=1, start_offset=10, end_offset=30, is_first=True, is_last=True,
    size_bytes=1000,
)  # fmt: skip  # fields of a value, several a line


class Broker:
    """A connection to a broker whose log begins at an offset; it answers each request with ten records."""

    def __init__(self, log_start, code=0):
        self.log_start, self.code = log_start, code
        self.source = SimpleNamespace(fetch_bytes=1024, read_timeout=timedelta(seconds=5))

    def send(self, request, leader_id):
        if not isinstance(request, FetchRequest):  # for the log's start
            row = SimpleNamespace(partition_index=0, error_code=0, offset=self.log_start, timestamp=-1, leader_epoch=0)
            return SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=[row])])
        offset = request.topics[0].partitions[0].fetch_offset
        code = self.code or (OUT_OF_RANGE if offset < self.log_start else 0)
        row = SimpleNamespace(partition_index=0, error_code=code, records=b"" if code else str(offset).encode())
        topic = SimpleNamespace(topic="t", partitions=[row])
        return SimpleNamespace(error_code=0, version=BY_NAME_VERSION, responses=[topic])


def read(broker):
    state, offsets = FetchState(READ.start_offset), []
    for records in iter_replies(broker, READ, state, Counter()):
        offsets.append(int(records))
        state.next_offset += 10
    return offsets, state


@pytest.mark.parametrize(
    ("log_start", "offsets", "lost"),
    [
        (0, [10, 20], []),
        (20, [20], [(10, 20)]),  # retention overtook the first half
        (40, [], [(10, 30)]),  # and all of it: no more than the range is lost
    ],
)
def test_offsets_that_retention_took_are_lost_and_the_reading_goes_on(log_start, offsets, lost):
    found, state = read(Broker(log_start))
    assert (found, state.lost, state.stopped, state.retry_count) == (offsets, lost, "", 0)


def test_a_broker_that_refuses_ends_the_reading():
    found, state = read(Broker(0, NOT_ENOUGH_REPLICAS))
    assert (found, state.lost) == ([], [])
    assert state.stopped.startswith("the broker refuses: ")


class BrokerOfBatches(Broker):
    """Answers with a batch of ten records, and refuses from an offset on."""

    def __init__(self, log_start, ends_at):
        super().__init__(log_start)
        self.ends_at = ends_at

    def send(self, request, leader_id):
        answer = super().send(request, leader_id)
        if isinstance(request, FetchRequest) and (row := answer.responses[0].partitions[0]).error_code == 0:
            offset = int(row.records)
            row.records = make_batch(make_records(10, base_offset=offset))
            row.error_code = NOT_ENOUGH_REPLICAS if offset >= self.ends_at else 0
        return answer


@pytest.mark.parametrize(
    ("log_start", "ends_at", "said"),
    [(0, 99, ""), (20, 99, "retention took offsets 10 to 19"), (0, 20, "offsets 20 to 29 could not be read")],
)
def test_what_could_not_be_read_is_told_and_is_no_hole_in_the_log(log_start, ends_at, said):
    """The data gate took it for one, and nothing of the whole cluster was judged."""
    found = scan_range(BrokerOfBatches(log_start, ends_at), replace(READ, is_last=False), START_MS + 1)
    assert "; ".join(found.lost).startswith(said)
    assert bool(found.lost) == bool(said)
    assert len(found.scanned.headers) == (1 if said else 2)
    assert found.scanned.missing_offset_count.sum() == 0


class EndlessLog(Broker):
    """Names no end: each request is answered with one more batch of a mebibyte."""

    batch = make_batch([Record(offset=0, timestamp_ms=START_MS, key=b"k", value=bytes(1 << 20))])

    def send(self, request, leader_id):
        offset = request.topics[0].partitions[0].fetch_offset
        row = SimpleNamespace(partition_index=0, error_code=0, records=offset.to_bytes(8, "big") + self.batch[8:])
        topic = SimpleNamespace(topic="t", partitions=[row])
        return SimpleNamespace(error_code=0, version=BY_NAME_VERSION, responses=[topic])


def test_a_log_without_an_end_is_read_in_stretches_and_given_up():
    settings = ScanSettings(as_of_ms=START_MS + 1, span=HOUR, window_ms=HOUR.duration_ms, max_distinct_keys=10)
    endless = replace(READ, end_offset=1 << 62, size_bytes=40 << 20)
    pieces = list(
        RangeTask((endless,), settings, LeaderEpochs({}, {}), None, None)._read(EndlessLog(0), endless, Counter())
    )
    batches = [piece.rows.num_rows for piece in pieces if piece.kind is Kind.BATCHES]
    assert (max(batches), len(batches)) == (
        128,
        3,
    )  # a stretch is of 128 MiB; 4 times 40 MiB are granted, and a stretch
    reasons = [row["reason"] for piece in pieces if piece.kind is Kind.SUMMARIES for row in piece.rows.to_pylist()]
    (said,) = [reason for reason in reasons if reason and "bytes that the leader named" in reason]
    assert said.startswith("offsets ")
    assert f"to {(1 << 62) - 1} were not read" in said


def test_a_broker_that_drips_is_given_up(monkeypatch):
    """Each answer comes within `read_timeout`, and brings ten bytes."""
    clock = iter(range(0, 10_000, 4))
    monkeypatch.setattr("pipeline.sources.live.fetch.time.monotonic", lambda: next(clock))
    state = FetchState(0)
    for _ in iter_replies(Broker(0), replace(READ, start_offset=0, end_offset=1 << 62), state, Counter()):
        state.next_offset += 10
    assert state.stopped.startswith("broker 1 sent ")
    assert state.stopped.endswith(" bytes in 104 s")


def test_a_leader_that_never_answers_is_asked_three_times_by_a_process(monkeypatch):
    """It may claim two thousand ranges, each of which would wait for `read_timeout`."""
    monkeypatch.setattr("pipeline.sources.live.range_scan.connect", lambda *_: nullcontext())
    asked = []

    def scan(self, _, read, given_up):
        asked.append(read.leader_id)
        given_up[read.leader_id] += read.leader_id == 1
        yield from ()

    monkeypatch.setattr(RangeTask, "_read", scan)
    settings = ScanSettings(as_of_ms=START_MS + 2, span=HOUR, window_ms=HOUR.duration_ms, max_distinct_keys=10)
    source = SimpleNamespace(bootstrap_servers=("a:1",))
    reads = tuple(replace(READ, leader_id=leader) for leader in (1, 2))
    tasks = [RangeTask(reads, settings, LeaderEpochs({}, {}), source, None) for _ in range(10)]
    rows = [row for task in tasks for piece in task.run() for row in piece.rows.to_pylist()]
    assert Counter(asked) == {1: 3, 2: 10}
    assert {row["reason"] for row in rows} == {"broker 1 is asked no more: it did not answer 3 times"}
    assert len(rows) == 7


class GoesBack(Broker):
    """Answers with a batch of one record at offset 12, and after it with the one at 10 and others."""

    def __init__(self, *after):
        super().__init__(0)
        self.replies = iter([[10, 11, 12], *after])

    def send(self, request, leader_id):
        offsets = next(self.replies)
        records = b"".join(make_batch(make_records(1, base_offset=offset)) for offset in offsets)
        row = SimpleNamespace(partition_index=0, error_code=0, records=records)
        topic = SimpleNamespace(topic="t", partitions=[row])
        return SimpleNamespace(error_code=0, version=BY_NAME_VERSION, responses=[topic])


@pytest.mark.parametrize("after", [[10], [10, 12]])
def test_a_leader_whose_answers_go_back_is_left(after):
    found = scan_range(GoesBack(after), READ, START_MS + 1)
    assert found.scanned.headers.base_offset.tolist() == [10, 11, 12]
    assert found.lost == (
        "offsets 13 to 29 could not be read: the reply at offset 13 holds no whole batch from there on",
    )


def test_batches_that_were_read_before_count_once():
    """A second row of the same batch broke the tables' key, and nothing of the cluster was judged. The one at 30 is the next range's."""
    kept = []
    found = scan_range(
        GoesBack([11, 12, 13, 13], [14, 29, 30, 14]),
        READ,
        START_MS + 1,
        on_reply=lambda _, scan: kept.append(scan.base_offset),
    )
    assert found.scanned.headers.base_offset.tolist() == [10, 11, 12, 13, 14, 29]
    assert [offset for offsets in kept for offset in offsets.tolist()] == [10, 11, 12, 13, 14, 29]
    assert found.lost == ()

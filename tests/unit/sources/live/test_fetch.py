"""How a range is fetched where a broker refuses an offset. Oracle: the replies as written here, what Kafka's codes mean."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
from kafka.protocol.consumer import FetchRequest

from pipeline.sources.live.fetch import BY_NAME_VERSION, FetchState, iter_replies
from pipeline.sources.live.fetch_read import FetchRead

OUT_OF_RANGE, NOT_ENOUGH_REPLICAS = 1, 19
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
    for records in iter_replies(broker, READ, state, set()):
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

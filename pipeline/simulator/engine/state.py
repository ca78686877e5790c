"""The state of a run: what a producer and its brokers are made of, as records that kernels change in place.

Objects refer to one another by number, their place in the array of their kind. Where a number may point to no object its
array begins with a blank one: `NONE`. Times are nanoseconds since the run's start, or -1 before, unless a name ends in
`_ms`. A field named after a setting that is a distribution holds the number of its table.
"""

from typing import Annotated, NamedTuple

from pipeline.arrays import Ints
from pipeline.compilation import Items, type_of
from pipeline.simulator.engine import client_state
from pipeline.simulator.engine.client_state import RandomStream
from pipeline.simulator.engine.result import BUCKET_COUNT, TracedBatch
from pipeline.simulator.scenario.scenario import ErrorWindow

NONE = 0
NEVER = 1 << 62
ALL_FED = 1 << 62  # more than any thread sends: nothing is left to be fed
MS = 1_000_000
SECOND = 1_000_000_000
QUOTA_RING = 16  # quota samples begin a second or more apart, and live for 11 seconds: 12 is the most
(PERF_TEST, GAPS, ON_OFF, RECORDED) = range(4)  # kinds of arrivals; see `scenario.scenario`


class RunState:
    now_ns: int
    first_sender: int  # clocks are numbered: connections from 1, then senders, then threads
    first_thread: int  # the clock of the blank thread
    free_batch: int  # the first of the free ones; `next` leads on
    free_block: int
    free_request: int
    batch_count: int  # that were ever used
    block_count: int
    request_count: int
    most_requests: int  # that one event may take
    topic_count: int
    is_traced: bool
    opened_batch_count: int  # rows of the traces
    done_batch_count: int
    appended_record_count: int
    is_short: bool  # of room for what the next event may take


class NodeConnection:
    """A producer's connection to a broker; counters come first, named as in `result.ConnectionCounter`."""

    requests: int
    batches: int  # in requests; a batch that is sent again counts again
    bytes: int  # of batches in requests
    max_in_flight: int
    errors: int  # requests answered with an error
    throttled_ns: int  # by quota
    timed_out: int  # requests without an answer within `request.timeout.ms`
    number: int
    producer: int
    broker: int
    queues_with_batches: int  # a row of `bitsets`, by place
    is_in_rack: bool  # the broker is in the rack of a producer that is rack-aware
    # the client's end
    is_connected: bool
    was_begun: bool  # it then connects again by itself
    throttled_until_ns: int
    first_in_flight: int  # requests without a handled response
    last_in_flight: int
    in_flight_count: int
    arrived_count: int  # of them, the first: with a response that is not yet handled
    first_new: int  # of them, the first that was not yet submitted
    drain_index: int
    ready_ms: int  # when the broker last had something to be sent, and when it could be sent
    drain_ms: int
    is_kept_waiting: bool  # for longer than partitioner.availability.timeout.ms
    # the broker's end
    head: int  # requests that it has or will read
    tail: int
    idle_since_ns: int
    muted_until_ns: int
    first_sample: int  # of the quota
    sample_count: int
    sample_starts_ns: Annotated[Items[int], QUOTA_RING]
    sample_bytes: Annotated[Items[int], QUOTA_RING]
    service_stream: RandomStream
    oversleep_stream: RandomStream
    replica_wait_stream: RandomStream
    error_stream: RandomStream


class BrokerState:
    """A broker; fields are named as in `scenario.Broker` and `scenario.Service`."""

    request_ns: int
    partition_ns: int
    kib_ns: int
    warm_up_percent: int
    warm_up_ns: int
    oversleep_ns: int
    replica_wait_ns: int
    quota_bytes_per_s: int
    first_idle: int
    idle_count: int
    first_delay: int
    delay_count: int
    first_error: int
    error_count: int
    first_handler: int
    handler_count: int
    first_partition: int  # in `partitions`: those it leads, counted over all topics
    partition_count: int


class IdleLevel:
    from_ns: int  # after the connection was idle for so long
    request_ns: int


class DelayStep:
    start_ns: int  # from then on a broker holds responses back
    delay_ns: int


class ThreadState:
    """A thread of the application; fields are named as in `scenario.scenario`."""

    number: int
    clock: int
    producer: int
    kind: int
    start_ns: int
    end_ns: int
    record_count: int
    rate_per_s: int
    oversleep_ns: int
    gap_ns: int
    on_ns: int
    off_ns: int
    value_bytes: int
    gap_stream: RandomStream
    value_size_stream: RandomStream
    target_stream: RandomStream
    wake_call_stream: RandomStream
    first_target: int
    target_count: int
    first_recorded: int  # in `recorded`: where the first of all would lie
    recorded_count: int
    fed_count: int  # of them, those that are or were in memory
    tick_count: int  # asked for the next due time so often
    deficit_ns: int
    due_ns: int
    phase_end_ns: int
    sent_count: int
    # the record it sends
    topic: int
    partition: int  # within the topic; -1 where the partitioner picks it
    body_bytes: int
    sent_at_ns: int
    created_at_ns: int  # once there was metadata
    is_committing: bool
    # while it waits
    is_waiting: bool
    is_granted: bool
    next_waiting: int
    needed_bytes: int  # that it waits for; 0 is metadata
    queue: int  # chosen before; `NONE` where that is open
    waiting_since_ns: int


class SendTarget:
    weight: int  # cumulative
    topic: int
    partition: int
    body_bytes: int  # of an empty value


class RecordedSend:
    due_ns: int
    body_bytes: int
    partition: int
    topic: int  # -1 where the application commits its transaction


class LatencyBuckets:
    sum_ns: int
    min_ns: int  # `NEVER` where there is none
    max_ns: int
    counts: Annotated[Items[int], BUCKET_COUNT]


class RecordRow:
    batch_row: int
    thread: int
    sent_at_ns: int
    body_bytes: int


class Simulation(NamedTuple):
    """A run's state, as kernels pass it on: without counting references, and inlined, it costs nothing."""

    run: RunState
    clocks: Items[int]  # a tree, see `primitives`
    producers: Items[client_state.ProducerState]
    topics: Items[client_state.TopicInfo]
    queues: Items[client_state.PartitionQueue]
    connections: Items[NodeConnection]
    brokers: Items[BrokerState]
    threads: Items[ThreadState]
    batches: Items[client_state.ProducerBatch]
    blocks: Items[client_state.RecordBlock]
    requests: Items[client_state.ClientRequest]
    bitsets: Ints  # a set in a row
    partitions: Items[int]
    queue_sizes: Items[int]  # room to weigh a topic's queues
    partition_ids: Items[int]
    distributions: Items[client_state.QuantileTable]
    idle_levels: Items[IdleLevel]
    delays: Items[DelayStep]
    error_spans: Items[ErrorWindow]
    handlers: Items[int]  # when each is free again
    targets: Items[SendTarget]
    recorded: Items[RecordedSend]
    latencies: Items[LatencyBuckets]  # by queue
    queue_times: Items[LatencyBuckets]
    request_latencies: Items[LatencyBuckets]  # by connection
    batch_rows: Items[TracedBatch]
    record_rows: Items[RecordRow]


SIMULATION = type_of(Simulation)

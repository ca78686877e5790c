"""The state of a run: what a producer and its brokers are made of, as records that kernels change in place.

Objects refer to one another by number, their place in the array of their kind. Where a number may point to no object its
array begins with a blank one: `NONE`. Times are nanoseconds since the run's start, or -1 before, unless a name ends in
`_ms`. A field named after a setting that is a distribution holds the number of its table.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.simulator.engine.latency_histogram import BUCKET_COUNT
from pipeline.simulator.engine.random_stream import TABLE_LENGTH
from pipeline.simulator.engine.records import Items, type_of

NONE = 0
NEVER = 1 << 62
ALL_FED = 1 << 62  # more than any thread sends: nothing is left to be fed
MS = 1_000_000
SECOND = 1_000_000_000
BLOCK_LENGTH = 30  # records whose times are kept together: a block of 256 bytes is four cache lines
QUOTA_RING = 16  # quota samples begin a second or more apart, and live for 11 seconds: 12 is the most

(PERF_TEST, GAPS, ON_OFF, RECORDED) = range(4)  # kinds of arrivals; see `scenario.traffic`


class RandomStream:
    """Chance for one purpose and unit; see `random_stream`."""

    key: np.uint64
    count: int  # numbers drawn so far


class QuantileTable:
    """A distribution."""

    is_constant: bool
    value: int  # if it is
    quantiles: Annotated[Items[int], TABLE_LENGTH]


class RunState:
    """The run as a whole."""

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


class ProducerState:
    """A client; its counters come first, named as in `result.ProducerCounter`."""

    sent_records: int
    refused_records: int
    blocked_ns: int
    blocked_records: int
    max_buffer_bytes: int
    sender_loops: int
    first_sent_at_ns: int
    last_sent_at_ns: int
    last_done_at_ns: int
    done_body_bytes: int
    # settings, named as in `client.Settings`
    is_java: bool
    partitioner: int  # a `partitioners.Placement`
    is_built_in: bool  # KIP-794, as drafted or released
    asks_twice: bool  # the partitioner, if a record finds no batch with room
    is_adaptive: bool
    availability_timeout_ms: int
    sticky_linger_ns: int
    batch_bytes: int
    batch_record_count: int
    linger_ns: int
    buffer_memory_bytes: int
    max_block_ns: int
    max_request_bytes: int
    max_in_flight_count: int
    acks: int
    is_idempotent: bool
    retry_count: int
    backoff_ns: int
    backoff_max_ns: int
    backoff_jitter_ppm: int
    request_timeout_ns: int
    delivery_timeout_ns: int
    drains_from_shared_index: bool
    throttles_itself: bool
    reconnect_backoff_ns: int
    compression_ratio_ppm: int  # -1 is none
    compression_overhead_bytes: int
    # costs, named as in `client.ThreadCosts`
    append_ns: int
    wake_call_ns: int
    wake_ns: int
    response_wake_ns: int
    loop_ns: int
    request_ns: int
    transit_ns: int
    timer_ns: int
    metadata_ns: int
    connect_ns: int
    wake_stream: RandomStream
    response_wake_stream: RandomStream
    backoff_stream: RandomStream
    # what belongs to it: the first of each; the others follow
    number: int
    clock: int
    first_queue: int
    first_topic: int
    first_connection: int
    # rows of `bitsets`: of its queues those with batches, now and at the last `ready()`; of brokers those with batches
    # that wait, ready, and with requests in flight
    queues_with_batches: int
    queues_at_ready: int
    brokers_with_batches: int
    ready_brokers: int
    in_flight_brokers: int
    # the accumulator
    free_bytes: int  # of buffer.memory
    first_waiting: int  # threads that wait for memory
    last_waiting: int
    ready_count: int  # calls of `ready()`
    shared_drain_index: int
    next_expiry_ns: int  # no batch expires before
    # the sender
    busy_until_ns: int
    is_called: bool
    is_waking: bool
    is_closing: bool
    running_count: int  # threads that are not done
    metadata_at_ns: int  # -1 before it is asked for


class TopicInfo:
    """What a producer's accumulator and partitioner know of a topic."""

    partition_stream: RandomStream
    first_queue: int
    partition_count: int
    first_available: int  # in `partitions`: those with a leader, as the metadata lists them
    available_count: int
    is_led: bool  # every partition has a leader
    made_count: int  # queues that were asked for once
    has_load_stats: bool  # as of the last `ready()`: KIP-794 may weigh queues
    sticky_partition: int  # of any partitioner that has one; -1 before
    produced_bytes: int  # KIP-794: since it was drawn
    drawn_at_ns: int  # librdkafka: when it was
    counter: int  # round robin
    compression_ratio: np.float32  # that batches are estimated by


class PartitionQueue:
    """Batches of one partition that wait to be sent; counters come first, named as in `result.QueueCounter`."""

    appended_records: int
    done_records: int
    failed_records: int
    done_batches: int
    failed_batches: int
    done_bytes: int
    retries: int
    capacity_bytes: int
    plain_bytes: int
    in_system_ns: int
    number: int
    partition: int  # counted over all topics
    topic: int
    connection: int  # to the leader; `NONE` without one
    place: int  # among the leader's partitions
    head: int  # batches, oldest first
    tail: int
    length: int
    batch_count: int  # made so far
    is_made: bool  # only then does the client know it
    is_muted: bool  # with one request in flight at most: a batch of it is
    next_sequence: int
    last_sent: int  # of the batches that were sent and are not done, in the order of their first sending
    length_at_ready: int  # at the producer's last `ready()`, if it changed since
    changed_at: int  # the call of `ready()` after which it did
    record_count: int  # that are in the system, for Little's law
    record_count_since_ns: int


class ProducerBatch:
    """A batch: being filled, waiting, in flight."""

    next: int  # in its queue, or among the free
    queue: int
    number: int  # within its queue, by creation
    row: int  # of the batch trace
    created_ns: int
    capacity_bytes: int  # of its buffer
    claimed_bytes: int  # of buffer.memory
    compression_ratio: np.float32
    record_count: int
    record_bytes: int  # uncompressed
    body_bytes: int
    estimated_bytes: int  # header and records as the client takes them to be; as in the log once closed for good
    size_bytes: int  # as in the log, once closed for good
    first_created_ms: int  # CreateTime of the first record
    first_block: int  # the times of its records
    last_block: int
    attempt_count: int  # times it was sent and failed
    last_attempt_ms: int
    backoff_ms: int
    sequence: int  # if idempotent; -1 before it was sent
    drained_ns: int  # into its last request
    next_in_request: int
    next_sent: int  # in its queue's list
    previous_sent: int
    send_count: int
    is_closed: bool  # it takes no more records
    is_refused: bool  # by the broker: one sent before it is missing
    is_written: bool
    is_failed: bool
    is_done: bool


class RecordBlock:
    """When records of a batch were sent."""

    next: int
    used: int
    sent_at_ns: Annotated[Items[int], BLOCK_LENGTH]


class ClientRequest:
    """A Produce request."""

    next: int  # in the broker's socket, or among the free
    next_in_flight: int
    first_batch: int
    last_batch: int
    batch_count: int
    sent_ns: int
    arrived_ns: int
    size_bytes: int
    is_error: bool
    throttle_ns: int
    holder_count: int  # the client and the connection; the last one frees it


class NodeConnection:
    """A producer's connection to a broker; counters come first, named as in `result.ConnectionCounter`."""

    requests: int
    batches: int
    bytes: int
    max_in_flight: int
    errors: int
    throttled_ns: int
    timed_out: int
    number: int
    producer: int
    broker: int
    queues_with_batches: int  # a row of `bitsets`, by place
    # the client's end
    is_connected: bool
    is_connecting: bool
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
    """How long a request takes after the connection was idle for so long."""

    from_ns: int
    request_ns: int


class DelayStep:
    """From when on a broker holds responses back, and for how long."""

    start_ns: int
    delay_ns: int


class ErrorSpan:
    """When a broker fails requests."""

    start_ns: int
    end_ns: int
    chance_ppm: int


class ThreadState:
    """A thread of the application; fields are named as in `scenario.traffic`."""

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
    # while it waits
    is_waiting: bool
    is_granted: bool
    next_waiting: int
    needed_bytes: int  # that it waits for; 0 is metadata
    queue: int  # chosen before; `NONE` where that is open
    waiting_since_ns: int


class SendTarget:
    """Where a part of a thread's records goes."""

    weight: int  # cumulative
    topic: int
    partition: int
    body_bytes: int  # of an empty value


class RecordedSend:
    """A recorded record."""

    due_ns: int
    body_bytes: int
    partition: int
    topic: int


class LatencyBuckets:
    """A histogram; see `latency_histogram`."""

    sum_ns: int
    min_ns: int  # `NEVER` where there is none
    max_ns: int
    counts: Annotated[Items[int], BUCKET_COUNT]


class BatchRow:
    """A row of the batch trace; named as in `result.BATCH_TRACE`."""

    rank: int  # by when it was done
    producer: int
    partition: int
    batch_number: int
    created_at_ns: int
    drained_at_ns: int
    done_at_ns: int
    record_count: int
    size_bytes: int
    attempt_count: int
    is_failed: bool


class RecordRow:
    """A row of the record trace; the batch knows the rest."""

    batch_row: int
    thread: int
    sent_at_ns: int
    body_bytes: int


class Simulation(NamedTuple):
    """A run's state, as kernels pass it on: without counting references, and inlined, it costs nothing."""

    run: RunState
    clocks: Items[int]  # a tree, see `clocks`
    producers: Items[ProducerState]
    topics: Items[TopicInfo]
    queues: Items[PartitionQueue]
    connections: Items[NodeConnection]
    brokers: Items[BrokerState]
    threads: Items[ThreadState]
    batches: Items[ProducerBatch]
    blocks: Items[RecordBlock]
    requests: Items[ClientRequest]
    bitsets: NDArray[np.int64]  # a set in a row
    partitions: Items[int]
    queue_sizes: Items[int]  # room to weigh a topic's queues
    partition_ids: Items[int]
    distributions: Items[QuantileTable]
    idle_levels: Items[IdleLevel]
    delays: Items[DelayStep]
    error_spans: Items[ErrorSpan]
    handlers: Items[int]  # when each is free again
    targets: Items[SendTarget]
    recorded: Items[RecordedSend]
    latencies: Items[LatencyBuckets]  # by queue
    queue_times: Items[LatencyBuckets]
    request_latencies: Items[LatencyBuckets]  # by connection
    batch_rows: Items[BatchRow]
    record_rows: Items[RecordRow]


SIMULATION = type_of(Simulation)

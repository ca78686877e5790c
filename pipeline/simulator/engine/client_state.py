"""The state of a producer: what `RecordAccumulator`, `Sender` and partitioner keep; `state` says how objects refer to others."""

from typing import Annotated

import numpy as np

from pipeline.compilation import Items
from pipeline.simulator.clients.client import Settings
from pipeline.simulator.distributions import TABLE_LENGTH

BLOCK_LENGTH = 30  # records whose times are kept together: a block of 256 bytes is four cache lines


class RandomStream:
    key: np.uint64
    count: int  # numbers drawn so far


class QuantileTable:
    is_constant: bool
    value: int  # if it is
    quantiles: Annotated[Items[int], TABLE_LENGTH]


class ProducerState(Settings):
    """A client, its settings (but texts) and its counters, which are named as in `result.ProducerCounter`."""

    sent_records: int  # calls of `send()`
    refused_records: int  # too large, or no memory within `max.block.ms`
    blocked_ns: int  # threads waiting for memory
    blocked_records: int  # that waited for memory
    max_buffer_bytes: int  # the most of `buffer.memory` in use
    sender_loops: int  # iterations of the sender
    first_sent_at_ns: int
    last_sent_at_ns: int
    last_done_at_ns: int  # the last acknowledgement's: records / (this - first sent) is the perf test's throughput
    done_body_bytes: int  # sum of the acknowledged records' bodies; see `batches.py`
    # what follows from settings
    is_java: bool
    partitioner: int  # a `partitioners.Placement`
    is_built_in: bool  # KIP-794, as drafted or released
    asks_twice: bool  # the partitioner, if a record finds no batch with room
    is_rack_aware: bool  # KIP-1123
    availability_timeout_ms: int
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
    markers_ns: int
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
    # its transactions
    coordinator: int  # a broker
    commit_count: int
    is_flushing: bool  # a thread commits: everything that waits is sent
    committing_thread: int
    has_new_partitions: bool  # that the transaction has to hold
    transactional_request: int  # that the coordinator has not answered
    is_ending: bool  # it is an `EndTxn`
    markers_until_ns: int  # until then the coordinator refuses the next transaction
    coordinator_retry_ns: int


class TopicInfo:
    partition_stream: RandomStream
    first_queue: int
    partition_count: int
    first_available: int  # in `partitions`: those with a leader, in the producer's rack if any, as metadata lists them
    available_count: int
    is_led: bool  # every partition has a leader
    made_count: int  # queues that were asked for once
    has_load_stats: bool  # as of the last `ready()`: KIP-794 may weigh queues
    sticky_partition: int  # of any partitioner that has one; -1 before
    last_partition: int  # franz-go's sticky one: that before the last new batch; -1 for none
    produced_bytes: int  # KIP-794: since it was drawn
    drawn_at_ns: int  # librdkafka: when it was
    counter: int  # round robin
    compression_ratio: np.float32  # that batches are estimated by


class PartitionQueue:
    """Batches of one partition that wait to be sent; counters come first, named as in `result.QueueCounter`."""

    appended_records: int  # put into a batch
    done_records: int  # acknowledged; with acks=0, sent
    failed_records: int  # in batches that expired or were given up
    done_batches: int
    failed_batches: int
    done_bytes: int  # of acknowledged batches, as written to the log: 61 bytes each and the records, maybe compressed
    retries: int  # batches that went back to the queue after an error
    capacity_bytes: int  # of the buffers that acknowledged batches were built in; `plain_bytes` / this: how full
    plain_bytes: int  # as `done_bytes`, before compression
    in_system_ns: int  # records x ns from append to the end, summed as the run goes on: Little's law must give the same
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
    transaction: int  # the last that holds it, counted from 1
    is_muted: bool  # a batch of it is in flight, and a second one may not be
    next_sequence: int
    last_sent: int  # of the batches that were sent and are not done, in the order of their first sending
    length_at_ready: int  # at the producer's last `ready()`, if it changed since
    changed_at: int  # the call of `ready()` after which it did
    record_count: int  # that are in the system, for Little's law
    record_count_since_ns: int


class ProducerBatch:
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
    next: int
    used: int
    sent_at_ns: Annotated[Items[int], BLOCK_LENGTH]  # when records of a batch were sent


class ClientRequest:
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

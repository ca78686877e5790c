"""Where everything lies in a run's memory: one array of int64, in which an object is the index of its first word.

A field is a number to add to it. Index 0 is no object: the world lies there, whose fields are indexes themselves. What
grows (batches, requests, the times of records, traces) is taken from the heap at the end and goes back to lists of free
objects. Counters come first in their objects, in the order of `result`'s columns.
"""

from __future__ import annotations

NONE = 0

(
    TREE,  # of clocks
    PRODUCERS,  # the first of each kind; the others follow it
    BROKERS,
    CONNECTIONS,
    LANES,
    STATES,
    THREADS,
    PRODUCER_COUNT,
    BROKER_COUNT,
    PARTITION_COUNT,
    TOPIC_COUNT,
    THREAD_COUNT,
    FIRST_SENDER,  # numbers of clocks
    FIRST_THREAD,
    NOW,
    FREE_BATCH,  # lists of free objects
    FREE_BLOCK,
    FREE_REQUEST,
    HEAP,  # its first word that was never used
    RESERVE,  # words that must be left there before an event
    IS_TRACED,
    RECORD_WORDS,  # of a record in a block: 1, or with traces 3
    LATENCIES,  # histograms: counts, and three words each for sum, least and largest
    LATENCY_EXTREMES,
    QUEUE_TIMES,
    QUEUE_TIME_EXTREMES,
    REQUEST_LATENCIES,
    REQUEST_LATENCY_EXTREMES,
    BATCH_ROWS,  # traces: first and last block
    LAST_BATCH_ROWS,
    RECORD_ROWS,
    LAST_RECORD_ROWS,
    WORLD_WORDS,
) = range(33)

# What a distribution is: whether it has one value; that value, or the index of its quantile table.
(DISTRIBUTION_IS_CONSTANT, DISTRIBUTION_VALUE, DISTRIBUTION_WORDS) = range(3)

# A stream of chance: its key's 64 bits, and how many numbers were drawn.
(STREAM_KEY, STREAM_COUNT, STREAM_WORDS) = range(3)

# Steps: how many, then all starts, then all values.
(STEPS_COUNT, STEPS_STARTS) = range(2)

# A block: the next one, and records or rows of a trace.
(BLOCK_NEXT, BLOCK_USED, BLOCK_ITEMS) = range(3)
BLOCK_WORDS = 32
BLOCK_RECORD_WORDS = BLOCK_WORDS - BLOCK_ITEMS

(
    BATCH_NEXT,  # in its lane's queue, or among the free
    BATCH_LANE,
    BATCH_NUMBER,
    BATCH_CREATED,
    BATCH_CAPACITY_BYTES,
    BATCH_CLAIMED_BYTES,
    BATCH_RATIO,  # its bits as single precision
    BATCH_RECORD_COUNT,
    BATCH_RECORD_BYTES,
    BATCH_BODY_BYTES,
    BATCH_ESTIMATED_BYTES,  # header and records as the client takes them to be; as in the log once closed for good
    BATCH_IS_CLOSED,
    BATCH_SIZE_BYTES,
    BATCH_ATTEMPT_COUNT,
    BATCH_LAST_ATTEMPT_MS,
    BATCH_BACKOFF_MS,
    BATCH_SEQUENCE,
    BATCH_FIRST_DRAINED,
    BATCH_LAST_DRAINED,
    BATCH_FIRST_MS,  # CreateTime of the first record
    BATCH_BLOCKS,  # the times of its records: first and last block
    BATCH_LAST_BLOCK,
    BATCH_NEXT_IN_REQUEST,
    BATCH_NEXT_SENT,  # in its lane's list
    BATCH_PREVIOUS_SENT,
    BATCH_SEND_COUNT,
    BATCH_IS_REFUSED,
    BATCH_IS_WRITTEN,
    BATCH_IS_DONE,
    BATCH_WORDS,
) = range(30)

# The counters that `result` names, in its order.
(
    APPENDED_RECORDS,
    DONE_RECORDS,
    FAILED_RECORDS,
    DONE_BATCHES,
    FAILED_BATCHES,
    DONE_BYTES,
    RETRIES,
    CAPACITY_BYTES,
    PLAIN_BYTES,
    IN_SYSTEM_NS,
    LANE_COUNTERS,
) = range(11)
(REQUESTS, BATCHES, BYTES, MAX_IN_FLIGHT, ERRORS, THROTTLED_NS, TIMED_OUT, CONNECTION_COUNTERS) = range(8)
(
    SENT_RECORDS,
    REFUSED_RECORDS,
    BLOCKED_NS,
    BLOCKED_RECORDS,
    MAX_BUFFER_BYTES,
    TURNS,
    FIRST_SENT_AT_NS,
    LAST_SENT_AT_NS,
    LAST_DONE_AT_NS,
    DONE_BODY_BYTES,
    PRODUCER_COUNTERS,
) = range(11)

# The partitioners that `client.Placement` numbers.
(
    BUILT_IN,
    BUILT_IN_DRAFT,
    STICKY,
    ROUND_ROBIN_TWO_TURN,
    ROUND_ROBIN,
    ROUND_ROBIN_OLD,
    TIMED_STICKY,
    RANDOM,
) = range(8)

# A lane: its counters come first.
(
    LANE_PRODUCER,
    LANE_NUMBER,
    LANE_PARTITION,  # counted over all topics
    LANE_STATE,  # of the partitioner for its topic
    LANE_CONNECTION,  # to its leader, or none
    LANE_PLACE,  # among the lanes of its connection
    LANE_HEAD,
    LANE_TAIL,
    LANE_LENGTH,
    LANE_BATCH_COUNT,
    LANE_IS_MADE,
    LANE_IS_MUTED,
    LANE_NEXT_SEQUENCE,
    LANE_LAST_SENT,  # of the batches that were sent and are not done, in the order of their first sending
    LANE_SEEN_LENGTH,  # at the sender's last turn, if it changed since
    LANE_SEEN_TURN,  # the turn after which it changed
    LANE_RECORDS,  # in the system, for Little's law
    LANE_RECORDS_SINCE,
    LANE_WORDS,
) = range(LANE_COUNTERS, LANE_COUNTERS + 19)

# A producer's partitioner for a topic.
(
    STATE_STREAM,
    STATE_STREAM_COUNT,
    STATE_LANES,
    STATE_PARTITION_COUNT,
    STATE_AVAILABLE,  # the partitions with a leader, as the metadata lists them
    STATE_AVAILABLE_COUNT,
    STATE_SCRATCH,  # lengths and partitions, to weigh queues
    STATE_IS_LED,  # all its partitions have a leader
    STATE_FIRST_PLACE,  # of its lanes among the producer's
    STATE_MADE_COUNT,
    STATE_IS_WEIGHED,  # as of the sender's last turn
    STATE_STICKY,  # KIP-480; -1 is none
    STATE_RUN,  # KIP-794: the partition, or -1
    STATE_RUN_BYTES,
    STATE_TIMED,  # librdkafka
    STATE_TIMED_AT,
    STATE_TURNS,  # round robin
    STATE_RATIO,  # of compression
    STATE_WORDS,
) = range(19)

(
    THREAD_NUMBER,
    THREAD_PRODUCER,
    THREAD_KIND,  # of arrivals
    THREAD_START,
    THREAD_END,
    THREAD_RECORD_LIMIT,
    THREAD_RATE,
    THREAD_GAP,  # distributions; of the perf test, how much it oversleeps
    THREAD_ON,
    THREAD_OFF,
    THREAD_GAP_STREAM,
    THREAD_GAP_STREAM_COUNT,
    THREAD_SIZE,
    THREAD_SIZE_STREAM,
    THREAD_SIZE_STREAM_COUNT,
    THREAD_TARGETS,
    THREAD_TARGET_COUNT,
    THREAD_TARGET_STREAM,
    THREAD_TARGET_STREAM_COUNT,
    THREAD_WAKE_CALL_STREAM,
    THREAD_WAKE_CALL_STREAM_COUNT,
    THREAD_RECORDED,  # the first recorded record
    THREAD_RECORDED_COUNT,
    THREAD_FED_COUNT,  # of them, those that are or were in memory
    THREAD_TICKS,  # asked for the next due time so often
    THREAD_DEFICIT,
    THREAD_DUE,
    THREAD_PHASE_END,
    THREAD_SENT_COUNT,
    THREAD_IS_DONE,
    THREAD_STATE,  # the record it sends: the partitioner of its topic
    THREAD_PARTITION,
    THREAD_BODY_BYTES,
    THREAD_SENT_AT,
    THREAD_CREATED_AT,
    THREAD_NEXT_WAITING,
    THREAD_NEEDED_BYTES,  # that it waits for, or got
    THREAD_LANE,  # chosen, or none where that is open
    THREAD_SINCE,
    THREAD_IS_WAITING,
    THREAD_IS_GRANTED,
    THREAD_CLOCK,
    THREAD_WORDS,
) = range(43)

(PERF_TEST, GAPS, ON_OFF, RECORDED) = range(4)

# A target of a thread.
(TARGET_WEIGHT, TARGET_STATE, TARGET_PARTITION, TARGET_BODY_BYTES, TARGET_WORDS) = range(5)

# A recorded record.
(RECORDED_DUE, RECORDED_BODY_BYTES, RECORDED_PARTITION, RECORDED_STATE, RECORDED_WORDS) = range(5)

(
    BROKER_REQUEST,  # distributions
    BROKER_IDLE,  # pairs: idle from when on, and the distribution that then holds
    BROKER_IDLE_PAIR_COUNT,
    BROKER_PARTITION,
    BROKER_KIB,
    BROKER_WARM_UP_PERCENT,
    BROKER_WARM_UP,
    BROKER_HANDLERS,  # when each is free again
    BROKER_HANDLER_COUNT,
    BROKER_DELAY,
    BROKER_OVERSLEEP,
    BROKER_REPLICA_WAIT,
    BROKER_QUOTA,
    BROKER_ERRORS,  # three words each
    BROKER_ERROR_COUNT,
    BROKER_WORDS,
) = range(16)

# A connection: its counters come first.
(
    CONNECTION_NUMBER,
    CONNECTION_PLACE,  # of its broker among all
    CONNECTION_PRODUCER,
    CONNECTION_BROKER,
    CONNECTION_LANES,  # a list
    CONNECTION_LANE_COUNT,
    CONNECTION_LANE_BITS,  # marks, by place: lanes with batches
    CONNECTION_LANE_BIT_WORDS,
    CONNECTION_HEAD,  # requests that the broker has or will read
    CONNECTION_TAIL,
    CONNECTION_FIRST_IN_FLIGHT,  # requests without a handled response
    CONNECTION_LAST_IN_FLIGHT,
    CONNECTION_IN_FLIGHT_COUNT,
    CONNECTION_FIRST_NEW,  # of them, the first that was not yet submitted
    CONNECTION_ARRIVED_COUNT,  # of them, the first: with a response that is not yet handled
    CONNECTION_IS_CONNECTED,
    CONNECTION_IS_CONNECTING,
    CONNECTION_THROTTLED_UNTIL,
    CONNECTION_IDLE_SINCE,
    CONNECTION_DEAF_UNTIL,
    CONNECTION_SERVICE,  # streams
    CONNECTION_SERVICE_COUNT,
    CONNECTION_OVERSLEEP,
    CONNECTION_OVERSLEEP_COUNT,
    CONNECTION_REPLICA_WAIT,
    CONNECTION_REPLICA_WAIT_COUNT,
    CONNECTION_ERROR,
    CONNECTION_ERROR_COUNT,
    CONNECTION_DRAIN_INDEX,
    CONNECTION_READY_MS,  # -1 before
    CONNECTION_DRAIN_MS,
    CONNECTION_IS_KEPT_WAITING,
    CONNECTION_SAMPLES,  # of the quota: a ring of starts and sums
    CONNECTION_FIRST_SAMPLE,
    CONNECTION_SAMPLE_COUNT,
    CONNECTION_WORDS,
) = range(CONNECTION_COUNTERS, CONNECTION_COUNTERS + 36)

(
    REQUEST_NEXT,  # at the broker
    REQUEST_NEXT_IN_FLIGHT,
    REQUEST_BATCHES,
    REQUEST_LAST_BATCH,
    REQUEST_BATCH_COUNT,
    REQUEST_SENT_AT,
    REQUEST_ARRIVED_AT,
    REQUEST_BYTES,
    REQUEST_IS_ERROR,
    REQUEST_THROTTLE,
    REQUEST_HOLDERS,  # client, connection
    REQUEST_WORDS,
) = range(12)

# A producer: its counters come first.
(
    PRODUCER_NUMBER,
    PRODUCER_CLOCK,
    PRODUCER_IS_JAVA,
    PRODUCER_PLACEMENT,  # settings
    PRODUCER_IS_BUILT_IN,
    PRODUCER_ASKS_TWICE,
    PRODUCER_IS_ADAPTIVE,
    PRODUCER_AVAILABILITY_TIMEOUT_MS,
    PRODUCER_STICKY_LINGER,
    PRODUCER_BATCH_BYTES,
    PRODUCER_RECORD_LIMIT,
    PRODUCER_LINGER,
    PRODUCER_BUFFER_BYTES,
    PRODUCER_MAX_BLOCK,
    PRODUCER_MAX_REQUEST_BYTES,
    PRODUCER_MAX_IN_FLIGHT,
    PRODUCER_ACKS,
    PRODUCER_IS_IDEMPOTENT,
    PRODUCER_RETRY_COUNT,
    PRODUCER_BACKOFF,
    PRODUCER_BACKOFF_MAX,
    PRODUCER_BACKOFF_JITTER_PPM,
    PRODUCER_REQUEST_TIMEOUT,
    PRODUCER_DELIVERY_TIMEOUT,
    PRODUCER_RECONNECT_BACKOFF,
    PRODUCER_SHARES_DRAIN_INDEX,
    PRODUCER_THROTTLES_ITSELF,
    PRODUCER_RATIO_PPM,  # of compression; -1 is none
    PRODUCER_OVERHEAD_BYTES,
    PRODUCER_APPEND,  # costs
    PRODUCER_WAKE_CALL,
    PRODUCER_WAKE,
    PRODUCER_RESPONSE_WAKE,
    PRODUCER_LOOP,
    PRODUCER_REQUEST,
    PRODUCER_TIMER,
    PRODUCER_METADATA,
    PRODUCER_CONNECT,
    PRODUCER_TRANSIT,
    PRODUCER_WAKE_STREAM,
    PRODUCER_WAKE_STREAM_COUNT,
    PRODUCER_RESPONSE_WAKE_STREAM,
    PRODUCER_RESPONSE_WAKE_STREAM_COUNT,
    PRODUCER_BACKOFF_STREAM,
    PRODUCER_BACKOFF_STREAM_COUNT,
    PRODUCER_LANES,  # its first one of each; the others follow
    PRODUCER_STATES,
    PRODUCER_CONNECTIONS,
    PRODUCER_LANE_BITS,  # marks: lanes with batches, brokers ready, brokers with requests in flight
    PRODUCER_LANE_BIT_WORDS,
    PRODUCER_SEEN_BITS,  # lanes with batches at the sender's last turn
    PRODUCER_BUSY_BITS,  # brokers with batches that wait
    PRODUCER_READY_BITS,
    PRODUCER_IN_FLIGHT_BITS,
    PRODUCER_BROKER_BIT_WORDS,
    PRODUCER_TURN,
    PRODUCER_FREE_BYTES,
    PRODUCER_FIRST_WAITING,  # threads
    PRODUCER_LAST_WAITING,
    PRODUCER_SHARED_DRAIN_INDEX,
    PRODUCER_EXPIRY,  # no batch expires before
    PRODUCER_BUSY_UNTIL,
    PRODUCER_IS_CALLED,
    PRODUCER_IS_WAKING,
    PRODUCER_IS_CLOSING,
    PRODUCER_RUNNING_COUNT,  # threads that are not done
    PRODUCER_METADATA_AT,  # -1 before it is asked for
    PRODUCER_WORDS,
) = range(PRODUCER_COUNTERS, PRODUCER_COUNTERS + 68)

BATCH_ROW_WORDS, RECORD_ROW_WORDS = 10, 8
ROW_SHARE_WORDS = 11
"""What a row of a trace takes of the heap, with its part of the block; kept free for what is in the system."""

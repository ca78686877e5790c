"""The reference model: what a producer and its brokers do, as plain Python, to be read and to check the kernel against.

Where to look:

- `kip_480.py` and `kip_794.py`: the two sticky partitioners; side by side they show what differs;
- `round_robin.py`, `timed_sticky.py`: the other ways to pick a partition;
- `append.py`: how a record gets into a batch, and where a partitioner is asked;
- `batch.py`, `buffer_pool.py`, `accumulator.py`: batches, memory, queues, and what is ready to be sent;
- `sender.py`: a turn of the sender's loop; `connection.py`: the broker's side of a connection;
- `arrivals.py`, `sending_thread.py`: the application;
- `run.py`: the clocks, and `simulate_reference`.

Left out: transactions; leaders that move; batches split because a broker finds them too large. Simplified: a request is
written to its socket at once; a thread that waits for memory has it the moment it is free; librdkafka's broker threads are
one sender.

The order of events, the same in the simulator:

*Clocks.* Each thing that can happen next has a clock, which shows one time or none. Clocks are numbered:

1. *responses*: one for each connection (producer, broker), number producer x brokers + broker;
2. *senders*: one for each producer, after the responses;
3. *threads*: one for each `Traffic`, in the order of producers and then of their traffic, after the senders.

The next event is that of the earliest clock, on a tie the one with the lowest number.

*Partition queues.* A producer's queue of batches for a partition has number producer x partitions + partition, where
partitions are counted over all topics of the scenario.

*Transactions.* A producer that commits has one thread. The coordinator serves its requests like others, without the
delay, which is known of Produce requests alone.

*Chance.* Each purpose and unit has a stream of random numbers, counted from 0; a distribution with one value needs no
draw:

| purpose | unit | drawn |
|---|---|---|
| `partition` | producer x topics + topic | each draw of a partition, a repeated one too |
| `gap` | thread | each gap; of on/off traffic also each length of a phase; of the perf test each oversleep |
| `value size` | thread | each record |
| `target` | thread | each record, if there are several targets |
| `wake` | producer | each wake-up of a sleeping sender by an append |
| `response wake` | producer | each wake-up of a sleeping sender by a response |
| `wake call` | thread | the first call since the sender's last `runOnce` that wakes it, asleep or not |
| `service` | connection | each request, when its service begins |
| `oversleep` | connection | each request that is delayed |
| `replica wait` | connection | each request with acks=all |
| `error` | connection | each request within an error window |
| `backoff` | producer | each batch that goes back |
| `service of the run` | broker | once, before the first event |
| `threads of the run` | producer | once, before the first event |
"""

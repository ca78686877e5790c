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
"""

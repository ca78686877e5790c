"""The event loop: accumulator, sender, brokers and their queues, as Numba kernels."""

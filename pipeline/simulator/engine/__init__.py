"""The event loop: accumulator, sender, brokers and their queues; modules that end with `compile_module` hold kernels alone."""

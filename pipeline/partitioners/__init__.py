"""Which partition every Kafka client chooses for a key: hash, mask, modulo, and the rules around them.

`hashes` and `masks` are the readable reference, `columns` hashes Arrow columns by kernels. A `strategy.Strategy` puts a
hash and a mask together with a client's rules for null and empty keys; `clients/` has one file per client, each value
naming its origin, and `registry` finds them by name, client, version and setting.
"""

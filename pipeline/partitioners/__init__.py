"""Which partition every Kafka client chooses for a key: hash, mask, modulo, and the rules around them.

`hashes` and `hash_kernels` hash keys, a `strategy.Strategy` puts a hash and a mask together with a client's rules for
null and empty keys, `clients/` has the strategies, each naming its origin, and `registry` finds them by name, client,
version, setting.
"""

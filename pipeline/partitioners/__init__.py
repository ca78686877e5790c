"""Which partition every Kafka client chooses for a key: hash, mask, modulo, and the rules around them.

`hashes` and `hash_kernels` hash keys; a `strategy.Strategy` adds a client's mask and rules for null and empty keys;
`clients/` has all of them, each naming its origin, and `registry` finds them.
"""

"""How long brokers take for the requests of a producer, from its metrics and from simulation."""

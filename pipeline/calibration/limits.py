"""Numbers that somebody chose, for all of calibration and replay; docs/evidence/constants.md says what each decides."""

MOST_STRAY = 0.05  # the part of events that may break a rule, and of runs beyond one end of a range
HALF = 0.5  # from this part on it is most of something; also the chance of either of two that nothing distinguishes
ALIKE = 0.2  # two measures of one thing agree up to this relative difference
LEAST_SAMPLE = 30  # the fewest events, batches or requests that a part, a mean or a quantile is taken from
MOST_RECORDS = 300_000  # the most records that are examined, or simulated in a run
STEPS = 5  # steps of a search
SEEDS = (1, 2)  # seeds of a trial's runs
USUAL = {
    "linger.ms": (0, 1, 2, 3, 5, 10, 15, 20, 25, 30, 40, 50, 100, 200, 250, 500, 1_000, 2_000, 3_000, 5_000),
    "batch.size": (*(1 << power for power in range(9, 24)), 10_000, 50_000, 100_000, 200_000, 500_000, 1_000_000),
}
"""Values that people usually set."""
MOST_IN_FLIGHT = 5  # Kafka's `max.in.flight.requests.per.connection`
LEAST_DELAY_MS = 1.0  # a shorter delay of a broker is not distinguished from none
LATENCY_ERROR, LATENCY_ERROR_MS = 0.03, 0.3  # the error of a latency: a part of it, and at least so many milliseconds
SHARE_BAR_POINTS = 1.75  # a broker's predicted share may be off by so many points
WIDEST_BAR_POINTS = 2 * SHARE_BAR_POINTS  # where chance explains more: a prediction that says little earns no trust
BATCH_BAR = 0.15  # predicted records per batch may be off by this part
UNTIMED_RATIO = 3.0  # a client's costs on a machine that nobody timed: half to three times those measured elsewhere

"""Numbers that somebody chose, for all of calibration and replay; docs/evidence/constants.md says what each decides."""

MOST_STRAY = 0.05  # part that may be otherwise: of events that break a rule, of runs at one side of a range
HALF = 0.5  # most of something, from here on; and how likely either of two is that nothing tells apart
ALIKE = 0.2  # relative difference up to which two measures of one thing agree
LEAST_SAMPLE = 30  # events, batches or requests from which a part, a mean or a quantile of them says something
MOST_RECORDS = 300_000  # looked at, or simulated in a run
STEPS = 5  # of a search
SEEDS = (1, 2)  # runs of a trial
USUAL = {
    "linger.ms": (0, 1, 2, 3, 5, 10, 15, 20, 25, 30, 40, 50, 100, 200, 250, 500, 1_000, 2_000, 3_000, 5_000),
    "batch.size": (*(1 << power for power in range(9, 24)), 10_000, 50_000, 100_000, 200_000, 500_000, 1_000_000),
}
"""What people write."""
MOST_IN_FLIGHT = 5  # Kafka's `max.in.flight.requests.per.connection`
LEAST_DELAY_MS = 1.0  # the shortest delay of a broker that is distinguished from none
LATENCY_ERROR, LATENCY_ERROR_MS = 0.03, 0.3  # of a latency: what grows with it, and at least
SHARE_BAR_POINTS = 1.75  # by which a broker's predicted share may be off
WIDEST_BAR_POINTS = (
    2 * SHARE_BAR_POINTS
)  # where chance explains more: a prediction that says little is no reason for trust
BATCH_BAR = 0.15  # part by which predicted records per batch may be off
UNTIMED_RATIO = (
    3.0  # what was measured elsewhere may take so many times as long on a machine that nobody timed, or half
)

"""How uneven loads are, straight from the definitions; None without load."""

import statistics


def peak_to_mean(loads):
    """Largest load over the mean."""
    return max(loads) / statistics.fmean(loads) if sum(loads) > 0 else None


def cv(loads):
    """Population standard deviation over the mean."""
    mean = statistics.fmean(loads)
    return statistics.pstdev(map(float, loads)) / mean if mean > 0 else None


def effective_partitions(loads):
    """1 over the sum of squared shares: as if that many partitions were used evenly."""
    total = sum(loads)
    return 1 / sum((load / total) ** 2 for load in loads) if total > 0 else None

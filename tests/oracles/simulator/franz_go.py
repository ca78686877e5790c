"""franz-go's partitioners of records without a key.

*Sticky* (`StickyKeyPartitioner`): every new batch, of whatever record, ends a run. The next partition is drawn; where it is
the one before, its neighbour is taken, the first after the last.

*Uniform bytes*: a run has less than 64 KiB of record bodies, whatever its batches do. The next partition is drawn with a
weight of 1 / (records that are not done + 1).

*Least backup*: every new batch ends a run. The next partition is that with the fewest records that are not done; of equals
each as likely, by reservoir sampling from the last partition on.
"""

from collections.abc import Callable, Sequence

RUN_BYTES = 65_536
NONE = -1


def draw_or_neighbour(last: int, choices: Sequence[int], draw: Callable[[int], int]) -> int:
    """Another partition than the last one, where there are two.

    >>> [draw_or_neighbour(5, (1, 3, 5), lambda count: place) for place in range(3)]
    [1, 3, 1]
    """
    place = draw(len(choices))
    return choices[(place + 1) % len(choices)] if choices[place] == last else choices[place]


def draw_by_backup(choices: Sequence[int], backups: Sequence[int], fraction: float) -> int:
    """The partition at a fraction of all weights, counted from the last one down.

    >>> [draw_by_backup((0, 1), (0, 3), fraction) for fraction in (0, 0.19, 0.21, 0.99)]
    [1, 1, 0, 0]
    """
    weights = [1 / (backup + 1) for backup in reversed(backups)]
    total = 0.0
    for weight in weights:
        total += weight
    left = total * fraction
    for choice, weight in zip(reversed(choices), weights, strict=True):
        left -= weight
        if left <= 0:
            return choice
    return choices[0]


def pick_least_backup(choices: Sequence[int], backups: Sequence[int], draw: Callable[[int], int]) -> int:
    """The partition with the fewest records.

    >>> pick_least_backup((0, 1, 2), (7, 2, 2), lambda count: 0), pick_least_backup((0, 1, 2), (7, 2, 2), lambda count: 1)
    (1, 2)
    """
    picked, equals = NONE, 0
    for place in reversed(range(len(choices))):
        if picked == NONE or backups[place] < backups[choices.index(picked)]:
            picked, equals = choices[place], 1
        elif backups[place] == backups[choices.index(picked)]:
            equals += 1
            if draw(equals) == 0:
                picked = choices[place]
    return picked

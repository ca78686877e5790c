"""Several tables of one job, written side by side."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor


def write_at_once(writes: Sequence[Callable[[], Mapping[str, int]]]) -> dict[str, int]:
    """Runs functions that write tables, each in a thread of its own.

    Each of them waits in turn for Spark, for delta-rs and for this process; together they fill the cores. Spark serves
    their jobs in the order they come. All of them end before this does, also where one fails.

    Args:
        writes: Each gives the versions of the tables it wrote; no two write the same one.

    Returns:
        All versions, in the order of the functions.

    >>> write_at_once([lambda: {"a": 1}, lambda: {"b": 2}])
    {'a': 1, 'b': 2}
    """
    if not writes:
        return {}
    with ThreadPoolExecutor(len(writes)) as pool:
        written = [pool.submit(write) for write in writes]
    return {table: version for tables in written for table, version in tables.result().items()}

"""Counts keys record by record with a dictionary: the oracle of `codec.records.key_counts`."""

from tests.scans import list_keys


def count_plainly(scans, is_skipped, limit):
    """By key records, bytes and the errors of both, in the order the keys were met; and the sums over other records.

    A key for which there is no room drops half of the keys first: those with the least records and error, the later one
    among equals.
    """
    keys = {}
    null, dropped, error = [0, 0], [0, 0], [0, 0]
    for scan in scans:
        for row, key in zip(scan.rows, list_keys(scan), strict=True):
            if is_skipped[row["batch_index"]]:
                continue
            if key is not None and key not in keys:
                if len(keys) == limit:
                    order = sorted(keys, key=lambda known: -keys[known][0] - keys[known][2])
                    for lesser in order[limit // 2 :]:
                        counts = keys.pop(lesser)
                        dropped = [dropped[0] + counts[0], dropped[1] + counts[1]]
                        error = [max(error[0], counts[0] + counts[2]), max(error[1], counts[1] + counts[3])]
                keys[key] = [0, 0, *error]
            counted = null if key is None else keys[key]
            counted[0] += 1
            counted[1] += int(row["size_bytes"])
    others = {
        **dict(zip(("null_record_count", "null_size_bytes"), null, strict=True)),
        **dict(zip(("other_record_count", "other_size_bytes"), dropped, strict=True)),
        **dict(zip(("max_count_error", "max_size_error_bytes"), error, strict=True)),
    }
    return {key: tuple(counts) for key, counts in keys.items()}, others

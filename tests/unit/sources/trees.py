"""Log trees as values: `tree({broker: {"topic-0": [(base offset, bytes), …]}})`."""

from pipeline.model.log_tree import LogDirectory, LogTree, PartitionDirectory, SegmentFile


def partition_directory(root, name, segments, **fields):
    topic, _, number = name.rpartition("-")
    last = len(segments) - 1
    return PartitionDirectory(
        path=f"{root}/{name}",
        topic=topic,
        partition=int(number),
        segments=tuple(
            SegmentFile(path=f"{root}/{name}/{base:020d}.log", base_offset=base, size_bytes=size, is_active=i == last)
            for i, (base, size) in enumerate(segments)
        ),
        **fields,
    )


def log_directory(broker_id, partitions, *, path=None, **fields):
    root = path or f"/d{broker_id}"
    held = tuple(partition_directory(root, name, segments) for name, segments in partitions.items())
    return LogDirectory(path=root, broker_id=broker_id, partitions=held, **fields)


def log_tree(brokers):
    return LogTree(directories=tuple(log_directory(broker_id, held) for broker_id, held in brokers.items()))

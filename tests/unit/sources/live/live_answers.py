"""Answers of brokers, made by hand."""

from types import SimpleNamespace

from pipeline.model.log import TopicPartition

KEY = TopicPartition("t", 0)


def asking(answer):
    """A connection whose brokers give an answer of their own each."""
    return SimpleNamespace(send=answer)


def answering(*results):
    return asking(lambda *_: SimpleNamespace(results=results))


def directory(path, *sizes, code=0):
    """A log directory with so many bytes of `t-0`, `t-1` and so on."""
    rows = [
        SimpleNamespace(partition_index=number, partition_size=size, offset_lag=0, is_future_key=False)
        for number, size in enumerate(sizes)
    ]
    topics = [SimpleNamespace(name="t", partitions=rows)]
    return SimpleNamespace(error_code=code, log_dir=path, total_bytes=9, usable_bytes=1, topics=topics)

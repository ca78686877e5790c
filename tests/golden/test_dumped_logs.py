"""Real dumps of real segments: what they show is what the segments hold. Oracle: the segments, read as files."""

import numpy as np

from pipeline.codec.log.batch_headers import HEADER_ROW
from pipeline.codec.log.segment import scan_headers
from pipeline.sources.files.dumped_logs import discover_dumps, scan_dump

TOLD = [name for name in HEADER_ROW.names if name != "base_timestamp_ms"]


def test_dumps_of_the_specimens_are_their_segments(tool_texts, specimens):
    dumped = discover_dumps([((tool_texts,), None)])
    told = [problem.reason for problem in dumped.tree.problems if "no `Dumping` line" not in problem.reason]
    refused = [reason for reason in told if "lines about records" in reason]  # the other tools' texts lie beside them
    assert len(refused) == 9
    assert len(told) == len(refused)
    seen = 0
    segments = [
        (disk, partition, each) for disk, partition in dumped.tree.iter_partitions() for each in partition.segments
    ]
    for directory, partition, segment in segments:
        scan = scan_dump(segment.dumped_in, segment.path)
        name = f"{directory.path}-{partition.topic_partition}"  # archives are named by broker and partition
        on_disk = scan_headers(specimens / name / str(partition.topic_partition) / segment.path.rpartition("/")[2])
        for field in TOLD:
            assert np.array_equal(scan.rows[field], on_disk.rows[field]), (name, field)
        assert segment.size_bytes == on_disk.valid_bytes
        seen += len(scan)
    assert len({replica.topic_partition for replica in dumped.replicas}) == 8
    assert seen > 50

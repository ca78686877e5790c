"""Text files of a log directory: as Kafka writes them, as a Windows checkout leaves them, and broken."""

import pytest

from pipeline.codec.log.log_directory import (
    MetaProperties,
    parse_leader_epochs,
    parse_meta_properties,
    parse_offset_checkpoint,
    parse_partition_metadata,
)
from pipeline.errors import InputError
from pipeline.model.log_tree import LeaderEpoch


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_offset_checkpoint(end):
    data = end.join(["0", "2", "orders 0 12", "a.b-c 11 4611686018427387904", ""]).encode()
    assert parse_offset_checkpoint(data) == {("orders", 0): 12, ("a.b-c", 11): 2**62}


@pytest.mark.parametrize("data", [b"", b"0\n0\n"])
def test_no_entries(data):
    assert parse_offset_checkpoint(data) == {}
    assert parse_leader_epochs(data) == ()


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (b"1\n0\n", 1, "expected checkpoint version 0$"),
        (b"0\n", 2, "expected a count"),
        (b"0\nx\n", 2, "expected a number$"),
        (b"0\n2\norders 0 1\n", 2, "expected 2 entries, found 1"),
        (b"0\n1\norders 0\n", 3, "expected `topic partition offset`"),
        (b"0\n2\norders 0 1\norders one 1\n", 4, "expected a number$"),
        (b"0\n1\norders 0 \xff1\n", 3, "expected text"),
        (b"0\n1\norders 0 9999999999999999999\n", 3, "expected a number from -1 to 4611686018427387904$"),
        (b"0\n1\norders 0 -2\n", 3, "expected a number from -1"),
        (b"0\n1\norders 2147483648 1\n", 3, "expected a number from -1 to 2147483647$"),
    ],
)
def test_broken_offset_checkpoint_says_which_line(data, line, reason):
    with pytest.raises(InputError, match=reason) as caught:
        parse_offset_checkpoint(data)
    assert caught.value.position == line


def test_leader_epochs():
    assert parse_leader_epochs(b"0\r\n2\r\n0 0\r\n3 117\r\n") == (
        LeaderEpoch(epoch=0, start_offset=0),
        LeaderEpoch(epoch=3, start_offset=117),
    )
    with pytest.raises(InputError, match="expected `epoch start-offset`"):
        parse_leader_epochs(b"0\n1\n0 0 0\n")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"#\n#Mon Apr 02\nversion=0\nbroker.id=1\n", (1, None, None)),
        (b"version=0\r\nbroker.id=7\r\ncluster.id=abc\r\n", (7, "abc", None)),
        (b"node.id=100\ndirectory.id=d\nversion=1\ncluster.id=c\n", (100, "c", "d")),
        (b"version=0\n", (None, None, None)),
    ],
)
def test_meta_properties(data, expected):
    assert parse_meta_properties(data) == MetaProperties(*expected)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"broker.id=1\n", "no `version`"),
        (b"version=2\n", "version 2, expected 0 or 1"),
        (b"version=0\nbroker.id=one\n", "expected a number$"),
        (b"version=0\nbroker.id\n", "expected `name=value`"),
        (b"version=1\nnode.id=9999999999999999999\n", "expected a number from 0 to 2147483647$"),
        (b"version=1\nnode.id=2147483648\n", "expected a number from 0 to 2147483647$"),
        (b"version=1\nnode.id=-7\n", "expected a number from 0 to 2147483647$"),
    ],
)
def test_broken_meta_properties(data, reason):
    with pytest.raises(InputError, match=reason):
        parse_meta_properties(data)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_partition_metadata(end):
    assert parse_partition_metadata(f"version: 0{end}topic_id: gDY-1ROJSyK2s_UOjvrR2g".encode()) == (
        "gDY-1ROJSyK2s_UOjvrR2g"
    )


@pytest.mark.parametrize("data", [b"", b"version: 1\ntopic_id: gDY-1ROJSyK2s_UOjvrR2g", b"version: 0\ntopic_id: x"])
def test_broken_partition_metadata(data):
    with pytest.raises(InputError, match=r"partition\.metadata"):
        parse_partition_metadata(data)

"""The lab's own parts: the proxy that delays, the archive that is the same bytes for the same files."""

import os
import time

from confluent_kafka import Producer

from tests.lab.archive import pack, unpack
from tests.lab.cluster import start_cluster
from tests.lab.process import PATIENCE_S, free_ports
from tests.lab.proxy import start_proxy


def acknowledge_one_by_one(producer, count):
    """Times from handing a record over to its acknowledgement, ms; never two records on the way."""
    times_ms = []
    for _ in range(count):
        begin = time.perf_counter()
        producer.produce("slow-lane", b"x")
        assert producer.flush(PATIENCE_S) == 0
        times_ms.append((time.perf_counter() - begin) * 1000)
    return times_ms


def test_proxy_holds_produce_responses_only_while_its_schedule_says_so(tmp_path):
    """A held answer comes 20 ms late, never earlier; outside the schedule it comes sooner than that."""
    [advertised, port] = free_ports(2)
    with (
        start_proxy([(advertised, port)], tmp_path / "proxy.log") as proxy,
        start_cluster(tmp_path, client_ports=[port], advertised_ports=[advertised]) as cluster,
    ):
        cluster.create_topic("slow-lane")
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
        before = acknowledge_one_by_one(producer, 20)
        now_ms = time.time_ns() // 1_000_000
        proxy.slow(0, now_ms - 1000, now_ms + 600_000, delay_ms=20)
        during = acknowledge_one_by_one(producer, 20)

    assert min(during) >= 20
    assert min(before) < min(during)


def test_proxy_answers_an_order_that_it_had_long_ago(tmp_path):
    """More answers lie between than an error would quote."""
    far_ms = 10**15
    with start_proxy([tuple(free_ports(2))], tmp_path / "proxy.log") as proxy:
        proxy.slow(0, 0, 0, 0)
        for at_ms in range(far_ms, far_ms + 70):
            proxy.slow_too(0, at_ms, at_ms + 1, 1)
        assert "slow 0 0 0 0" not in proxy.process.tail()
        proxy.slow(0, 0, 0, 0)


def test_archive_is_the_same_bytes_for_the_same_files(tmp_path):
    """Round trip, and equal bytes from folders written in another order."""
    archives = []
    for number, names in enumerate((["a", "b/c"], ["b/c", "a"])):
        folder = tmp_path / str(number) / "capture"
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(name * 100)
        for path in folder.rglob("*"):
            os.utime(path, (1_700_000_000, 1_700_000_000))
        archives.append(tmp_path / f"{number}.tar.zst")
        pack(folder, archives[-1])

    assert archives[0].read_bytes() == archives[1].read_bytes()
    assert (unpack(archives[0], tmp_path / "out") / "b/c").read_text() == "b/c" * 100

"""What the harness reads from the proxy's notes, and how it becomes a simulated broker."""

import numpy as np

from pipeline.simulator.scenario.measured import MEASURED_SERVICE
from tests.lab.fidelity.profile import make_service, measure_spread
from tests.lab.fidelity.services import QUANTILES, join_services, read_requests, summarise_services

MS = 1_000_000
HEADER = "broker\tconnection\tpartitions\tbytes\tarrived_ns\tanswered_ns\treleased_ns\twritten_ns"


def make_requests(count, *, broker=0, gap_ns=30 * MS, service_ns=MS, hold_ns=0, size=1000, partitions=1):
    """Requests evenly apart, each answered after the same time."""
    arrived = np.arange(1, count + 1) * gap_ns
    answered = arrived + service_ns
    released = answered + hold_ns
    same = np.ones(count, np.int64)
    return np.c_[
        broker * same, 7 * same, partitions * same, size * same, arrived, answered, released, released + 1000
    ].astype(np.int64)


def test_rest_counts_from_the_brokers_own_answer():
    """Not from the release of the answer that the proxy held back for 20 ms."""
    rows = join_services(make_requests(3, hold_ns=20 * MS))

    assert rows.tolist() == [[1000, 0, MS, 29 * MS, 0]] * 2


def test_a_request_that_waited_in_the_socket_is_served_from_the_release_on():
    """It is read at once after the answer before it is written."""
    requests = make_requests(2, gap_ns=30 * MS, hold_ns=20 * MS)
    requests[1, 4] = requests[0, 7] + 20_000
    requests[1, 5] = requests[0, 6] + 3 * MS

    assert join_services(requests).tolist() == [[1000, 0, 3 * MS, 20 * MS, 1]]


def test_service_without_its_bytes_and_partitions():
    """Half of the requests are large: what a KiB takes is found, and taken off, as each further partition is."""
    small = make_requests(200, partitions=2, service_ns=MS + MEASURED_SERVICE.partition_ns)
    large = make_requests(200, size=17_384, partitions=1, service_ns=MS + 16 * 10_000)
    requests = np.concatenate([small, large])[np.argsort(np.r_[np.arange(200) * 2, np.arange(200) * 2 + 1])]
    requests[:, 4:] += (np.arange(400) * 30 * MS - requests[:, 4])[:, None]

    found = summarise_services(requests, {})["0"]

    assert found["kib_ns"] == 10_000
    assert found["hold_beyond"] is None
    service = make_service(found)
    assert service.kib_ns == 10_000
    assert abs(service.request_ns.points[QUANTILES.index(0.5)][1] - (MS - 10_000)) < 500


def test_held_responses_tell_how_much_longer_than_asked():
    """Two delays in turn; one answer went 3 ms late."""
    requests = np.concatenate(
        [make_requests(100, broker=2, hold_ns=hold_ns) for hold_ns in (20 * MS + 90_000, 5 * MS + 90_000)]
    )
    requests[7, 6] += 3 * MS

    found = summarise_services(requests, {2: (20.0, 5.0)})["2"]["hold_beyond"]

    assert (found["count"], found["ns"][QUANTILES.index(0.9)], found["ns"][-1]) == (200, 90_000, 3 * MS + 90_000)


def test_requests_of_the_warm_up_are_left_out(tmp_path):
    """Those that arrived before the start."""
    notes = make_requests(4)
    text = "\n".join("\t".join(map(str, row)) for row in reversed(notes.tolist()))
    (tmp_path / "notes.tsv").write_text(f"{HEADER}\n{text}\n")

    assert read_requests(tmp_path / "notes.tsv", from_ns=60 * MS)[:, 4].tolist() == [60 * MS, 90 * MS, 120 * MS]


def test_spread_of_threads_between_timings():
    """A second timing of the first load, twice as slow in half of its costs; another load does not count."""
    names = ("returned_to_ready", "released_to_ready", "turn_to_turn_awake", "ready_to_arrived_idle")

    def timing(*medians):
        return {"sender": {name: {"ns": [each] * len(QUANTILES)} for name, each in zip(names, medians, strict=True)}}

    timings = {
        "3.9.1": timing(10, 10, 10, 10),
        "3.9.1, again 1": timing(20, 20, 10, 10),
        "bursts": timing(90, 90, 90, 90),
    }

    assert measure_spread(timings).points == ((0.0, 1_000_000), (1.0, 1_500_000))

"""Sessions of a recording on brokers 4.4.0 whose clients push telemetry (KIP-714). Oracle: the clients were 4.4.0."""

from tests.lab.bench.telemetry_bench import judge


def test_telemetry_names_the_version_of_every_session(tmp_path):
    ranges, trusted = judge("plain", tmp_path, is_told=True)
    assert ranges == {"4.4.0, as the client tells"}
    assert trusted[2] == 1  # latency, which nothing tests without metrics

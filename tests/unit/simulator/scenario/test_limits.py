"""The least and the largest number that each key of a scenario takes; the next one on either side is refused."""

import pytest

from pipeline.config.yaml_file import parse_yaml
from pipeline.errors import ConfigError
from pipeline.simulator.scenario.cluster_section import (
    BrokerSection,
    ClusterSection,
    ErrorSection,
    ServiceSection,
    TopicSection,
)
from pipeline.simulator.scenario.scenario_section import ProducerSection
from pipeline.simulator.scenario.traffic_section import (
    KeysSection,
    PerfTestArrivals,
    SteadyArrivals,
    TrafficSection,
    read_recorded,
)

INT32, INT64 = 2**31 - 1, 2**63 - 1  # Kafka's broker ids and numbers of records
ARRIVALS = "arrivals: {kind: constant, records_per_s: 1}"
TRAFFIC = f"traffic: {{{ARRIVALS}, records: 1, value_bytes: 1}}"


@pytest.mark.parametrize(
    ("section", "text", "taken", "refused"),
    [
        (ClusterSection, "{brokers: X}", (1, 1_000), (0, 1_001)),
        (BrokerSection, "{id: X}", (0, INT32), (-1, INT32 + 1)),
        (BrokerSection, "{id: 0, capacity: X}", (0.001, 1_000), (0.0009, 1_000.1)),
        (BrokerSection, "{id: 0, handlers: X}", (0, INT32), (-1, INT32 + 1)),
        (BrokerSection, "{id: 0, quota_bytes_per_s: X}", (1, INT64), (0, INT64 + 1)),
        (ServiceSection, "{request_ms: 1, partition_ms: X}", (0, 86_400_000), (-0.1, 86_400_001)),
        (ServiceSection, "{request_ms: 1, warm_up_ratio: X}", (1, 1_000_000), (0.9, 1_000_001)),
        (ServiceSection, "{request_ms: 1, warm_up_s: X}", (0, 315_360_000), (-0.1, 315_360_001)),  # ten years
        (ErrorSection, "{from_s: 0, to_s: 1, ratio: X}", (0, 1), (-0.1, 1.1)),
        (TopicSection, "{name: a, partitions: X}", (1, 100_000), (0, 100_001)),
        (PerfTestArrivals, "{kind: perf_test, records_per_s: X}", (0, 100_000_000), (-1, 100_000_001)),
        (SteadyArrivals, "{kind: poisson, records_per_s: X}", (0.000001, 100_000_000), (0, 100_000_001)),
        (KeysSection, "{count: X, bytes: 6}", (1, 1_000_000), (0, 1_000_001)),
        (KeysSection, "{count: 1, bytes: X}", (1, 10_000), (0, 10_001)),
        (KeysSection, "{count: 1, bytes: 1, zipf_exponent: X}", (0, 10), (-0.1, 10.1)),
        (TrafficSection, f"{{{ARRIVALS}, value_bytes: 1, records: X}}", (1, INT64), (0, INT64 + 1)),
        (TrafficSection, f"{{{ARRIVALS}, value_bytes: 1, records: 1, threads: X}}", (1, 10_000), (0, 10_001)),
        (ProducerSection, f"{{name: a, {TRAFFIC}, count: X}}", (1, 10_000), (0, 10_001)),
        (ProducerSection, f"{{name: a, {TRAFFIC}, compression_ratio: X}}", (0.001, 2), (0.0009, 2.1)),
    ],
)
def test_numbers_at_and_beyond_their_limits(section, text, taken, refused):
    def read(value):
        return parse_yaml(text.replace("X", f"{value}"), "s.yaml").validate(section)

    for value in taken:
        assert read(value)
    for value in refused:
        with pytest.raises(ConfigError, match=rf"^s\.yaml:1:\d+: .*: found {value}; expected "):
            read(value)


@pytest.mark.parametrize("at_ms", ["-1", "inf", "nan", "1e300"])
def test_a_recorded_time_that_no_clock_shows_is_refused(at_ms, tmp_path):
    path = tmp_path / "recorded.csv"
    path.write_text(f"at_ms,value_bytes\n0.5,1\n{at_ms},1\n")
    with pytest.raises(ConfigError, match="column at_ms"):
        read_recorded(path, None, "")

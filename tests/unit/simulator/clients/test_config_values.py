"""What a client takes as the value of a config. Oracle: Kafka's `ConfigDef.parseType`, librdkafka's CONFIGURATION.md."""

import pytest

from pipeline.errors import ConfigError
from pipeline.simulator.clients.producer_configs import JAVA, LIBRDKAFKA, NEWEST, find_config

INT32, INT64 = 2**31, 2**63


@pytest.mark.parametrize(
    ("client", "name", "text", "value"),
    [
        # a type's largest and least value, where the client sets no limit of its own
        (JAVA, "batch.size", f"{INT32 - 1}", INT32 - 1),
        (JAVA, "transaction.timeout.ms", f"{-INT32}", -INT32),
        (JAVA, "linger.ms", f"{INT64 - 1}", INT64 - 1),
        (JAVA, "sasl.login.retry.backoff.ms", f"{-INT64}", -INT64),
        # the ends of a range
        (JAVA, "sasl.login.refresh.buffer.seconds", "3600", 3600),
        (JAVA, "compression.gzip.level", "1", 1),
        (JAVA, "compression.gzip.level", "9", 9),
        (JAVA, "sasl.login.refresh.window.factor", "0.5", 0.5),
        (JAVA, "sasl.login.refresh.window.factor", "1", 1.0),
        (LIBRDKAFKA, "request.required.acks", "1000", 1000),
        (LIBRDKAFKA, "request.required.acks", "all", "all"),
        (LIBRDKAFKA, "linger.ms", "0.5", 0.5),
        # how it is written
        (JAVA, "linger.ms", " 20 ", 20),
        (JAVA, "linger.ms", "+20", 20),
        (JAVA, "enable.idempotence", "FALSE", False),
        (JAVA, "compression.type", "zstd", "zstd"),
        (JAVA, "transactional.id", None, None),
        (JAVA, "transactional.id", "null", None),
    ],
)
def test_values_that_a_client_takes(client, name, text, value):
    assert find_config(client, NEWEST[client], name).parse(text) == value


@pytest.mark.parametrize(
    ("client", "name", "text", "expected"),
    [
        (JAVA, "batch.size", f"{INT32}", "a whole number, 0 or more"),
        (JAVA, "transaction.timeout.ms", f"{-INT32 - 1}", "a whole number"),
        (JAVA, "linger.ms", f"{INT64}", "a whole number, 0 or more"),
        (JAVA, "sasl.login.retry.backoff.ms", f"{-INT64 - 1}", "a whole number"),
        (JAVA, "sasl.login.refresh.buffer.seconds", "3601", "a whole number from 0 to 3600"),
        (JAVA, "compression.gzip.level", "0", "a whole number from 1 to 9 or -1"),
        (JAVA, "compression.gzip.level", "10", "a whole number from 1 to 9 or -1"),
        (JAVA, "sasl.login.refresh.window.factor", "0.4", "a number from 0.5 to 1.0"),
        (JAVA, "sasl.login.refresh.window.factor", "1.1", "a number from 0.5 to 1.0"),
        (LIBRDKAFKA, "request.required.acks", "1001", "a whole number from -1 to 1000 or all"),
        (LIBRDKAFKA, "linger.ms", "nan", "a number from 0 to 900000"),
        (JAVA, "linger.ms", "", "a whole number, 0 or more"),
        (JAVA, "linger.ms", "1_000", "a whole number, 0 or more"),
        (JAVA, "linger.ms", "0x10", "a whole number, 0 or more"),
        (JAVA, "linger.ms", "1e3", "a whole number, 0 or more"),
        (JAVA, "enable.idempotence", "1", "true or false"),
        (JAVA, "compression.type", "brotli", "none, gzip, snappy, lz4 or zstd"),
    ],
)
def test_values_that_a_client_refuses(client, name, text, expected):
    with pytest.raises(ConfigError) as caught:
        find_config(client, NEWEST[client], name).parse(text)
    assert str(caught.value) == f"{name}: {text!r}; expected {expected}"


def test_a_config_with_valid_values_is_not_null():
    with pytest.raises(ConfigError, match=r"linger\.ms: null; expected a whole number, 0 or more"):
        find_config(JAVA, NEWEST[JAVA], "linger.ms").parse("null")

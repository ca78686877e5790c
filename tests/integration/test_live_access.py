"""A broker that asks for TLS and a login, and lets one principal read one topic: what works, and why the rest does not."""

from __future__ import annotations

import socket

import pytest
import yaml
from confluent_kafka import Producer
from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from pipeline.cli.doctor import examine_source
from pipeline.errors import SourceUnreachableError
from pipeline.sources.kinds.live_cluster import LiveCluster
from pipeline.sources.live.checkup import examine_live_cluster
from pipeline.sources.live.connection import connect
from tests.integration.command_line import places_of, run_command
from tests.lab.certificates import write_certificates
from tests.lab.cluster import start_cluster
from tests.lab.live_traffic import MINUTE_MS, past_minutes
from tests.lab.relay import counting_relay
from tests.spark.capture_runs import stored

pytestmark = pytest.mark.timeout(900)

PASSWORD = "correct-horse-battery-staple-7261"
VARIABLE = "PARTITION_HEALTH_TEST_PASSWORD"
RECORDS = 2_000


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return write_certificates(tmp_path_factory.mktemp("certificates"), "lab")


@pytest.fixture(scope="module")
def cluster(certificates, tmp_path_factory):
    ca_file, broker_file = certificates
    authorizer = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    settings = {
        **authorizer,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,CLIENT:SASL_SSL,INTERNAL:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(broker_file),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca_file),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.client.plain.sasl.jaas.config": (
            f'org.apache.kafka.common.security.plain.PlainLoginModule required user_other="{PASSWORD}";'
        ),
        "listener.name.client.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }
    folder = tmp_path_factory.mktemp("access")
    with start_cluster(folder, 1, settings=settings, controller_settings=authorizer, heap_mb=256) as running:
        for topic in ("orders", "secrets"):
            running.create_topic(topic, partitions=2)
        credential = f"SCRAM-SHA-512=[iterations=4096,password={PASSWORD}]"
        for user in ("reader", "stranger"):
            running.run_tool(
                "kafka-configs", "--alter", "--add-config", credential, "--entity-type", "users", "--entity-name", user
            )
        allow_reading(running.internal_bootstrap, "orders")
        running.start_ms = past_minutes()
        producer = Producer({"bootstrap.servers": running.internal_bootstrap})
        for i in range(RECORDS):
            topic = "orders" if i % 2 else "secrets"
            producer.produce(topic, b"x" * 50, key=b"%d" % i, timestamp=running.start_ms + i * MINUTE_MS // RECORDS)
        producer.flush()
        yield running


def allow_reading(bootstrap, topic):
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_acls(
            [
                ACL(
                    "User:reader",
                    "*",
                    ACLOperation.READ,
                    ACLPermissionType.ALLOW,
                    ResourcePattern(ResourceType.TOPIC, topic),
                )
            ]
        )


@pytest.fixture
def password(monkeypatch):
    monkeypatch.setenv(VARIABLE, PASSWORD)


def source(port, ca_file=None, *, mechanism="SCRAM-SHA-512", protocol="SASL_SSL", host="127.0.0.1", user="reader"):
    client = {"security.protocol": protocol}
    if "SASL" in protocol:
        client |= {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password_variable": VARIABLE}
    if "SSL" in protocol and ca_file is not None:
        client["ssl.truststore.location"] = str(ca_file)
    return LiveCluster(kind="live_cluster", bootstrap_servers=f"{host}:{port}", client=client, connect_timeout="PT10S")


def cause_of(live):
    with pytest.raises(SourceUnreachableError) as raised, connect(live):
        pass
    return str(raised.value)


def test_a_principal_that_may_only_read_gets_records_and_is_told_what_it_lacks(cluster, certificates, password):
    found = {c.name: c for c in examine_live_cluster(source(cluster.brokers[0].client_port, certificates[0]))}
    assert all(check.is_ok for check in found.values()), found
    assert "2 partitions we may see" in found["connection"].found
    assert "record batches of orders-" in found["records"].found
    for question in ("replica sizes", "broker configs"):
        assert "not answered" in found[question].found


def test_a_principal_that_may_see_nothing_is_told_which_permission_is_missing(cluster, certificates, password):
    stranger = source(cluster.brokers[0].client_port, certificates[0], user="stranger")
    wrong = {c.name: c for c in examine_source("prod", stranger) if not c.is_ok}
    assert wrong.keys() == {"prod: live_cluster, connection"}
    (found,) = wrong.values()
    assert "1 brokers, 0 partitions we may see" in found.found
    assert "allow Describe and Read on the topics" in found.advice
    assert not any("gives" in c.name for c in examine_source("prod", stranger))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"protocol": "PLAINTEXT"}, "plain text was sent to a port that speaks TLS"),
        ({"protocol": "SASL_PLAINTEXT"}, "plain text was sent to a port that speaks TLS"),
        ({"protocol": "SSL"}, "security.protocol should be with SASL"),
        ({"mechanism": "SCRAM-SHA-256"}, "SCRAM-SHA-256 is not offered"),
        ({"user": "nobody"}, "the login of nobody by SCRAM-SHA-512 is refused"),
        ({"mechanism": "PLAIN"}, "the login of reader by PLAIN is refused"),
        ({"ca_file": None}, "certificate is not accepted"),
        ({"host": "no-such-host.invalid"}, "does not resolve"),
    ],
)
def test_the_cause_is_found_where_the_client_only_says_timeout(cluster, certificates, password, change, said):
    port = cluster.brokers[0].client_port
    assert said in cause_of(source(port, **{"ca_file": certificates[0], **change}))


def test_a_plain_port(cluster, certificates, password):
    port = cluster.brokers[0].internal_port
    assert "TLS was tried on a port that speaks plain text" in cause_of(source(port, certificates[0]))
    assert "asks for none" in cause_of(source(port, protocol="SASL_PLAINTEXT"))


def test_a_closed_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert "refuses connections" in cause_of(source(port, protocol="PLAINTEXT"))


def test_a_wrong_password_is_tried_once(cluster, certificates, monkeypatch):
    monkeypatch.setenv(VARIABLE, "wrong")
    with counting_relay(cluster.brokers[0].client_port) as (port, made):
        said = cause_of(source(port, certificates[0]))
    assert "the login of reader by SCRAM-SHA-512 is refused" in said
    assert "wrong" not in said
    assert len(made) == 1


def test_a_whole_run_leaves_the_secret_nowhere(cluster, certificates, tmp_path):
    live = source(cluster.brokers[0].client_port, certificates[0])
    document = {
        "warehouse": "warehouse",
        "outbox": "outbox",
        "window": "PT1M",
        "keys": {"secret": str(tmp_path / "kept" / "secret")},
        "clusters": {"guarded": {"sources": [yaml.safe_load(live.model_dump_json(by_alias=True, exclude_none=True))]}},
    }
    printed = run_command(tmp_path, document, cluster.start_ms, "PT1M", {VARIABLE: PASSWORD})
    (traffic,) = [
        sum(
            row["record_count"]
            for row in stored(tmp_path / "warehouse", "silver.partition_traffic")
            if row["topic"] == topic
        )
        for topic in ("orders",)
    ]
    assert traffic == RECORDS // 2
    assert {row["topic"] for row in stored(tmp_path / "warehouse", "silver.partition_traffic")} == {"orders"}
    assert PASSWORD not in printed
    assert places_of(PASSWORD, tmp_path, tmp_path / "warehouse") == []
    parts = [row for row in stored(tmp_path / "warehouse", "bronze.cluster_state") if row["topic"] == "orders"]
    assert {row["size_bytes"] for row in parts} == {None}  # it may not ask, and nothing is made up
    assert any(
        "replica sizes" in row["reason"] or "broker" in row["reason"]
        for row in stored(tmp_path / "warehouse", "bronze.quarantine")
    )

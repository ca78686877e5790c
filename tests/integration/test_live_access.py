"""A broker that asks for TLS and a login, and lets one principal read one topic: what works, and why the rest does not."""

import json
import logging
import os
import re
import subprocess
import sys
import time
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import parse_qs

import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from kafka import KafkaAdminClient, KafkaConsumer
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from pipeline.cli.doctor import try_source
from pipeline.errors import SourceUnreachableError
from pipeline.model.window import milliseconds_of
from pipeline.sources.kinds.live_cluster import LiveCluster
from pipeline.sources.live.checkup import examine_live_cluster
from pipeline.sources.live.connection import connect
from pipeline.sources.live.state import read_live_state
from tests.integration.command_line import HEALTHY_OR_NOT, ROOT, places_of, run_command
from tests.integration.live.runs import wait_until
from tests.lab.certificates import write_certificates
from tests.lab.cluster import start_cluster
from tests.lab.live_traffic import MINUTE_MS, past_minutes
from tests.lab.process import free_ports
from tests.lab.relay import counting_relay
from tests.spark.capture_runs import stored
from tests.unit.sources.http_servers import running

PAPER = ROOT / "docs" / "CONFIGURATION.md"
PASSWORD = "correct-horse-battery-staple-7261"
VARIABLE = "PARTITION_HEALTH_TEST_PASSWORD"
RECORDS = 2_000


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return write_certificates(tmp_path_factory.mktemp("certificates"), "lab", client="reader")


@pytest.fixture(scope="module")
def cluster(certificates, tmp_path_factory):
    ca_file, broker_file, _ = certificates
    authorizer = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    settings = {
        **authorizer,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,CLIENT:SASL_SSL,INTERNAL:PLAINTEXT,MUTUAL:SSL",
        "listener.name.mutual.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(broker_file),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca_file),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.client.plain.sasl.jaas.config": (
            f'org.apache.kafka.common.security.plain.PlainLoginModule required user_other="{PASSWORD}";'
        ),
        "listener.name.client.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "listener.name.client.oauthbearer.sasl.jaas.config": (  # without a handler of its own it takes tokens unsigned
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredLoginStringClaim_sub="broker";'
        ),
    }
    folder = tmp_path_factory.mktemp("access")
    listeners = dict(zip(("MUTUAL",), free_ports(1), strict=True))
    with start_cluster(
        folder, 1, settings=settings, controller_settings=authorizer, listeners=listeners, is_brief=True
    ) as running:
        for topic in ("orders", "secrets"):
            running.create_topic(topic, partitions=2)
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        users = ("reader", "stranger", "starter", *(f"without-{number}" for number in range(len(EVERYTHING))))
        credentials = [UserScramCredentialUpsertion(user, info, PASSWORD.encode()) for user in users]
        admin = AdminClient({"bootstrap.servers": running.internal_bootstrap, "logger": logging.getLogger("lab")})
        for done in admin.alter_user_scram_credentials(credentials).values():
            done.result()
        for user in ("reader", "CN=reader"):
            orders = ResourcePattern(ResourceType.TOPIC, "orders")
            allow(running.internal_bootstrap, user, [(orders, ACLOperation.READ)])
        running.start_ms = past_minutes()
        producer = Producer({"bootstrap.servers": running.internal_bootstrap})
        for i in range(RECORDS):
            topic = "orders" if i % 2 else "secrets"
            producer.produce(topic, b"x" * 50, key=b"%d" % i, timestamp=running.start_ms + i * MINUTE_MS // RECORDS)
        running.create_topic("recent", partitions=2)
        allow(running.internal_bootstrap, "starter", EVERYTHING)
        running.now_ms = time.time_ns() // 1_000_000 // MINUTE_MS * MINUTE_MS
        for stamp in recent_stamps(running):
            if stamp % MINUTE_MS == 0:
                producer.flush()  # a batch belongs to one minute
            producer.produce("recent", b"x" * 50, timestamp=stamp)
        producer.flush()
        settings = {"group_id": "billing", "auto_offset_reset": "earliest"}
        with KafkaConsumer("recent", bootstrap_servers=running.internal_bootstrap, **settings) as consumer:
            wait_until(lambda: consumer.poll(timeout_ms=500, max_records=1), "record for the group")
            consumer.commit()
        yield running


def recent_stamps(cluster):
    """Ten records a minute of four hours, whatever hour is over when somebody asks."""
    return range(cluster.now_ms - 4 * 60 * MINUTE_MS, cluster.now_ms, MINUTE_MS // 10)


TOPICS, GROUPS = ResourcePattern(ResourceType.TOPIC, "*"), ResourcePattern(ResourceType.GROUP, "*")
CLUSTER = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")
TOPICS_READ, TOPICS_CONFIGS = (TOPICS, ACLOperation.READ), (TOPICS, ACLOperation.DESCRIBE_CONFIGS)
CLUSTER_DESCRIBE, CLUSTER_CONFIGS = (CLUSTER, ACLOperation.DESCRIBE), (CLUSTER, ACLOperation.DESCRIBE_CONFIGS)
GROUPS_DESCRIBE = (GROUPS, ACLOperation.DESCRIBE)
EVERYTHING = (TOPICS_READ, TOPICS_CONFIGS, CLUSTER_DESCRIBE, CLUSTER_CONFIGS, GROUPS_DESCRIBE)
"""What `docs/CONFIGURATION.md` lists."""


def allow(bootstrap, user, permissions):
    """Gives a user its first permissions; returns once the broker has them from the controller."""
    name = f"User:{user}"
    anything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    given = ACLFilter(name, "*", ACLOperation.ANY, ACLPermissionType.ANY, anything)
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_acls([ACL(name, "*", operation, ACLPermissionType.ALLOW, on) for on, operation in permissions])
        wait_until(lambda: len(admin.describe_acls(given)[0]) == len(permissions), f"permissions of {user}")


@pytest.fixture
def password(monkeypatch):
    monkeypatch.setenv(VARIABLE, PASSWORD)


@pytest.fixture
def token_endpoint():
    """The address of an OAuth 2 server that knows one client, and how often it was asked."""
    asked = []

    def answer(request, body):
        asked.append(parse_qs(body.decode()))
        known = request.headers["Authorization"] == "Basic " + b64encode(f"starter:{PASSWORD}".encode()).decode()
        now = time.time()
        claims = {"sub": "starter", "iat": now, "exp": now + 3600, "scope": "kafka"}
        parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
        token = "".join(f"{urlsafe_b64encode(part).decode().rstrip('=')}." for part in parts)
        told = {"access_token": token, "expires_in": 3600} if known else {"error": "invalid_client"}
        return 200 if known else 401, [json.dumps(told).encode()]

    with running(answer) as url:
        yield f"{url}/token", asked


def oauth_source(cluster, ca_file, url):
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.username": "starter",
        "sasl.password_variable": VARIABLE,
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.scope": "kafka",
        "ssl.truststore.location": str(ca_file),
    }
    address = f"127.0.0.1:{cluster.brokers[0].client_port}"
    return LiveCluster(kind="live_cluster", bootstrap_servers=address, client=settings, connect_timeout="PT10S")


def test_a_token_of_an_oauth_server_logs_in(cluster, certificates, password, token_endpoint):
    url, asked = token_endpoint
    found = {c.name: c for c in examine_live_cluster(oauth_source(cluster, certificates[0], url))}
    assert all(check.is_ok for check in found.values()), found
    assert asked[0] == {"grant_type": ["client_credentials"], "scope": ["kafka"]}
    assert len(asked) <= 2  # one for the diagnosis, one for all connections of the client


def test_a_server_that_gives_no_token_is_named(cluster, certificates, token_endpoint, monkeypatch):
    url, asked = token_endpoint
    monkeypatch.setenv(VARIABLE, "wrong")
    said = cause_of(oauth_source(cluster, certificates[0], url))
    assert f"{url} refuses starter: HTTP 401" in said
    assert len(asked) == 1
    away = cause_of(oauth_source(cluster, certificates[0], "http://127.0.0.1:1/token"))
    assert "http://127.0.0.1:1/token gives no token: ConnectError" in away


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
    assert "2 visible partitions" in found["connection"].found
    assert "record batches of orders-" in found["records"].found
    for question in ("replica sizes", "broker configs"):
        assert "not answered" in found[question].found


@pytest.mark.parametrize(("user", "denied"), [("reader", {"secrets", "none"}), ("starter", set())])
def test_topics_that_a_principal_may_not_describe_are_named(cluster, certificates, password, user, denied):
    """Without Describe a principal is refused whether or not the topic exists; with it the broker says that it does not."""
    with connect(source(cluster.brokers[0].client_port, certificates[0], user=user)) as connection:
        state = read_live_state(connection, topics=["orders", "secrets", "none"])
    assert {*state.failures.topics} == denied
    assert {key.topic for key in state.in_scope} == {"orders", "secrets"} - denied


def mutual_tls(cluster, ca_file, client_file=None):
    client = {"security.protocol": "SSL", "ssl.truststore.location": str(ca_file)}
    if client_file is not None:
        client["ssl.keystore.location"] = str(client_file)
    address = f"127.0.0.1:{cluster.listeners['MUTUAL']}"
    return LiveCluster(kind="live_cluster", bootstrap_servers=address, client=client, connect_timeout="PT10S")


def test_a_client_certificate_is_a_login(cluster, certificates):
    """The broker takes its subject for the principal, which may read `orders`."""
    ca_file, _, client_file = certificates
    found = {c.name: c for c in examine_live_cluster(mutual_tls(cluster, ca_file, client_file))}
    assert all(check.is_ok for check in found.values()), found
    assert "2 visible partitions" in found["connection"].found
    assert "record batches of orders-" in found["records"].found


def test_a_missing_client_certificate_is_named(cluster, certificates):
    assert "does it want a client certificate?" in cause_of(mutual_tls(cluster, certificates[0]))


def test_the_permissions_of_the_paper_answer_every_question(cluster, certificates, password):
    """`docs/CONFIGURATION.md` lists those of `EVERYTHING`, in its order."""
    starter = source(cluster.brokers[0].client_port, certificates[0], user="starter")
    found = {c.name: c for c in examine_live_cluster(starter)}
    assert all(check.is_ok for check in found.values()), found
    assert "consumer groups" in found
    assert [name for name, check in found.items() if "not answered" in check.found] == []
    table = re.findall(r"^\| (\w+) \| (?:Topic|Cluster|Group) ", PAPER.read_text(), re.MULTILINE)
    assert table == ["".join(part.title() for part in operation.name.split("_")) for _, operation in EVERYTHING]


@pytest.mark.parametrize(
    ("missing", "question"),
    [
        (TOPICS_READ, "records"),
        (TOPICS_CONFIGS, "topic configs"),
        (CLUSTER_DESCRIBE, "replica sizes"),
        (CLUSTER_CONFIGS, "broker configs"),
        (GROUPS_DESCRIBE, "consumer groups"),
    ],
)
def test_each_permission_answers_its_question(cluster, certificates, password, missing, question):
    """Topics stay visible: Describe stands where Read is missing."""
    user = f"without-{EVERYTHING.index(missing)}"
    rest = [one for one in EVERYTHING if one != missing]
    allow(cluster.internal_bootstrap, user, [*rest, (TOPICS, ACLOperation.DESCRIBE)])
    live = source(cluster.brokers[0].client_port, certificates[0], user=user)
    found = {c.name: c for c in examine_live_cluster(live)}
    wrong = {name for name, check in found.items() if not check.is_ok or "not answered" in check.found}
    assert question in wrong
    assert wrong <= {question, *(("reassignments",) if missing is CLUSTER_DESCRIBE else ())}


def test_a_principal_that_may_see_nothing_is_told_which_permission_is_missing(cluster, certificates, password):
    stranger = source(cluster.brokers[0].client_port, certificates[0], user="stranger")
    wrong = {c.name: c for c in try_source("prod", stranger) if not c.is_ok}
    assert wrong.keys() == {"prod: live_cluster, connection"}
    (found,) = wrong.values()
    assert "1 brokers, 0 visible partitions" in found.found
    assert "allow Describe and Read on the topics" in found.advice


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
    assert "needs none" in cause_of(source(port, protocol="SASL_PLAINTEXT"))


def test_a_closed_port():
    (port,) = free_ports(1)
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
    traffic = stored(tmp_path / "warehouse", "silver.partition_traffic")
    assert sum(row["record_count"] for row in traffic) == RECORDS // 2
    assert {row["topic"] for row in traffic} == {"orders"}
    assert PASSWORD not in printed
    assert places_of(PASSWORD, tmp_path, tmp_path / "warehouse") == []
    parts = [row for row in stored(tmp_path / "warehouse", "bronze.cluster_state") if row["topic"] == "orders"]
    assert {row["size_bytes"] for row in parts} == {None}  # it may not ask, and nothing is made up
    reasons = [row["reason"] for row in stored(tmp_path / "warehouse", "bronze.quarantine")]
    assert any("replica sizes" in reason or "broker" in reason for reason in reasons)


def test_from_an_address_to_a_verdict(cluster, certificates, tmp_path):
    """`init` with options only, as a script calls it: the configuration it writes, and the window it runs."""
    command = [
        *(sys.executable, "-m", "pipeline", "init", "--config", "made.yaml", "--name", "guarded", "--window", "PT1H"),
        *("--bootstrap-servers", f"127.0.0.1:{cluster.brokers[0].client_port}", "--security-protocol", "SASL_SSL"),
        *("--sasl-mechanism", "SCRAM-SHA-512", "--sasl-username", "starter", "--sasl-password-variable", VARIABLE),
        *("--ssl-truststore-location", str(certificates[0])),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: PASSWORD}
    options = {"cwd": tmp_path, "env": environment, "stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    done = subprocess.run(command, check=False, **options)
    assert done.returncode in HEALTHY_OR_NOT, done.stdout + done.stderr
    assert "ok    guarded: live_cluster, connection: 1 brokers" in done.stdout
    assert f"wrote {tmp_path / 'made.yaml'}" in done.stdout
    assert "cluster guarded:" in done.stdout + done.stderr
    (report,) = tmp_path.rglob("reports/*.html")
    assert f"{report}\n" in done.stdout
    (share,) = stored(tmp_path / "partition-health-data", "gold.broker_share")
    start_ms = milliseconds_of(share["window_start"])
    expected = sum(start_ms <= stamp < start_ms + 60 * MINUTE_MS for stamp in recent_stamps(cluster))
    traffic = stored(tmp_path / "partition-health-data", "silver.partition_traffic")
    assert sum(row["record_count"] for row in traffic if row["topic"] == "recent") == expected > 0
    assert PASSWORD not in done.stdout + done.stderr + (tmp_path / "made.yaml").read_text()
    again = subprocess.run(command, check=False, **options)
    assert again.returncode == 2
    assert "is not overwritten" in again.stderr

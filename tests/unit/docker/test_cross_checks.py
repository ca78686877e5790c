"""Compose file and Dockerfile agree with the tree, with the locks and with each other.

No engine runs here, so the oracle of every check is a planted fault: a copy of the real files with one text replaced,
which that check, and it, must report.
"""

from __future__ import annotations

import pytest

from tests.unit.docker import compose_checks, image_checks
from tests.unit.docker.compose_checks import (
    check_brokers,
    check_dependencies,
    check_health_checks,
    check_health_roles,
    check_hosts,
    check_images,
    check_log_access,
    check_ports,
    check_secrets,
    check_variables,
    check_volumes,
)
from tests.unit.docker.image_checks import (
    check_bases,
    check_copies,
    check_image_secrets,
    check_locks,
    check_start,
    check_user,
    check_versions,
)
from tests.unit.docker.setup_files import read_setup

CHECKS = compose_checks.CHECKS + image_checks.CHECKS
COMPOSE, DOCKERFILE, ENV = "docker/compose.yaml", "docker/Dockerfile", "docker/.env.example"
LOCK, PROMETHEUS = "docker/requirements.lock", "docker/prometheus.yml"

# check, file, text, what it is replaced by, words of the problem
FAULTS = [
    (check_dependencies, COMPOSE, "      mailpit:\n        condition", "      mailpot:\n        condition", "mailpot"),
    (check_dependencies, COMPOSE, "    healthcheck:\n      # By TCP", "    x-off:\n      # By TCP", "no health check"),
    (check_dependencies, COMPOSE, 'restart: "no"', "restart: always", "to end"),
    (check_dependencies, COMPOSE, "condition: service_healthy", "condition: service_started", "only to be started"),
    (check_health_checks, COMPOSE, "      start_period: 5s\n", "", "mailpit: health check without start_period"),
    (
        check_health_checks,
        COMPOSE,
        "  restart: unless-stopped\n  depends_on:\n    jmx",
        "  depends_on:\n    jmx",
        "kafka-1",
    ),
    (check_health_roles, COMPOSE, 'healthcheck", "triggerer"', 'healthcheck", "trigger"', "role trigger is none"),
    (check_health_roles, COMPOSE, '"airflow", "triggerer"', '"airflow", "scheduler"', "but command"),
    (check_health_roles, "docker/healthcheck.sh", "    scheduler)", "    planner)", "role scheduler is none"),
    (check_volumes, COMPOSE, "  warehouse:\n", "", "warehouse is not declared"),
    (check_volumes, COMPOSE, "  warehouse:\n", "  warehouse:\n  attic:\n", "attic is declared but not used"),
    (check_volumes, COMPOSE, "./prometheus.yml:", "./prometheus.yaml:", "not in the repository"),
    (check_volumes, COMPOSE, "prometheus.yml:ro", "prometheus.yml", "could write to"),
    (
        check_variables,
        COMPOSE,
        "${AIRFLOW_JWT_SECRET:?set it in docker/.env}",
        "${AIRFLOW_JWT_SECRET:-x}",
        "not demanded",
    ),
    (check_variables, COMPOSE, "${AIRFLOW_JWT_SECRET:?set it in docker/.env}", "$AIRFLOW_JWT_SECRET", "not demanded"),
    (check_variables, COMPOSE, "${AIRFLOW_JWT_SECRET:", "${AIRFLOW_JWT:", "AIRFLOW_JWT is not in .env.example"),
    (check_variables, COMPOSE, "${AIRFLOW_JWT_SECRET:", "${AIRFLOW_JWT:", "AIRFLOW_JWT_SECRET, which nothing uses"),
    (check_variables, ENV, "POSTGRES_PASSWORD=", "POSTGRES_PASSWORD=airflow", "gives POSTGRES_PASSWORD a value"),
    (
        check_secrets,
        COMPOSE,
        "${POSTGRES_PASSWORD:?set it in docker/.env}\n",
        "airflow\n",
        "POSTGRES_PASSWORD is written",
    ),
    (check_secrets, COMPOSE, "${AIRFLOW_FERNET_KEY:?set it in docker/.env}", "c2VjcmV0", "FERNET_KEY is written out"),
    (
        check_secrets,
        COMPOSE,
        "airflow:${POSTGRES_PASSWORD:?set it in docker/.env}@",
        "airflow:airflow@",
        "a credential",
    ),
    (check_secrets, COMPOSE, '"port": 1025,', '"port": 1025, "password": "x",', "a credential"),
    (check_ports, COMPOSE, "127.0.0.1:8080:8080", "8080:8080", "not bound"),
    (check_ports, COMPOSE, "127.0.0.1:8080:8080", "0.0.0.0:8080:8080", "not bound"),
    (check_ports, COMPOSE, "127.0.0.1:8025:8025", "127.0.0.1:8080:8025", "already taken"),
    (
        check_ports,
        COMPOSE,
        "  kafka-1:\n    <<: *kafka\n",
        "  kafka-1:\n    <<: *kafka\n    network_mode: host\n",
        "rights",
    ),
    (check_images, COMPOSE, "axllent/mailpit:v1.34.0", "axllent/mailpit:latest", "not pinned"),
    (check_images, COMPOSE, "axllent/mailpit:v1.34.0", "axllent/mailpit", "not pinned"),
    (check_hosts, COMPOSE, '"host": "mailpit"', '"host": "mailhog"', "mailhog"),
    (check_hosts, COMPOSE, "@postgres:5432", "@db:5432", "host db"),
    (check_hosts, COMPOSE, "http://airflow-api-server:8080/", "http://airflow-apiserver:8080/", "airflow-apiserver"),
    (check_hosts, PROMETHEUS, "kafka-3:7071", "kafka-4:7071", "kafka-4"),
    (check_brokers, COMPOSE, 'KAFKA_NODE_ID: "3"', 'KAFKA_NODE_ID: "2"', "one node id"),
    (check_brokers, COMPOSE, ",3@kafka-3:9093", "", "no voter"),
    (check_brokers, COMPOSE, "127.0.0.1:49092:9092", "127.0.0.1:49093:9092", "should advertise"),
    (check_brokers, COMPOSE, "javaagent.jar=7071", "javaagent.jar=7072", "does not scrape"),
    (check_brokers, COMPOSE, "KAFKA_LOG_DIRS: /var/lib/kafka/data", "KAFKA_LOG_DIRS: /tmp/logs", "on no volume"),
    (check_log_access, COMPOSE, "    - kafka-2-log:/srv/kafka/kafka-2:ro\n", "", "do not see kafka-2-log"),
    (check_log_access, COMPOSE, "kafka-2-log:/srv/kafka/kafka-2:ro", "kafka-2-log:/srv/kafka/kafka-2", "could write"),
    (check_copies, DOCKERFILE, "COPY pipeline ", "COPY pipelines ", "not in the repository"),
    (check_copies, DOCKERFILE, "--from=jars", "--from=jar", "no stage"),
    (check_copies, "docker/Dockerfile.dockerignore", "!expectations\n", "", "build context"),
    (check_user, DOCKERFILE, "USER 1000:1000\n", "", "runs as root"),
    (check_user, DOCKERFILE, "USER 1000:1000", "USER 0", "runs as"),
    (check_user, DOCKERFILE, "WORKDIR", "USER root\nWORKDIR", "runs as"),
    (check_bases, DOCKERFILE, "3.11.14-slim-bookworm", "3.11-slim-bookworm", "not pinned"),
    (check_bases, DOCKERFILE, "python:3.11.14-slim-bookworm", "python:latest", "not pinned"),
    (check_bases, DOCKERFILE, "FROM packages AS jars", "FROM parcels AS jars", "not pinned"),
    (check_versions, DOCKERFILE, "DELTA_VERSION=4.3.1", "DELTA_VERSION=4.2.0", "DELTA_VERSION"),
    (check_versions, DOCKERFILE, "SPARK_LINE=4.1", "SPARK_LINE=4.2", "SPARK_LINE"),
    (check_versions, "requirements.lock", "pyspark==4.1.1", "pyspark==4.2.0", "SPARK_LINE"),
    (check_versions, DOCKERFILE, "3.11.14-slim", "3.12.1-slim", "Python in paths"),
    (check_versions, DOCKERFILE, "3.11.14-slim", "3.10.1-slim", "outside the project"),
    (check_versions, DOCKERFILE, "EXPORTER_VERSION=1.0.1", "EXPORTER_VERSION=1.5.0", "JMX_EXPORTER_VERSION"),
    (check_versions, COMPOSE, "apache/kafka:4.1.1", "apache/kafka:4.2.0", "apache/kafka"),
    (check_versions, COMPOSE, "image: partition-health:0.1.0", "image: partition-health:0.0.9", "partition-health"),
    (check_locks, DOCKERFILE, "--require-hashes ", "", "without hashes"),
    (check_locks, DOCKERFILE, "-r /build/requirements.lock", "apache-airflow==3.3.1", "beside the locks"),
    (check_locks, LOCK, "asyncpg==", "pandas==", "pandas is locked twice"),
    (check_locks, LOCK, "--hash=sha256:", "--hash=md5:", "has no hash"),
    (check_locks, LOCK, "asyncpg==", "--index-url https://example.org\nasyncpg==", "an address"),
    (check_image_secrets, DOCKERFILE, "ENV AIRFLOW_HOME", "ENV AIRFLOW__CORE__FERNET_KEY=x AIRFLOW_HOME", "FERNET_KEY"),
    (check_image_secrets, DOCKERFILE, "ARG SPARK_LINE=4.1", "ARG ADMIN_PASSWORD=x", "ADMIN_PASSWORD"),
    (check_start, DOCKERFILE, 'CMD ["partition-health", "--help"]', "CMD partition-health --help", "exec form"),
    (check_start, DOCKERFILE, 'ENTRYPOINT ["/usr/bin/tini", "--"]\n', "", "init process"),
    (check_start, DOCKERFILE, "HEALTHCHECK --", "LABEL --", "no health check"),
    (check_start, DOCKERFILE, "RUN --network=none", "RUN", "without a network"),
]


@pytest.fixture(scope="module")
def files():
    return read_setup()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_real_files_pass(files, check):
    assert check(files) == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault[0].__name__}: {fault[-1]}")
def test_planted_fault_is_reported(files, fault):
    check, name, old, new, words = fault
    fresh = set(check(files.spoilt(name, old, new))) - set(check(files))
    assert any(words in problem for problem in fresh), fresh


def test_every_check_has_a_planted_fault():
    assert {fault[0] for fault in FAULTS} == set(CHECKS)

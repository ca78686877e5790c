"""What no linter knows of `docker/`: versions agree with the locks, nothing is exposed, brokers' logs are only read."""

import base64
import re
import shlex
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

import pytest
import yaml

from pipeline.config_file import load_config
from tests.lab.artifacts import BROKER_VERSION, EXPORTER

ROOT = Path(__file__).parents[3]
DOCKER = ROOT / "docker"
DOCKERFILE = re.sub(r"\\\n\s*", "", (DOCKER / "Dockerfile").read_text())
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
BROKERS = {name: service for name, service in SERVICES.items() if name.startswith("kafka-")}
SCHEDULER = SERVICES["airflow-scheduler"]
SECRET = re.compile(r"(PASSWORD|SECRET|TOKEN|_KEY)$")


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.*)", DOCKERFILE, re.MULTILINE)


def locked(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", path.read_text(), re.MULTILINE))


def mounts(service: dict) -> dict[str, str]:
    """Source, and `:ro` where it is read-only, by target."""
    parts = (volume.split(":") for volume in service["volumes"])
    return {target: source + "".join(f":{mode}" for mode in modes) for source, target, *modes in parts}


def variables(service: dict) -> dict[str, str]:
    return {name: str(value) for name, value in service.get("environment", {}).items()}


def test_versions_are_those_of_locks_project_and_lab():
    packages = locked(ROOT / "requirements.lock")
    arguments = {argument.partition("=")[::2] for argument in instructions("ARG")}
    assert arguments == {
        ("SPARK_LINE", packages["pyspark"].rpartition(".")[0]),
        ("DELTA_VERSION", packages["delta-spark"]),
        ("JMX_EXPORTER_VERSION", EXPORTER.dependencies[0].rev),
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    images = {service["image"] for service in SERVICES.values()}
    assert {f"apache/kafka:{BROKER_VERSION}", f"partition-health:{project['version']}"} <= images
    (base,) = re.findall(r"^FROM python:(3\.\d+)\.\d+-\S+ AS base$", DOCKERFILE, re.MULTILINE)
    assert set(re.findall(r"/python(3\.\d+)/", DOCKERFILE)) == {base}
    lowest, above = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", project["requires-python"]).groups()
    assert int(lowest) <= int(base.partition(".")[2]) < int(above)


@pytest.mark.parametrize("image", sorted({service["image"] for service in SERVICES.values()}))
def test_an_image_is_pinned(image):
    assert re.fullmatch(r"[a-z0-9/-]+:v?\d+\.\d+[\w.-]*", image)


def test_packages_come_from_the_locks_with_hashes():
    installs = re.findall(r"pip install ([^&\n]*)", DOCKERFILE)
    assert all("--require-hashes" in each or "--no-deps" in each for each in installs)
    assert not any("==" in each for each in installs)
    text = (DOCKER / "requirements.lock").read_text()
    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in text
    assert not locked(ROOT / "requirements.lock").keys() & locked(DOCKER / "requirements.lock").keys()


def test_what_is_copied_exists_and_is_in_the_build_context():
    ignore = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    allowed = [line[1:] for line in ignore if line.startswith("!")]
    for copied in instructions("COPY"):
        words = copied.split()
        if not words[0].startswith("--from="):
            assert all((ROOT / source).exists() for source in words[:-1]), copied
            assert all(any(fnmatch(source, each) for each in allowed) for source in words[:-1]), copied


def test_the_image_ends_as_an_unprivileged_user_and_carries_no_secret():
    assert instructions("USER") == ["1000:1000"]  # the user of the Kafka image: snapshots have mode 0400
    assert not [name for name in re.findall(r"\b([A-Z][A-Z0-9_]+)=", DOCKERFILE) if SECRET.search(name)]


def test_secrets_are_files_that_a_script_makes_and_no_variable_holds_one(tmp_path):
    script = tmp_path / "make-secrets.sh"
    script.write_bytes((DOCKER / script.name).read_bytes())
    kept = []
    for _ in range(2):  # what is there stays
        subprocess.run(["bash", script], check=True)
        kept.append({path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()})
    declared = {name: each["file"] for name, each in COMPOSE["secrets"].items()}
    assert declared == {name: f"./secrets/{name}" for name in kept[0]}
    assert kept[0] == kept[1]
    assert len(set(kept[0].values())) == len(kept[0])
    assert len(base64.urlsafe_b64decode(kept[0]["airflow_fernet_key"])) == 32
    assert all(re.fullmatch(r"[0-9a-f]{64}", text) for name, text in kept[0].items() if "fernet" not in name)
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    assert "docker/secrets/" in (ROOT / ".gitignore").read_text().splitlines()
    for name, service in SERVICES.items():
        told = " ".join(variables(service).values())
        assert set(re.findall(r"/run/secrets/(\w+)", told)) == set(service.get("secrets", ())), name
    for name, value in variables(SCHEDULER).items():
        if name.endswith("_CMD"):  # as Airflow runs it
            command = shlex.split(value.replace("$$", "$").replace("/run/secrets", str(tmp_path / "secrets")))
            found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            secret = kept[0][re.search(r"/run/secrets/(\w+)", value)[1]]
            database = f"postgresql+psycopg2://airflow:{secret}@postgres:5432/airflow"
            assert found == (database if "DATABASE" in name else secret)
    assert "${" not in yaml.safe_dump(COMPOSE)
    written = {name: value for service in SERVICES.values() for name, value in variables(service).items()}
    assert [name for name in written if SECRET.search(name)] == []


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_gains_no_privileges_and_has_limits(name):
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {"cpus", "mem_limit", "pids_limit"} <= service.keys()
    writes_its_root = name.startswith(("kafka-", "airflow-")) or name == "jmx-exporter"
    assert service.get("read_only", False) is not writes_its_root


def test_ports_are_bound_to_the_loopback_address_once():
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in ports)
    assert len({port.split(":")[1] for port in ports}) == len(ports)
    assert not [name for name, each in SERVICES.items() if {"network_mode", "privileged", "cap_add"} & each.keys()]


def test_what_is_waited_for_can_become_healthy_or_ends():
    waited = [pair for service in SERVICES.values() for pair in service.get("depends_on", {}).items()]
    for target, how in {(target, how["condition"]) for target, how in waited}:
        assert ("healthcheck" in SERVICES[target]) == (how == "service_healthy"), target
        assert (SERVICES[target].get("restart", "no") == "no") == (how == "service_completed_successfully"), target
    roles = set(re.findall(r"^ {4}([a-z-]+)\)", (DOCKER / "healthcheck.sh").read_text(), re.MULTILINE))
    for name, service in SERVICES.items():
        test = service.get("healthcheck", {}).get("test", [])
        if "/usr/local/bin/healthcheck" in test:
            assert test[2] in roles, name
            assert service["command"] == ["airflow", test[2]], name


def test_each_broker_is_a_voter_advertises_its_port_and_is_scraped():
    scraped = yaml.safe_load((DOCKER / "prometheus.yml").read_text())["scrape_configs"][0]["static_configs"]
    labels = {target: each["labels"]["broker_id"] for each in scraped for target in each["targets"]}
    assert labels == {f"{name}:7071": variables(broker)["KAFKA_NODE_ID"] for name, broker in BROKERS.items()}
    for name, broker in BROKERS.items():
        own = variables(broker)
        assert f"{own['KAFKA_NODE_ID']}@{name}:9093" in own["KAFKA_CONTROLLER_QUORUM_VOTERS"].split(",")
        published = broker["ports"][0].split(":")[1]
        assert own["KAFKA_ADVERTISED_LISTENERS"] == f"INTERNAL://{name}:19092,LOOPBACK://localhost:{published}"
        assert ".jar=7071:" in own["KAFKA_OPTS"]


def test_tasks_see_every_brokers_log_and_cannot_write_to_it():
    seen = mounts(SCHEDULER)
    logs = {mounts(broker)[variables(broker)["KAFKA_LOG_DIRS"]] for broker in BROKERS.values()}
    assert {source for target, source in seen.items() if target.startswith("/srv/kafka/")} == {
        f"{log}:ro" for log in logs
    }
    local = [source for service in SERVICES.values() for source in service.get("volumes", ()) if source.startswith(".")]
    assert all(source.endswith(":ro") and (DOCKER / source.split(":")[0]).exists() for source in local)


def test_the_configuration_fits_the_containers():
    seen = mounts(SCHEDULER)
    assert seen[variables(SCHEDULER)["PARTITION_HEALTH_CONFIG"]] == "./partition-health.yaml:ro"
    config = load_config(DOCKER / "partition-health.yaml")
    sources = [source for cluster in config.clusters.values() for source in cluster.sources]
    for path in (path for source in sources for path in getattr(source, "paths", None) or (source.path,)):
        assert any(PurePosixPath(path).is_relative_to(target) for target in seen), path
    for path in (config.warehouse, config.outbox, config.mail.mutes.parent):
        assert not seen[str(path)].endswith(":ro")
    assert config.mail.smtp is None or config.mail.smtp.host in SERVICES

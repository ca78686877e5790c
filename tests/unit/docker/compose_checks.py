"""Checks of `compose.yaml` against itself and its neighbours; each returns the problems it found, in words."""

from __future__ import annotations

import re

import yaml

from tests.unit.docker.setup_files import ROOT, SetupFiles, environment, mounts

SECRET_NAME = re.compile(r"(PASSWORD|PASSWD|SECRET|TOKEN|_KEY)(_KEY)?$")
REFERENCE = re.compile(r"(?<!\$)\$(?:\{([A-Z0-9_]+)([^}]*)\}|([A-Z0-9_]+))")
HEALTH_KEYS = {"test", "interval", "timeout", "retries", "start_period"}


def check_dependencies(files: SetupFiles) -> list[str]:
    """What is waited for exists, can become healthy, or ends."""
    problems = []
    for name, service in files.services.items():
        for target, how in service.get("depends_on", {}).items():
            if target not in files.services:
                problems.append(f"{name} waits for {target}, which is no service")
                continue
            has_check = "healthcheck" in files.services[target]
            ends = files.services[target].get("restart", "no") == "no"
            if how["condition"] == "service_healthy" and not has_check:
                problems.append(f"{name} waits for {target} to be healthy, which has no health check")
            if how["condition"] == "service_completed_successfully" and (has_check or not ends):
                problems.append(f"{name} waits for {target} to end, which is restarted or has a health check")
            if how["condition"] == "service_started":
                problems.append(f"{name} waits for {target} only to be started")
    return problems


def check_health_checks(files: SetupFiles) -> list[str]:
    """Everything long-running has a complete health check and is restarted."""
    problems = []
    for name, service in files.services.items():
        if name in files.one_shots():
            continue
        missing = HEALTH_KEYS - set(service.get("healthcheck", {}))
        if missing:
            problems.append(f"{name}: health check without {', '.join(sorted(missing))}")
        if service.get("restart") != "unless-stopped":
            problems.append(f"{name} is long-running but not restarted")
    return problems


def check_health_roles(files: SetupFiles) -> list[str]:
    """Roles passed to the health check script are roles it knows, and fit the container's command."""
    known = set(re.findall(r"^ {4}([a-z-]+)\)", files.texts["docker/healthcheck.sh"], re.MULTILINE))
    problems = []
    for name, service in files.services.items():
        test = service.get("healthcheck", {}).get("test", [])
        if len(test) < 2 or test[1] != "/usr/local/bin/healthcheck":
            continue
        if test[2] not in known:
            problems.append(f"{name}: health check role {test[2]} is none of {sorted(known)}")
        if service["command"] != ["airflow", test[2]]:
            problems.append(f"{name}: health check role {test[2]} but command {service['command']}")
    return problems


def check_volumes(files: SetupFiles) -> list[str]:
    """Named volumes are declared and used; what is mounted from the repository is there and read-only."""
    declared, used, problems = set(files.compose["volumes"]), set(), []
    for name, service in files.services.items():
        for source, _, read_only in mounts(service):
            if not source.startswith("."):
                used.add(source)
                continue
            if not (ROOT / "docker" / source).exists():
                problems.append(f"{name} mounts {source}, which is not in the repository")
            if not read_only:
                problems.append(f"{name} could write to {source}")
    problems += [f"volume {volume} is not declared" for volume in sorted(used - declared)]
    return problems + [f"volume {volume} is declared but not used" for volume in sorted(declared - used)]


def check_variables(files: SetupFiles) -> list[str]:
    """Variables have no default, are in `.env.example`, and that holds no values and nothing else."""
    lines = [line for line in files.texts["docker/.env.example"].splitlines() if line and not line.startswith("#")]
    offered = dict(line.split("=", 1) for line in lines)
    problems = [f".env.example gives {name} a value" for name, value in offered.items() if value]
    wanted = set()
    for name, rest, bare in REFERENCE.findall(yaml.safe_dump(files.compose["services"], width=10_000)):
        wanted.add(name or bare)
        if not rest.startswith(":?"):
            problems.append(f"{name or bare} is not demanded with ${{…:?}}")
    problems += [f"{name} is not in .env.example" for name in sorted(wanted - set(offered))]
    return problems + [f".env.example has {name}, which nothing uses" for name in sorted(set(offered) - wanted)]


def check_secrets(files: SetupFiles) -> list[str]:
    """No secret stands in the file: not as a variable's value, not in an address."""
    problems = []
    for name, service in files.services.items():
        for variable, value in environment(service).items():
            if SECRET_NAME.search(variable) and not re.fullmatch(r"\$\{[A-Z_]+:\?[^}]*\}", value):
                problems.append(f"{name}: {variable} is written out")
            if re.search(r"://[^/\s:@]*:(?!\$\{)[^/\s@]+@", value) or re.search(r'"(password|login)":', value):
                problems.append(f"{name}: {variable} holds a credential")
    return problems


def check_ports(files: SetupFiles) -> list[str]:
    """Published ports are bound to 127.0.0.1, each once; no container shares the host's network."""
    problems, taken = [], {}
    for name, service in files.services.items():
        for port in service.get("ports", []):
            match = re.fullmatch(r"127\.0\.0\.1:(\d+):\d+", str(port))
            if not match:
                problems.append(f"{name}: port {port} is not bound to 127.0.0.1")
            elif taken.setdefault(match[1], name) != name:
                problems.append(f"{name}: port {match[1]} is already taken by {taken[match[1]]}")
        if {"network_mode", "privileged", "cap_add"} & set(service):
            problems.append(f"{name} has rights beyond its own network")
    return problems


def check_images(files: SetupFiles) -> list[str]:
    """Every image is pinned to a version."""
    return [
        f"{name}: image {service['image']} is not pinned"
        for name, service in files.services.items()
        if not re.fullmatch(r"[a-z0-9/-]+:v?\d+\.\d+[\w.-]*", service["image"])
    ]


def check_hosts(files: SetupFiles) -> list[str]:
    """Host names in addresses are services (or the container itself)."""
    known = set(files.services) | {"localhost", "127.0.0.1"}
    address = re.compile(r'(?:://|@)([\w.-]+):\d+|"host": "([\w.-]+)"')
    problems = []
    for name, service in files.services.items():
        for variable, value in environment(service).items():
            plain = re.sub(r"\$\{[^}]*\}", "", value).replace("airflow:@", "@")
            found = {a or b for a, b in address.findall(plain)} - known
            problems += [f"{name}: {variable} names host {host}, which is no service" for host in sorted(found)]
    scraped = yaml.safe_load(files.texts["docker/prometheus.yml"])["scrape_configs"]
    targets = [t for job in scraped for static in job["static_configs"] for t in static["targets"]]
    return problems + [f"Prometheus scrapes {t}, which is no service" for t in targets if t.split(":")[0] not in known]


def check_brokers(files: SetupFiles) -> list[str]:
    """Each broker has its own id, is a voter, advertises its own name and its published port, and is scraped."""
    problems = []
    brokers = {name: s for name, s in files.services.items() if s["image"].startswith("apache/kafka:")}
    scraped = yaml.safe_load(files.texts["docker/prometheus.yml"])["scrape_configs"]
    labels = {t: s["labels"] for j in scraped for s in j["static_configs"] if "labels" in s for t in s["targets"]}
    for name, service in brokers.items():
        variables = environment(service)
        node_id = variables["KAFKA_NODE_ID"]
        if f"{node_id}@{name}:9093" not in variables["KAFKA_CONTROLLER_QUORUM_VOTERS"].split(","):
            problems.append(f"{name}: {node_id}@{name}:9093 is no voter")
        published = service["ports"][0].split(":")[1]
        wanted = f"INTERNAL://{name}:19092,LOOPBACK://localhost:{published}"
        if variables["KAFKA_ADVERTISED_LISTENERS"] != wanted:
            problems.append(f"{name} should advertise {wanted}")
        agent_port = variables["KAFKA_OPTS"].split("=")[1].split(":")[0]
        if labels.get(f"{name}:{agent_port}") != {"broker_id": node_id}:
            problems.append(f"{name}: Prometheus does not scrape {name}:{agent_port} as broker {node_id}")
        if variables["KAFKA_LOG_DIRS"] not in [target for _, target, _ in mounts(service)]:
            problems.append(f"{name}: the log directory is on no volume")
    ids = [environment(service)["KAFKA_NODE_ID"] for service in brokers.values()]
    return problems + (["two brokers have one node id"] if len(set(ids)) < len(ids) else [])


def check_log_access(files: SetupFiles) -> list[str]:
    """Whoever runs tasks sees every broker's log directory, read-only."""
    log_volumes = {
        source
        for service in files.services.values()
        for source, target, _ in mounts(service)
        if target == environment(service).get("KAFKA_LOG_DIRS")
    }
    seen = {source: read_only for source, _, read_only in mounts(files.services["airflow-scheduler"])}
    problems = [f"tasks do not see {volume}" for volume in sorted(log_volumes - set(seen))]
    return problems + [f"tasks could write to {v}" for v in sorted(log_volumes & set(seen)) if not seen[v]]


CHECKS = (
    check_dependencies,
    check_health_checks,
    check_health_roles,
    check_volumes,
    check_variables,
    check_secrets,
    check_ports,
    check_images,
    check_hosts,
    check_brokers,
    check_log_access,
)

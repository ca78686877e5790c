"""The library, version and zone of each session's client: what the client, the configuration or the records tell."""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from pipeline.calibration.caveats import Caveat, Origin
from pipeline.calibration.partitioner.baseline import Baseline
from pipeline.calibration.partitioner.clients import Bounds, ClientChoice, list_choices, rule_of
from pipeline.calibration.partitioner.settings import Setting
from pipeline.calibration.partitioner.switch_rules import SwitchRule
from pipeline.partitioners.registry import STRATEGIES, list_families
from pipeline.partitioners.strategy import parse_version, read_kafka_version
from pipeline.replay.metrics import MetricsBySession
from pipeline.replay.recorded import ClientNode, MetricsClient, ProducerSession, Recording, SessionKey, Sessions
from pipeline.simulator.clients.client import ANY_RACK
from pipeline.simulator.clients.producer_configs import JAVA, LIBRDKAFKA, OLDEST, find_config

LIBRARIES = {"apache-kafka-java": JAVA, "librdkafka": LIBRDKAFKA}
"""By `client_software_name` (KIP-714, KIP-511); `app-info` and Micrometer, which name none, are of Java clients."""


def name_versions(recording: Recording, sessions: Sessions, metrics: MetricsBySession) -> list[ProducerSession]:
    """Adds the library and version that all clients of a session tell; where only a library is known, a strategy of its own."""
    named = []
    for session in sessions:
        nodes = recording.nodes.get(session.start_ms, {})
        told = {
            _read_client(node, has_requests=client in recording.requests)
            for client in metrics[session.key].clients
            for node in nodes.get(client, ())
        }
        name, version = told.pop() if len(told) == 1 else ("", "")
        baseline, library = session.baseline, LIBRARIES.get(name)
        if library and baseline.strategy is not None and (version or library != baseline.client):
            alike = _list_alike(baseline.strategy, by_keys=not session.keyless_count)
            choice = None if version else _choose(library, alike, session)
            if version or choice:
                baseline = take_version(baseline, library, version or (choice.version if choice else ""), alike)
            if choice and baseline.client == library:
                baseline = replace(baseline, version_range=choice.version_range, is_told=False)
        named.append(replace(session, baseline=baseline))
    return named


def _read_client(node: ClientNode, *, has_requests: bool) -> tuple[str, str]:
    """Library and version, each "" where nothing tells; only Java's metrics say how long each broker's requests take."""
    version = read_kafka_version(node.client_version or "")
    library = node.client_software_name
    if library is None and node.source.startswith(LIBRDKAFKA):
        library = LIBRDKAFKA
    return library or ("apache-kafka-java" if version or has_requests else ""), version


def _list_alike(strategy: str, *, by_keys: bool) -> list[str]:
    """A strategy and those that nothing in the data distinguishes from it; `by_keys`: all records have keys."""
    if by_keys:
        families = (family.strategies for family in list_families())
        return [strategy, *next((names for names in families if strategy in names), ())]
    rule = rule_of(strategy)
    return [strategy, *(choice.strategy for choice in (list_choices(rule) if rule else ()))]


def _choose(library: str, alike: Sequence[str], session: ProducerSession) -> ClientChoice | None:
    """The library's version whose defaults fit best, of those that have such a strategy."""
    linger = session.baseline.settings.get("linger.ms")
    bounds = Bounds(None, (linger and linger.low) or 0.0, linger.high if linger else None, "")
    choices = (choice for rule in SwitchRule for choice in list_choices(rule))
    fitting = [choice for choice in choices if choice.client == library and choice.strategy in alike]
    is_idempotent = session.producer_id >= 0
    return min(fitting, key=lambda choice: choice.misfits(bounds, is_idempotent=is_idempotent), default=None)


def take_version(baseline: Baseline, library: str, version: str, alike: Sequence[str] = ()) -> Baseline:
    """Gives a baseline the version that its client tells, with the first strategy of it that is `alike`, if there is one."""
    alike = alike or _list_alike(baseline.strategy or "", by_keys=False)
    known = [one for name in alike if (one := STRATEGIES.get(name)) is not None and one.client == library]
    strategy = next((one.name for one in known if any(use.covers(version) for use in one.uses)), None)
    if strategy is None or parse_version(version) < parse_version(OLDEST[library]):
        note = Caveat.OTHER_VERSION.say(told=f"{library} {version}", strategy=baseline.strategy)
        return replace(baseline, assumptions=(*baseline.assumptions, note))
    return replace(
        baseline,
        strategy=strategy,
        client=library,
        version=version,
        version_range=f"{version}, as the client tells",
        is_told=True,
        settings={name: _take_default(library, version, name, setting) for name, setting in baseline.settings.items()},
        assumptions=tuple(one for one in baseline.assumptions if one.kind is not Caveat.CLIENTS_ALIKE),
    )


def _take_default(library: str, version: str, name: str, setting: Setting) -> Setting:
    if setting.source != Origin.DEFAULT:
        return setting
    default = find_config(library, version, name).default
    if default is None or default == setting.value:
        return setting
    if setting.high is not None or setting.low:
        number = float(default)
        if not (setting.low or 0.0) <= number < (float("inf") if setting.high is None else setting.high):
            return replace(setting, source=Origin.INFERRED)
    return replace(setting, value=default)


class ZoneSource(StrEnum):
    """How a producer's zone is known, the surest first."""

    CLIENT = "client"  # its client says its `client.rack` (KIP-714)
    CONFIGURED = "configured"  # by `zones.clients`
    RACK_AWARE = "rack_aware"  # all its keyless records are led in one rack, which chance hardly does
    UNKNOWN = "unknown"


def name_zones(recording: Recording, sessions: Sessions, metrics: MetricsBySession) -> list[ProducerSession]:
    """The sessions with the id and zone of their clients; pooled producers have a zone where all their clients are in it."""
    shown: dict[SessionKey, set[str]] = {}
    for session in sessions:
        rack = session.baseline.config.get("client.rack", ANY_RACK)
        if rack != ANY_RACK:
            shown.setdefault(session.key, set()).add(rack)
    named = []
    for session in sessions:
        clients, racks = metrics[session.key].clients, shown.get(session.key, set())
        ids = {client_id for _, client_id in clients}
        found = {_find_zone(recording, session.start_ms, client) for client in clients}
        zone, source = next(iter(found)) if len(found) == 1 else ("", ZoneSource.UNKNOWN)
        if not zone and len(racks) == 1:
            zone, source = next(iter(racks)), ZoneSource.RACK_AWARE
        client_id = next(iter(ids)) if len(ids) == 1 else None
        named.append(replace(session, client_id=client_id, zone=zone, zone_source=source))
    return named


def _find_zone(recording: Recording, start_ms: int, client: MetricsClient) -> tuple[str, ZoneSource]:
    instance, client_id = client
    nodes = recording.nodes.get(start_ms, {}).get(client, ())
    said = {node.client_rack for node in nodes if node.client_rack}
    if len(said) == 1:
        return said.pop(), ZoneSource.CLIENT
    configured = recording.zones.find(client_id, instance)
    return configured, ZoneSource.CONFIGURED if configured else ZoneSource.UNKNOWN

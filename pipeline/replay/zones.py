"""The zone of each producer session: what its client says, what the configuration says, what its records show."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from pipeline.replay.metrics import SessionMetrics
from pipeline.replay.recorded import MetricsClient, ProducerSession, Recording, SessionKey
from pipeline.simulator.clients.client import ANY_RACK


class ZoneSource(StrEnum):
    """How a producer's zone is known, the surest first."""

    CLIENT = "client"  # its client says its `client.rack` (KIP-714)
    CONFIGURED = "configured"  # by `zones.clients`
    RACK_AWARE = "rack_aware"  # all its keyless records are led in one rack, which chance hardly does
    UNKNOWN = "unknown"


def name_zones(
    recording: Recording, sessions: Sequence[ProducerSession], metrics: Mapping[SessionKey, SessionMetrics]
) -> list[ProducerSession]:
    """The sessions with the id and zone of their clients; pooled producers have a zone where all their clients are in it."""
    shown: dict[SessionKey, set[str]] = {}
    for session in sessions:
        rack = session.baseline.config.get("client.rack", ANY_RACK)
        if rack != ANY_RACK:
            shown.setdefault(session.key, set()).add(rack)
    return [_name_zone(recording, each, metrics[each.key].clients, shown.get(each.key, set())) for each in sessions]


def _name_zone(
    recording: Recording, session: ProducerSession, clients: Sequence[MetricsClient], shown: set[str]
) -> ProducerSession:
    ids = {client_id for _, client_id in clients}
    found = {_find_zone(recording, session.start_ms, client) for client in clients}
    zone, source = next(iter(found)) if len(found) == 1 else ("", ZoneSource.UNKNOWN)
    if not zone and len(shown) == 1:
        zone, source = next(iter(shown)), ZoneSource.RACK_AWARE
    return replace(session, client_id=next(iter(ids)) if len(ids) == 1 else None, zone=zone, zone_source=source)


def _find_zone(recording: Recording, start_ms: int, client: MetricsClient) -> tuple[str, ZoneSource]:
    instance, client_id = client
    rows = recording.nodes.get(start_ms, {}).get(client, ())
    said = {row["client_rack"] for row in rows if row.get("client_rack")}
    if len(said) == 1:
        return said.pop(), ZoneSource.CLIENT
    configured = recording.zones.find(client_id, instance)
    return configured, ZoneSource.CONFIGURED if configured else ZoneSource.UNKNOWN

"""The library and version of each session's client, where the client tells: what the log leaves open is then known."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline.calibration.caveats import Caveat, Origin
from pipeline.calibration.partitioner.baseline import Baseline
from pipeline.calibration.partitioner.clients import list_choices, rule_of
from pipeline.calibration.partitioner.settings import Setting
from pipeline.partitioners.registry import STRATEGIES
from pipeline.partitioners.strategy import parse_version, read_kafka_version
from pipeline.replay.metrics import SessionMetrics
from pipeline.replay.recorded import ProducerSession, Recording, SessionKey
from pipeline.simulator.clients.producer_configs import JAVA, LIBRDKAFKA, OLDEST, find_config

LIBRARIES = {"apache-kafka-java": JAVA, "librdkafka": LIBRDKAFKA}
"""By `client_software_name` (KIP-714, KIP-511); `app-info` and Micrometer, which name none, are of Java clients."""


def name_versions(
    recording: Recording, sessions: Sequence[ProducerSession], metrics: Mapping[SessionKey, SessionMetrics]
) -> list[ProducerSession]:
    """The sessions with the version that their clients tell; pooled producers where all their clients tell the same."""
    named = []
    for session in sessions:
        nodes = recording.nodes.get(session.start_ms, {})
        told = {
            (
                row.get("client_software_name") or "apache-kafka-java",
                read_kafka_version(row.get("client_version") or ""),
            )
            for client in metrics[session.key].clients
            for row in nodes.get(client, ())
        }
        library, version = told.pop() if len(told) == 1 else ("", "")
        is_known = version and library in LIBRARIES and session.baseline.strategy is not None
        baseline = take_version(session.baseline, LIBRARIES[library], version) if is_known else session.baseline
        named.append(replace(session, baseline=baseline))
    return named


def take_version(baseline: Baseline, library: str, version: str) -> Baseline:
    """A baseline whose client tells its version: it has that version's defaults where the data allow them.

    Of strategies that the order of batches does not distinguish it has the one of that library. Where that version has none of
    them the data win, and an assumption says so.
    """
    rule = rule_of(baseline.strategy or "")
    alike = [baseline.strategy or "", *(choice.strategy for choice in (list_choices(rule) if rule else ()))]
    strategy = next((name for name in alike if _has(library, version, name)), None)
    if strategy is None:
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


def _has(library: str, version: str, name: str) -> bool:
    strategy = STRATEGIES.get(name)
    if parse_version(version) < parse_version(OLDEST[library]):
        return False
    return strategy is not None and strategy.client == library and any(use.covers(version) for use in strategy.uses)


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

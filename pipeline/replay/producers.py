"""What a producer would be under a candidate: from what is in use and the candidate to a producer's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.errors import ConfigError
from pipeline.partitioners.custom import is_custom
from pipeline.partitioners.registry import find_strategy
from pipeline.simulator.clients.client import HASHED_ALWAYS, PLACEMENTS, Compression
from pipeline.simulator.clients.producer_configs import JAVA, LIBRDKAFKA, NEWEST, find_config
from pipeline.simulator.clients.producer_settings import resolve_producer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.calibration.partitioner.baseline import Baseline
    from pipeline.config.replay import Candidate
    from pipeline.simulator.clients.producer_settings import ResolvedProducer

_VERSIONS = {JAVA: ("3.9.2", "4.1.1", "3.2.3", "2.3.1"), LIBRDKAFKA: ("2.16.0", "1.5.3")}
"""Of each client, the versions to stand for a strategy that the producer's own version does not have."""
_CARRIED = ("linger.ms", "batch.size", "acks", "buffer.memory", "compression.type", "enable.idempotence")
"""Java settings that a producer keeps when only its partitioner is another: the defaults of its own version, too."""
_UNMEASURED_RATIO_PPM = 500_000


@dataclass(frozen=True)
class CandidateProducer:
    """A producer under a candidate.

    Attributes:
        client: Whose client.
        version: Its version.
        resolved: As the simulator takes it.
        assumptions: What that takes for granted, in sentences.
    """

    client: str
    version: str
    resolved: ResolvedProducer
    assumptions: tuple[str, ...]


def is_simulated(strategy_name: str) -> bool:
    """Tells whether the simulator follows a strategy, so that it can place records without a key."""
    return strategy_name in PLACEMENTS or strategy_name in HASHED_ALWAYS


def read_client(candidate: Candidate) -> tuple[str, str] | None:
    """Client and version that a candidate names, or None.

    >>> from pipeline.config.replay import Candidate
    >>> read_client(Candidate(name="new", client="4.1.1"))
    ('kafka-clients', '4.1.1')
    """
    if candidate.client is None:
        return None
    *client, version = candidate.client.split()
    return (client[0] if client else JAVA), version


def name_strategy(candidate: Candidate) -> str | None:
    """The strategy a candidate is about, by name; None where it keeps the one in use.

    Raises:
        ConfigError: Its settings name none that is known.
    """
    named = read_client(candidate)
    if candidate.partitioner is not None:
        return candidate.partitioner
    if named is None and not any(name.startswith("partitioner") for name in candidate.config):
        return None
    client, version = named or (JAVA, _VERSIONS[JAVA][0])
    config = {name: text for name, text in candidate.config.items() if not name.startswith("compression")}
    return resolve_producer(client, version, config).strategy


def check_producer(candidate: Candidate) -> None:
    """Refuses settings that no producer takes.

    Raises:
        ConfigError: naming the setting.
    """
    named = read_client(candidate)
    strategy = name_strategy(candidate)
    if strategy is not None and not is_custom(strategy):
        find_strategy(strategy)
    client = named[0] if named else JAVA
    for name, text in candidate.config.items():
        find_config(client, named[1] if named else NEWEST[client], name).parse(text)


def resolve_candidate(
    candidate: Candidate | None, baseline: Baseline, compression: Compression | None
) -> CandidateProducer:
    """What a producer would be.

    Args:
        candidate: Or None for the producer as it is.
        baseline: What is in use; its strategy has to be known where the candidate names none.
        compression: What the producer's codec does to its records, or None.

    Raises:
        ConfigError: The simulator does not follow the strategy, or the settings do not go together.
    """
    if candidate is None:
        client, version, strategy = baseline.client, baseline.version, baseline.strategy
        config: dict[str, str | None] = dict(baseline.config)
        told = [one.text for one in baseline.assumptions]
    else:
        client, version, config, strategy, told = _change(candidate, baseline)
    if strategy is None and (candidate is None or read_client(candidate) is None):
        raise ConfigError(baseline.reason or "the strategy in use is not known")
    if strategy is not None and not is_simulated(strategy):
        raise ConfigError(f"{strategy} is replayed for keys alone: the simulator does not follow it")
    compression, more = _choose_compression(config, compression)
    resolved = resolve_producer(client, version, config, strategy=strategy, compression=compression)
    return CandidateProducer(client, version, resolved, (*told, *more, *resolved.notes))


def _change(candidate: Candidate, baseline: Baseline) -> tuple[str, str, dict[str, str | None], str | None, list[str]]:
    """Client, version, configuration and strategy under a candidate."""
    named = read_client(candidate)
    strategy = candidate.partitioner
    if strategy is None and named is None:
        strategy = None if any(n.startswith("partitioner.") for n in candidate.config) else baseline.strategy
    told: list[str] = []
    if named is not None:
        client, version = named
        config = _given(baseline) if client == baseline.client else _translate(baseline)
    else:
        client, version = _fitting_version(strategy, baseline)
        config = _carried(baseline) if client == baseline.client else _translate(baseline)
    if client != baseline.client:
        told.append(f"settings of {baseline.client} that {client} does not share have {client}'s defaults")
    config.update(candidate.config)
    return client, version, config, strategy, told


def _fitting_version(strategy_name: str | None, baseline: Baseline) -> tuple[str, str]:
    """The producer's own version where that has the strategy; else one that has it."""
    if strategy_name is None or strategy_name == baseline.strategy:
        return baseline.client, baseline.version
    strategy = find_strategy(strategy_name)
    client = JAVA if strategy.name.startswith("java") else LIBRDKAFKA
    uses = sorted(strategy.uses, key=lambda use: not use.is_default)
    versions = [*([baseline.version] if client == baseline.client else []), *_VERSIONS[client]]
    for use in uses:
        for version in versions:
            if use.covers(version):
                return client, version
    return client, versions[0]


def _given(baseline: Baseline) -> dict[str, str | None]:
    """Settings somebody chose: a new version leaves them as they are."""
    return {
        name: setting.value
        for name, setting in baseline.settings.items()
        if setting.source == "configured" or (setting.source == "inferred" and not _is_default(baseline, name))
    }


def _is_default(baseline: Baseline, name: str) -> bool:
    key = find_config(baseline.client, baseline.version, name)
    return key.parse(baseline.settings[name].value) == (key.parse(key.default) if key.default else None)


def _carried(baseline: Baseline) -> dict[str, str | None]:
    """The producer's own settings, its version's defaults spelled out."""
    config: dict[str, str | None] = dict(baseline.config)
    if baseline.client == JAVA:
        for name in _CARRIED:
            key = find_config(JAVA, baseline.version, name)
            if name not in config and key.covers(baseline.version) and key.default:
                config[name] = key.default
    return {name: text for name, text in config.items() if not name.startswith("partitioner.")}


def _translate(baseline: Baseline) -> dict[str, str | None]:
    """What Java clients and librdkafka share by name."""
    shared = {"queue.buffering.max.ms": "linger.ms", "compression.codec": "compression.type"}
    config = {shared.get(name, name): text for name, text in baseline.config.items()}
    return {name: text for name, text in config.items() if name in ("linger.ms", "compression.type", "acks")}


def _choose_compression(
    config: Mapping[str, str | None], measured: Compression | None
) -> tuple[Compression | None, tuple[str, ...]]:
    codec = config.get("compression.type") or config.get("compression.codec") or "none"
    if codec == "none" or measured is not None:
        return measured, ()
    told = f"{codec} is taken to halve these records: they were not compressed, so its ratio is not known"
    return Compression(_UNMEASURED_RATIO_PPM), (told,)

"""Resolves a producer under a candidate: from the present settings and the candidate to a producer's settings."""

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.calibration.caveats import Caveat, Origin, Statement
from pipeline.calibration.limits import HALF
from pipeline.calibration.partitioner.baseline import Baseline
from pipeline.config.replay import IN_USE, Candidate
from pipeline.errors import ConfigError
from pipeline.partitioners.clients.java import RACK_AWARE
from pipeline.partitioners.registry import find_strategy, is_custom
from pipeline.simulator.clients.client import ANY_RACK, HASHED_ALWAYS, PLACEMENTS, Compression, describe_racks
from pipeline.simulator.clients.producer_configs import JAVA, LIBRDKAFKA, NEWEST, find_config
from pipeline.simulator.clients.producer_settings import ResolvedProducer, resolve_producer
from pipeline.simulator.distributions import PPM

Config = dict[str, str | None]

KEEP = Candidate(name=IN_USE)  # the current setup, replayed like any candidate
# Of each client, the versions to stand for a strategy that the producer's own version does not have.
_VERSIONS = {JAVA: ("3.9.2", "4.1.1", "3.2.3", "2.3.1", "4.4.0"), LIBRDKAFKA: ("2.16.0", "1.5.3")}
# Java settings that a producer keeps when only its partitioner is another: the defaults of its own version, too.
_NOT_BESIDE = ("enable.idempotence", "acks")  # transactions, but with values that are their defaults
_CARRIED = ("linger.ms", "batch.size", "acks", "buffer.memory", "compression.type", "enable.idempotence")


@dataclass(frozen=True)
class CandidateProducer:
    """A producer under a candidate: its client's version, its settings, and what these take for granted."""

    version: str
    resolved: ResolvedProducer
    assumptions: tuple[Statement, ...]


def is_simulated(strategy_name: str) -> bool:
    """Whether the simulator follows a strategy, so that it can assign records without a key."""
    return strategy_name in PLACEMENTS or strategy_name in HASHED_ALWAYS


def read_client(candidate: Candidate) -> tuple[str, str] | None:
    """Client and version that a candidate names, or None.

    >>> read_client(Candidate(name="new", client="4.1.1"))
    ('kafka-clients', '4.1.1')
    """
    if candidate.client is None:
        return None
    *client, version = candidate.client.split()
    return (client[0] if client else JAVA), version


def name_strategy(candidate: Candidate) -> str | None:
    """The strategy a candidate is about; None where it keeps the current one; a `ConfigError` where its settings name none."""
    named, partitioner = read_client(candidate), _name_partitioner(candidate)
    if partitioner is not None:
        return partitioner
    if named is None and not any(name.startswith("partitioner") for name in candidate.config):
        return None
    client, version = named or (JAVA, _VERSIONS[JAVA][0])
    config = {name: text for name, text in candidate.config.items() if not name.startswith("compression")}
    return resolve_producer(client, version, {**_any_rack(config, None), **config}).strategy


def _name_partitioner(candidate: Candidate) -> str | None:
    """The strategy that a candidate names, or that only one version has, without a version that would not have it."""
    others = {"partitioner.class", "partitioner.ignore.keys"} & candidate.config.keys()
    is_alone = candidate.client is None and not others
    return candidate.partitioner or (RACK_AWARE if is_alone and _any_rack(candidate.config, None) else None)


def _any_rack(config: Mapping[str, str | None], strategy: str | None) -> Config:
    """The rack to take for one that is not given, where the producer would be rack-aware."""
    is_aware = strategy == RACK_AWARE or (config.get("partitioner.rack.aware") or "").lower() == "true"
    return {"client.rack": ANY_RACK} if is_aware else {}


def check_producer(candidate: Candidate) -> None:
    """Refuses settings that no producer takes with a ConfigError that names the setting."""
    strategy = name_strategy(candidate)
    if strategy is not None and not is_custom(strategy):
        find_strategy(strategy)
    client, version = read_client(candidate) or (JAVA, NEWEST[JAVA])
    for name, text in candidate.config.items():
        find_config(client, version, name).parse(text)


def resolve_candidate(
    candidate: Candidate,
    baseline: Baseline,
    compression: Compression | None,
    racks: Mapping[int, str] | None = None,
    *,
    zone: str = "",
) -> CandidateProducer:
    """Resolves a producer in a `zone` under a candidate; `ConfigError` if no strategy is known, or settings contradict."""
    if candidate.name == IN_USE:
        client, version, strategy = baseline.client, baseline.version, baseline.strategy
        config: Config = dict(baseline.config)
        caveats = list(baseline.assumptions)
    else:
        client, version, config, strategy = _change(candidate, baseline, zone)
        is_other = client != baseline.client
        caveats = [Caveat.DEFAULTS_OF_CLIENT.say(old=baseline.client, new=client)] if is_other else []
    if strategy is None and candidate.client is None:
        raise ConfigError(baseline.reason or "the current strategy is not known")
    if strategy is not None and not is_simulated(strategy):
        raise ConfigError(f"{strategy} is replayed for keys alone: the simulator does not follow it")
    codec = config.get("compression.type") or config.get("compression.codec") or "none"
    if codec != "none" and compression is None:
        compression = Compression(round(HALF * PPM))
        caveats.append(Caveat.RATIO_UNKNOWN.say(codec=codec))
    resolved = resolve_producer(client, version, config, strategy=strategy, compression=compression)
    caveats += [Caveat.OF_SIMULATOR.say(text=note) for note in resolved.notes]
    if resolved.settings.is_transactional:
        is_known = candidate.commit_every is not None or "transactional.id" in baseline.settings
        caveats += [] if is_known else [Caveat.COMMITS_UNKNOWN.say()]
    elif candidate.commit_every is not None:
        caveats.append(Caveat.OF_SIMULATOR.say(text="commit_every: without effect, as transactional.id is not set"))
    if resolved.settings.client_rack:
        caveats += _say_racks(resolved.settings.client_rack, candidate.change_racks(racks or {}))
    return CandidateProducer(version, resolved, tuple(caveats))


def _say_racks(client_rack: str, racks: Mapping[int, str]) -> list[Statement]:
    known = sorted({rack for rack in racks.values() if rack})
    is_drawn = client_rack == ANY_RACK and bool(known)
    told = describe_racks(known[0] if is_drawn else client_rack, racks)
    drawn = [Caveat.RACKS_DRAWN.say()] if is_drawn and len(known) > 1 else []
    return [*drawn, *([Caveat.OF_SIMULATOR.say(text=told)] if told else [])]


def _change(candidate: Candidate, baseline: Baseline, zone: str) -> tuple[str, str, Config, str | None]:
    named, strategy = read_client(candidate), _name_partitioner(candidate)
    if strategy is None and named is None and not any(name.startswith("partitioner.") for name in candidate.config):
        strategy = baseline.strategy
    client, version = named or _fitting_version(strategy, baseline)
    if client != baseline.client:
        # settings that Java clients and librdkafka share by name
        shared = {"queue.buffering.max.ms": "linger.ms", "compression.codec": "compression.type"}
        kept = ("linger.ms", "compression.type", "acks", "transactional.id")
        renamed = {shared.get(name, name): text for name, text in baseline.config.items()}
        config: Config = {name: text for name, text in renamed.items() if name in kept}
    else:
        config = _carried(baseline) if named is None else _given(baseline)
    config |= candidate.config
    if candidate.config.get("transactional.id"):  # Kafka refuses it with the recorded values of these
        config = {name: text for name, text in config.items() if name not in _NOT_BESIDE or name in candidate.config}
    rack = _any_rack(config, strategy)
    if not rack:
        config.pop("client.rack", None)
    elif zone:
        rack = {"client.rack": zone}
    return client, version, {**rack, **config}, strategy


def _fitting_version(strategy_name: str | None, baseline: Baseline) -> tuple[str, str]:
    """The producer's own version where that has the strategy; else one that has it."""
    if strategy_name is None or strategy_name == baseline.strategy:
        return baseline.client, baseline.version
    strategy = find_strategy(strategy_name)
    client = JAVA if strategy.client == JAVA else LIBRDKAFKA
    versions = [*([baseline.version] if client == baseline.client else []), *_VERSIONS[client]]
    for use in sorted(strategy.uses, key=lambda use: not use.is_default):
        for version in versions:
            if use.covers(version):
                return client, version
    return client, versions[0]


def _given(baseline: Baseline) -> Config:
    """Settings somebody chose: a new version leaves them as they are."""
    return {
        name: setting.value
        for name, setting in baseline.settings.items()
        if setting.source == Origin.CONFIGURED
        or (setting.source == Origin.INFERRED and not _is_default(baseline, name))
    }


def _is_default(baseline: Baseline, name: str) -> bool:
    key = find_config(baseline.client, baseline.version, name)
    return key.parse(baseline.settings[name].value) == (key.parse(key.default) if key.default else None)


def _carried(baseline: Baseline) -> Config:
    """The producer's own settings, its version's defaults spelled out."""
    config: Config = dict(baseline.config)
    if baseline.client == JAVA:
        for name in _CARRIED:
            key = find_config(JAVA, baseline.version, name)
            if name not in config and key.covers(baseline.version) and key.default:
                config[name] = key.default
    return {name: text for name, text in config.items() if not name.startswith("partitioner.")}

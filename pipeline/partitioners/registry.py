"""All strategies: by name, or by client, version and setting."""

import difflib
import importlib
import pkgutil

from pipeline.errors import ConfigError
from pipeline.partitioners import clients
from pipeline.partitioners.custom import is_custom, load_custom
from pipeline.partitioners.strategy import Strategy


def _collect_strategies() -> dict[str, Strategy]:
    strategies: dict[str, Strategy] = {}
    for module in pkgutil.iter_modules(clients.__path__):
        for strategy in importlib.import_module(f"{clients.__name__}.{module.name}").STRATEGIES:
            if strategy.name in strategies:
                raise ConfigError(f"two strategies are called {strategy.name}")
            strategies[strategy.name] = strategy
    return strategies


STRATEGIES = _collect_strategies()  # every strategy by name, client after client


def find_strategy(name: str) -> Strategy:
    """The strategy of that name, or the user's own if it is of the form `module:name`.

    Raises:
        ConfigError: naming the most similar ones; or the user's cannot be loaded.
    """
    if is_custom(name):
        return load_custom(name)
    if name in STRATEGIES:
        return STRATEGIES[name]
    similar = difflib.get_close_matches(name.lower(), STRATEGIES, n=5, cutoff=0.5)
    parts = [known for known in STRATEGIES if name.lower() in known]
    near = list(dict.fromkeys([*parts[:5], *similar]))
    raise ConfigError(f"no strategy {name}; {'near: ' + ', '.join(near) if near else '--strategies lists them all'}")


def find_strategies(client: str, version: str, setting: str | None = None) -> tuple[Strategy, ...]:
    """Finds the strategies of a client version: for a setting (the client's own configuration value), or by default.

    None where the client, in that version, has no such setting.

    >>> [strategy.name for strategy in find_strategies("kafka-clients", "2.8.1")]
    ['java-sticky-2.4']
    """
    return tuple(
        strategy
        for strategy in STRATEGIES.values()
        if strategy.client == client
        and any(
            use.covers(version) and (use.is_default if setting is None else use.setting == setting)
            for use in strategy.uses
        )
    )

"""All strategies: by name, or by client, version and setting; user-defined ones by `module:name`.

    def by_customer(key: bytes, partition_count: int) -> int: ...

is such a one, a Python callable or Numba function over a key's bytes. The answer must follow from the key and the count
alone: what needs the value, the topic or the cluster cannot be computed again from recorded keys. A record without a key
is never asked about. What the function raises is not caught: its traceback is what its author needs.
"""

import difflib
import hashlib
import importlib
import inspect
import pkgutil
from collections.abc import Iterable
from pathlib import Path

from pipeline.errors import ConfigError, InputError
from pipeline.partitioners import clients
from pipeline.partitioners.strategy import Strategy, Use, choose_partition


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


CLIENT = "user-defined"
_NOT_AT_HAND = frozenset({"value", "value_bytes", "valueBytes", "record", "message", "headers", "topic", "cluster"})


def is_custom(name: str) -> bool:
    """Whether a strategy's name is of the form `module:name`."""
    return ":" in name


def load_custom(name: str) -> Strategy:
    """Imports a user's function, `module:name`, and makes a strategy of it.

    Its `source` ends in the version under which answers are to be stored.

    Raises:
        ConfigError: There is no such function, or it wants more than a key and a partition count.
    """
    module_name, _, function_name = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (ImportError, ValueError) as error:
        raise ConfigError(f"strategy {name}: {error}; expected a module on PYTHONPATH") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise ConfigError(f"strategy {name}: {module_name} has no function {function_name or '(no name)'}")
    parameters = inspect.signature(getattr(function, "py_func", function)).parameters.values()
    required = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
    ]
    wanted = [parameter for parameter in required if parameter in _NOT_AT_HAND]
    if wanted:
        raise ConfigError(
            f"strategy {name} needs {', '.join(wanted)}; only the key and the partition count are recorded"
        )
    if len(required) != 2:
        raise ConfigError(f"strategy {name} takes ({', '.join(required)}); expected a key and a partition count")
    # the version of a user's functions: 16 hex digits that change with the file they are in
    version = hashlib.sha256(Path(module.__file__).read_bytes()).hexdigest()[:16] if module.__file__ else "unknown"
    return Strategy(name, CLIENT, (Use(name),), f"{name}, version {version}", function=function)


def check_determinism(strategy: Strategy, keys: Iterable[bytes], partition_count: int) -> None:
    """Asks a user's function twice about every key of a sample.

    Raises:
        InputError: Two answers differ, so that nothing can be said about recorded keys; or one is out of range.
    """
    for key in keys:
        first, second = (choose_partition(strategy, key, partition_count) for _ in range(2))
        if first != second:
            reason = f"{strategy.name} returned {first}, then {second} for one key; expected a function of the key"
            raise InputError(reason, first_bytes=key)

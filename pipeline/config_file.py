"""Reads the configuration that `PARTITION_HEALTH_CONFIG` names; relative paths in it are taken from the file's own folder."""

import ast
import inspect
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipeline.config.pipeline_config import PipelineConfig
from pipeline.config.section import Section
from pipeline.config.yaml_file import find_yaml
from pipeline.environment import variable
from pipeline.errors import ConfigError
from pipeline.sources import kinds  # noqa: F401  (makes them known to the configuration)

CONFIG_VARIABLE = "PARTITION_HEALTH_CONFIG"
DEFAULT_CONFIG = "partition-health.yaml"


def load_config(path: Path | None = None, *, is_lenient: bool = False) -> PipelineConfig:
    """Reads and validates a file, else that of the environment or of this folder; `ConfigError` names every wrong key.

    If it `is_lenient`, clusters that alone are wrong are `unusable`, as long as another one is not.
    """
    path = path or config_path()
    document = find_yaml(path)
    if document is None:
        raise ConfigError(f"no configuration at {path}: pass --config FILE or set {CONFIG_VARIABLE}")
    file = path.resolve()
    context: dict[str, Any] = {"folder": file.parent, "file": file, "folders_of_pages": set()}
    try:
        return document.validate(PipelineConfig, context=context)
    except ConfigError as error:
        names = _find_wrong_clusters(error) if is_lenient else set()
        if not names or names >= document.value["clusters"].keys():
            raise
        usable = {name: own for name, own in document.value["clusters"].items() if name not in names}
        context |= {"unusable": dict.fromkeys(sorted(names), str(error)), "folders_of_pages": set()}
        return replace(document, value=document.value | {"clusters": usable}).validate(PipelineConfig, context=context)


def load_usable() -> PipelineConfig:
    """The configuration for what must go on for other clusters where one is wrong."""
    return load_config(is_lenient=True)


def _find_wrong_clusters(error: ConfigError) -> set[str]:
    """Names of the clusters that an error is about; none where it is about more."""
    wrong = error.__cause__.errors(include_url=False) if isinstance(error.__cause__, ValidationError) else ()
    places = {one["loc"][:2] for one in wrong if one["type"] != "default_factory_not_called"}
    is_of_clusters = all(place[:1] == ("clusters",) and len(place) > 1 for place in places)
    return {str(name) for _, name in places} if is_of_clusters else set()


def config_path() -> Path:
    return Path(variable(CONFIG_VARIABLE) or DEFAULT_CONFIG)


_EVERYWHERE = {
    "kind": "Kind of the source.",
    "path": "File or folder; a relative one is taken from the configuration's folder.",
    "paths": "Files, folders or patterns; relative ones are taken from the configuration's folder.",
    "interval": "Time between two scrapes.",
    "basic_auth": "Login with a password.",
    "bearer_token_variable": "Environment variable that holds a bearer token.",
    "tls_config": "Certificates.",
    "password_variable": "Environment variable that holds the password.",
    "k": "Windows above that make a failure ...",
    "n": "... among this many.",
    "owner": "Who is responsible; the cluster's owner where empty.",
    "topics": "Overrides by topic pattern, the first that fits.",
    "timeout_s": "How long to wait for an answer, in seconds.",
}  # what a key means in every section that has it and says nothing of it


def describe_schema() -> dict[str, Any]:
    """The configuration's JSON schema; what stands below a section's fields describes the properties."""
    schema = PipelineConfig.model_json_schema()
    schema["$defs"]["RuleSettings"].pop("required")  # what is left out comes from the rule's defaults
    sections = {kind.__name__: kind for kind in _list_sections(Section)}
    for title, section in ((PipelineConfig.__name__, schema), *schema["$defs"].items()):
        texts = _EVERYWHERE | dict(_list_texts(sections[title]))
        for name, own in section["properties"].items():
            own.pop("title", None)
            if name in texts:
                own["description"] = " ".join(texts[name].split())
    return schema


def _list_sections(kind: type[Section]) -> Iterator[type[Section]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _list_sections(below)


def _list_texts(kind: type[Section]) -> Iterator[tuple[str, str]]:
    """Keys, and what stands below their fields. Pydantic reads it, too, when it makes the class: every start would wait 0.4 s."""
    for base in (one for one in reversed(kind.__mro__) if issubclass(one, Section)):
        defined: Any = ast.parse(inspect.getsource(base)).body[0]
        for field, text in pairwise(defined.body):
            if isinstance(text, ast.Expr) and isinstance(field, ast.AnnAssign):
                name = ast.unparse(field.target)
                if name in base.model_fields:  # a `ClassVar` is no key
                    yield base.model_fields[name].alias or name, ast.literal_eval(text.value)

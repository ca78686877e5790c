"""Reads the configuration that `PARTITION_HEALTH_CONFIG` names; relative paths in it are taken from the file's own folder."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipeline.config.pipeline_config import PipelineConfig
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
    """The configuration's JSON schema; what a section's docstring says of its attributes describes the properties."""
    schema = PipelineConfig.model_json_schema()
    schema["$defs"]["RuleSettings"].pop("required")  # what is left out comes from the rule's defaults
    for section in (schema, *schema["$defs"].values()):
        for name, own in section.get("properties", {}).items():
            own.pop("title", None)
            if name in _EVERYWHERE:
                own["description"] = _EVERYWHERE[name]
        head, _, attributes = section.get("description", "").partition("\n\nAttributes:\n")
        section["description"] = head
        for entry in re.split(r"\n {4}(?=\w)", f"\n{attributes}"):
            name, _, meaning = entry.partition(": ")
            if name in section.get("properties", {}):
                section["properties"][name]["description"] = " ".join(meaning.split())
    return schema

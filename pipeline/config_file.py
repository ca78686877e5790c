"""Reads the configuration that `PARTITION_HEALTH_CONFIG` names; relative paths in it are taken from the file's own folder."""

import re
from pathlib import Path
from typing import Any

from pipeline.config.pipeline_config import PipelineConfig
from pipeline.config.yaml_file import find_yaml
from pipeline.environment import variable
from pipeline.errors import ConfigError
from pipeline.sources import kinds  # noqa: F401  (makes them known to the configuration)

CONFIG_VARIABLE = "PARTITION_HEALTH_CONFIG"
DEFAULT_CONFIG = "partition-health.yaml"


def load_config(path: Path | None = None) -> PipelineConfig:
    """Reads and validates a file, else that of the environment or of this folder; `ConfigError` names every wrong key."""
    path = path or config_path()
    document = find_yaml(path)
    if document is None:
        raise ConfigError(f"no configuration at {path}: pass --config FILE or set {CONFIG_VARIABLE}")
    file = path.resolve()
    return document.validate(PipelineConfig, context={"folder": file.parent, "file": file})


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

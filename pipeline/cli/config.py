"""Prints every setting with its type, default and meaning.

--schema prints a JSON schema for editors (`# yaml-language-server: $schema=FILE` as first line of the configuration).
"""

import argparse
import json
import textwrap
from collections.abc import Iterator
from typing import Any

from pipeline.cli.terminal import add_json_option, print_answer, text_width
from pipeline.config_file import describe_schema

Schema = dict[str, Any]
_WIDTH = 110


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--schema", action="store_true", help="the JSON schema")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    schema = describe_schema()
    settings = list(walk_settings(schema, schema))
    if args.schema:
        args.json = True
    print_answer(
        args, schema if args.schema else {"settings": settings}, lambda: "".join(map(describe_setting, settings))
    )
    return 0


def describe_setting(setting: Schema) -> str:
    default = setting["default"] if setting["default"] in ("", "required") else f"default {setting['default']}"
    if len(default) > _WIDTH:  # such as the set of candidates
        default = "default: a set of its own, see --json"
    head = ", ".join(filter(None, (f"{setting['key']}: {setting['type']}", default)))
    meaning = textwrap.fill(setting["meaning"], text_width(_WIDTH), initial_indent="    ", subsequent_indent="    ")
    return "\n".join(filter(str.strip, (head, meaning))) + "\n"


def walk_settings(schema: Schema, root: Schema, prefix: str = "") -> Iterator[Schema]:
    """Key, type, default and meaning of every property in a schema of pydantic's."""
    required = schema.get("required", ())
    for name, value in schema.get("properties", {}).items():
        key, sections = f"{prefix}{name}", list(_sections(value, root, f"{prefix}{name}"))
        is_section = isinstance(value.get("default"), dict) and sections
        default = "required" if name in required else "" if is_section else json.dumps(value.get("default"))
        meaning = " ".join(value.get("description", "").split())
        yield {"key": key, "type": _name_type(value, root), "default": default, "meaning": meaning}
        for path, below in sections:
            yield from walk_settings(below, root, f"{path}.")


def _sections(schema: Schema, root: Schema, key: str) -> Iterator[tuple[str, Schema]]:
    if "$ref" in schema:
        yield key, root["$defs"][schema["$ref"].rpartition("/")[2]]
    for below in (*schema.get("anyOf", ()), *schema.get("allOf", ())):
        yield from _sections(below, root, key)
    for below in schema.get("oneOf", ()):  # such as sources, each of a kind
        kind = root["$defs"][below["$ref"].rpartition("/")[2]]
        yield f"{key}{{{_name_type(kind['properties']['kind'], root)}}}", kind
    if "items" in schema:
        yield from _sections(schema["items"], root, f"{key}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _sections(schema["additionalProperties"], root, f"{key}.NAME")


def _name_type(schema: Schema, root: Schema) -> str:
    if "enum" in schema or "const" in schema:
        return " | ".join(map(str, schema.get("enum", [schema.get("const")])))
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_name_type(each, root) for each in schema["anyOf"]))
    if "items" in schema:
        return f"list of {_name_type(schema['items'], root)}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"mapping of {_name_type(schema['additionalProperties'], root)}"
    if isinstance(schema.get("type"), list):
        return " | ".join(schema["type"])
    return str(schema.get("format") or schema.get("type") or "mapping")

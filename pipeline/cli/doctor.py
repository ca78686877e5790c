"""Checks Java, jars, versions, configuration, sources, mail; says what to do. Exits with 2 if anything is wrong."""

import argparse
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from pipeline.alerting.alertmanager import read_silences
from pipeline.alerting.delivery import probe
from pipeline.cli.terminal import add_config_option, add_json_option, paint, print_answer, text_width
from pipeline.config.mail import Alertmanager
from pipeline.config.pipeline_config import Cluster, PipelineConfig
from pipeline.config.sections import plan_schedule
from pipeline.config_file import load_config
from pipeline.environment import delta_jars, make_spark_cache, variable
from pipeline.errors import ConfigError, DeliveryError, StorageError
from pipeline.model.number_text import escape_hidden
from pipeline.sources.kinds import list_given
from pipeline.sources.questions import Finding
from pipeline.sources.source import Source, sources_of
from pipeline.storage.java import delta_package, find_delta_jars, find_java, write_java_shim
from pipeline.storage.outbox import undelivered
from pipeline.storage.tables_on_disk import count_rows

DISTRIBUTION = "partition-health"
_SMTP_TIMEOUT_S = 5.0
_SICK_EXIT_CODE = 2


def add_options(parser: argparse.ArgumentParser) -> None:
    add_config_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    findings = []
    for finding in examine(args.config):
        findings.append(finding)
        if not args.json:
            print(as_text(finding), end="", flush=True)
    is_ok = all(finding.is_ok for finding in findings)
    print_answer(args, {"is_ok": is_ok, "checks": [asdict(finding) for finding in findings]}, "")
    return 0 if is_ok else _SICK_EXIT_CODE


def examine(config_path: Path | None) -> Iterator[Finding]:
    """Looks at one thing after the other; without a path the configuration is in one of the usual places."""
    wanted, version = metadata.metadata(DISTRIBUTION)["Requires-Python"], sys.version.split()[0]
    is_ok = Requirement(f"python{wanted}").specifier.contains(version)
    advice = "" if is_ok else f"needs {wanted}; run make setup"
    yield Finding(name="Python", is_ok=is_ok, found=f"Python {version} in {sys.prefix}", advice=advice)
    yield _versions()
    yield _asked("Java", "install Java 17 and set JAVA_HOME", _java)
    yield _asked("Delta jars", "set DELTA_JARS, or spark.jars.ivySettings under spark.conf", _delta_jars)
    try:
        config = load_config(config_path)
    except ConfigError as error:
        yield Finding(name="configuration", is_ok=False, found=str(error), advice="correct it, or pass --config FILE")
    else:
        yield Finding(name="configuration", found=f"clusters: {', '.join(config.clusters)}")
        yield from _examine_config(config)
        found = "the password or token is sent over the network in clear text: use TLS"
        yield from (Finding(name=name, found=found) for name in list_in_clear(config))
    yield _airflow()


def _examine_config(config: PipelineConfig) -> Iterator[Finding]:
    warehouse = config.warehouse
    if isinstance(warehouse, Path):
        yield _folder("warehouse", warehouse)
    try:
        rows = count_rows(warehouse)
    except StorageError as error:
        held, _, advice = str(error).rpartition("; ")  # its last part says what to do
        yield Finding(name="tables", is_ok=False, found=held, advice=advice)
        rows = {}
    if rows:
        yield Finding(name="tables", found=f"{len(rows)} tables, {sum(rows.values()):,} rows")
    for name, cluster in config.clusters.items():
        for source in sources_of(cluster, Source):
            yield from try_source(name, source)
        yield from _list_numbers(name, cluster)
    if _airflow_version():  # without it windows of any length can be run
        advice = "correct window in the configuration; partition-health run takes windows of any length"
        plan = partial(plan_schedule, config.window, config.grace)
        yield _asked("schedule", advice, lambda: f"ingest at `{plan().cron}` (cron, UTC)")
    yield _folder("outbox", config.outbox)
    if rows:
        left = [message for message in undelivered(config.warehouse) if not message.is_silenced]
        given_up = sum(message.given_up_at_ms is not None for message in left)
        held = f"{len(left)} messages undelivered, {given_up} of them given up" if left else "everything is delivered"
        advice = "partition-health outbox says why; --retry all tries them again" if given_up else ""
        yield Finding(name="alerts", is_ok=not given_up, found=held, advice=advice)
    smtp = config.mail.smtp
    if smtp is None:
        yield Finding(name="mail", found="no SMTP server configured: mails become files in the outbox folder")
    else:
        quick = smtp.model_copy(update={"timeout_s": min(smtp.timeout_s, _SMTP_TIMEOUT_S)})
        advice = "correct mail.smtp in the configuration, or find out why the server does not answer"
        yield _asked("mail", advice, lambda: probe(quick))
    for server in config.mail.alertmanagers:
        quick_server = server.model_copy(update={"timeout_s": min(server.timeout_s, _SMTP_TIMEOUT_S)})
        advice = "correct mail.alertmanagers in the configuration, or find out why the server does not answer"
        yield _asked(f"Alertmanager {server.name}", advice, partial(_silences, quick_server))


def list_in_clear(config: PipelineConfig) -> Iterator[str]:
    """What sends a password or token to another machine without TLS; mail never does."""
    for name, cluster in config.clusters.items():
        for source in cluster.sources:
            access, client = getattr(source, "access", None), getattr(source, "client", None)
            urls = (source.url,) if hasattr(source, "url") else getattr(source, "urls", {}).values()
            is_clear = access is not None and any(map(access.sends_in_clear, urls))
            if client is not None:
                is_clear = client.uses_sasl and not client.uses_tls and not client.sasl_mechanism.startswith("SCRAM")
            if is_clear:
                yield f"{name}: {source.kind}"
    for alertmanager in config.mail.alertmanagers:
        if alertmanager.sends_in_clear(alertmanager.url):
            yield f"Alertmanager {alertmanager.name}"
    gateway, remote = config.metrics.pushgateway, config.spark.remote or ""
    if gateway is not None and gateway.sends_in_clear(gateway.url):
        yield "Pushgateway"
    if "token=" in remote and "use_ssl=true" not in remote.lower():
        yield "Spark"


def _silences(alertmanager: Alertmanager) -> str:
    return f"{alertmanager.url}, {len(read_silences(alertmanager))} active silences"


def try_source(cluster: str, source: Source) -> Iterator[Finding]:
    name = f"{cluster}: {source.kind}"
    for finding in source.probe():
        yield replace(finding, name=f"{name}, {finding.name}" if finding.name else name)


def _list_numbers(name: str, cluster: Cluster) -> Iterator[Finding]:
    kinds = {source.kind for source in cluster.sources}
    columns = [source.column_with(kinds) for source in sources_of(cluster, Source)]
    given, missing = list_given(column for column in columns if column)
    yield Finding(name=f"{name}: known", found=", ".join(given))
    if missing:
        found = f"{', '.join(missing)}; `partition-health tables --sources` says which sources give them"
        yield Finding(name=f"{name}: not known", found=found)


def _asked(name: str, advice: str, ask: Callable[[], str]) -> Finding:
    try:
        return Finding(name=name, found=ask())
    except (ConfigError, DeliveryError) as error:
        return Finding(name=name, is_ok=False, found=str(error), advice=advice)


def _versions() -> Finding:
    """The packages this one names, against what is installed; and pyspark's files against its own record."""
    wrong = []
    wanted = [Requirement(text) for text in metadata.requires(DISTRIBUTION) or ()]
    extra = {"extra": "airflow" if _airflow_version() else ""}
    wanted = [requirement for requirement in wanted if requirement.marker is None or requirement.marker.evaluate(extra)]
    for requirement in wanted:
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{requirement.name} is missing")
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{requirement.name} is {version}, not {requirement.specifier}")
    for name in ("pyspark-client", "pyspark-connect"):  # each writes into the same folder
        installed = metadata.version("pyspark")
        others = {other.version for other in metadata.distributions(name=name)} - {installed}
        wrong.extend(f"{name} {other} has overwritten files of pyspark {installed}" for other in others)
    found = "; ".join(wrong) or f"{len(wanted)} packages as pinned"
    return Finding(name="packages", is_ok=not wrong, found=found, advice="run make setup" if wrong else "")


def _java() -> str:
    java = find_java()
    return f"Java {java.version} in {java.home} ({java.origin})"


def _delta_jars() -> str:
    if delta_jars():
        return f"{len(find_delta_jars(Path(), Path(), {}))} from DELTA_JARS"
    cache = make_spark_cache()
    jars = find_delta_jars(cache, write_java_shim(find_java(), cache), {})
    return f"{len(jars)} of {delta_package()} in {Path(jars[0]).parent}"


def _folder(name: str, folder: Path) -> Finding:
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        advice = "choose another folder in the configuration, or correct its owner or disk"
        return Finding(name=name, is_ok=False, found=f"{nearest} takes no files: {error.strerror}", advice=advice)
    return Finding(name=name, found=f"{folder}{'' if nearest == folder else ' (will be created)'}")


def _airflow() -> Finding:
    home, version = variable("AIRFLOW_HOME"), _airflow_version()
    if version is None:
        return Finding(name="Airflow", found=f"not installed; the DAGs need it: pip install '{DISTRIBUTION}[airflow]'")
    if not home:
        return Finding(name="Airflow", found=f"{version}; AIRFLOW_HOME is not set: make serve makes its own")
    folder = _folder("Airflow", Path(home))
    return replace(folder, found=f"{version}; home {folder.found}")


def _airflow_version() -> str | None:
    try:
        return metadata.version("apache-airflow")
    except metadata.PackageNotFoundError:
        return None


def as_text(finding: Finding) -> str:
    wrap = partial(
        textwrap.fill, width=text_width(110), subsequent_indent=" " * 9, break_long_words=False, break_on_hyphens=False
    )
    mark, verdict = ("ok  ", "ok") if finding.is_ok else ("FAIL", "fail")
    found = wrap(escape_hidden(f"{mark}  {finding.name}: {finding.found}", keep="\n")).removeprefix(mark)
    advice = wrap(escape_hidden(f"      -> {finding.advice}", keep="\n")) + "\n" if finding.advice else ""
    return f"{paint(mark, verdict)}{found}\n{advice}"

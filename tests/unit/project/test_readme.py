"""What the README shows works."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from pipeline.cli import COMMANDS, build_parser
from pipeline.cli import main as run_command
from pipeline.config_file import load_config
from pipeline.sources.live.settings import ClientSettings
from tests.lab.measured_clients import EXPORTED
from tests.report_tables import write_config, write_warehouse

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    ("paper", "clusters"), [("README.md", {"prod"}), ("docs/CONFIGURATION.md", {"prod-eu", "prod-us"})]
)
def test_the_configuration_is_valid(tmp_path, paper, clusters):
    (block,) = re.findall(r"```yaml\n(.*?)```", (ROOT / paper).read_text(), re.DOTALL)
    file = tmp_path / "partition-health.yaml"
    file.write_text(block)
    assert set(load_config(file).clusters) == clusters


def modules_called(paper):
    """Modules of the commands that a paper shows, whose options are those they have."""
    shown = [shlex.split(line, comments=True) for line in re.findall(r"^partition-health (.*)", paper, re.MULTILINE)]
    return {build_parser(words[0]).parse_args(words).run.__module__ for words in shown}


def test_every_command_is_shown_with_options_that_it_has():
    assert modules_called(README) == {f"pipeline.cli.{name.replace('-', '_')}" for name in COMMANDS}


def test_commands_of_the_first_run_have_these_options():
    called = modules_called((ROOT / "docs/FIRST-RUN.md").read_text())
    assert called == {f"pipeline.cli.{name}" for name in ("init", "doctor", "run", "report", "sql")}


PAGES = sorted((ROOT / "docs/questions").glob("*.md"))


def commands_of(page):
    """Words of each command in a page's blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
    return [shlex.split(line, comments=True)[1:] for block in blocks for line in block.splitlines()]


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A configuration with judged windows; brokers' logs and scrapes lie nowhere, as on a reader's machine."""
    folder = tmp_path_factory.mktemp("questions")
    write_warehouse(folder / "warehouse")
    write_config(folder)
    return folder / "partition-health.yaml"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(page, judged, capsys):
    """Exit codes: `replay` finds no such folder (2), `what-if --zones` no rack (3); what `doctor` finds is the machine's."""
    expected = {"doctor": {0, 2}, "replay": {2}, "what-if": {3}}
    for words in commands_of(page):
        config = [] if words[0] in {"tables", "replay"} else ["--config", str(judged)]
        code = run_command([*words, *config])
        assert code in expected.get(words[0], {0}), (words, capsys.readouterr())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_command_query_and_picture_and_links_the_glossary(page):
    text = page.read_text()
    assert len(text.splitlines()) <= 65
    for part in ("```sh\n", "```sql\n", "](../pictures/", "](../GLOSSARY.md)"):
        assert part in text, part


def test_pages_show_these_commands():
    called = {build_parser(words[0]).parse_args(words).run.__module__ for page in PAGES for words in commands_of(page)}
    assert called == {f"pipeline.cli.{name}" for name in ("report", "replay", "mute", "doctor", "tables", "what_if")}


@pytest.mark.parametrize("folder", [".", "docs", "docs/evidence"])
def test_words_of_the_makefile_exist(folder):
    text = "".join(paper.read_text() for paper in (ROOT / folder).glob("*.md"))
    words = set(re.findall(r"^make ([\w-]+)", text, re.MULTILINE)) | set(re.findall(r"`make ([\w-]+)[`\s]", text))
    assert words
    assert words <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_the_readme_shows_how_to_run_and_to_test():
    assert {"run", "test"} <= set(re.findall(r"^make (\w+)", README, re.MULTILINE))


def test_the_beans_that_suffice_are_those_that_are_tested():
    """`tests/integration/metrics` fills every table of brokers' metrics from them."""
    paper = (ROOT / "docs/CONFIGURATION.md").read_text().partition("includeObjectNames:")[2].partition("```")[0]
    assert tuple(re.findall(r'- "(.*)"', paper)) == EXPORTED


def test_the_clients_that_the_paper_connects_are_valid(tmp_path):
    (block,) = re.findall(r"```yml\n(client: .*?)```", (ROOT / "docs/CONFIGURATION.md").read_text(), re.DOTALL)
    clients = [yaml.safe_load("client: " + text)["client"] for text in block.split("client: ")[1:]]
    found = [ClientSettings.model_validate(client) for client in clients]
    assert [(one.security_protocol, one.sasl_mechanism) for one in found] == [
        ("SASL_SSL", "SCRAM-SHA-512"),
        ("SSL", None),
        ("SASL_SSL", "OAUTHBEARER"),
        ("SASL_SSL", "AWS_MSK_IAM"),
    ]

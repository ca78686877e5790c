"""What README, CONTRIBUTING and `docs/` say is true of the repository: links, folders, names."""

import ast
import re
from collections import defaultdict
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.rules_paper import PAPER, with_table

ROOT = Path(__file__).parents[3]
PAPERS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("docker/*.md")])


def anchors_of(paper: Path) -> set[str]:
    """Anchors of a paper's headings, as Git hosts make them."""
    headings = re.findall(r"^#+ (.*)$", paper.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: str(paper.relative_to(ROOT)))
def test_links_lead_somewhere(paper):
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", paper.read_text()):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (paper.parent / unquote(name)).resolve() if name else paper
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: str(paper.relative_to(ROOT)))
def test_no_merge_is_left_half_done(paper):
    assert re.findall(r"^(?:<{7}|={7}|>{7})(?: .*)?$", paper.read_text(), re.MULTILINE) == []


def test_every_paper_is_linked_from_the_readme_or_from_one_that_is():
    linked, queue = {ROOT / "README.md"}, [ROOT / "README.md"]
    for paper in queue:
        for link in re.findall(r"\]\(([^)\s#]+\.md)", paper.read_text()):
            target = (paper.parent / link).resolve()
            if target not in linked:
                linked.add(target)
                queue.append(target)
    assert set(PAPERS) - linked == set()


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 90


def test_what_users_read_stays_short():
    """All of `docs` but the evidence and the page about the code."""
    papers = {*ROOT.glob("docs/*.md"), *ROOT.glob("docs/questions/*.md")} - {ROOT / "docs/ARCHITECTURE.md"}
    assert sum(len(paper.read_text().splitlines()) for paper in papers) < 1500
    assert len((ROOT / "docs/FIRST-RUN.md").read_text().splitlines()) < 80


@pytest.mark.parametrize("paper", sorted(ROOT.glob("docs/evidence/*.md")), ids=lambda paper: paper.stem)
def test_commands_write_into_the_page_that_names_them(paper):
    text = paper.read_text()
    assert text.count("<!-- made by: make ") == text.count("<!-- end of what it made -->\n")
    assert {ROOT / name for name in re.findall(r"--write\s(docs/[\w/.-]+\.md)", text)} <= {paper}


def test_paths_that_papers_name_exist():
    for paper in PAPERS:
        named = re.findall(r"`((?:pipeline|tests|dags|expectations|docs|docker)/[\w./-]*)`", paper.read_text())
        missing = [path for path in named if not (ROOT / path).exists()]
        assert missing == [], paper.name


def test_tests_that_papers_name_exist():
    for paper in PAPERS:
        for path, test in re.findall(r"`(tests/[\w/.-]+\.py)::(\w+)`", paper.read_text()):
            assert f"def {test}(" in (ROOT / path).read_text(), f"{paper.name}: {path}::{test}"


def test_the_map_shows_every_folder_and_no_other():
    architecture = (ROOT / "docs/ARCHITECTURE.md").read_text()
    shown = set(re.findall(r"^\| `([a-z/]+)/` \|", architecture.split("## Folders")[1], re.MULTILINE))
    assert {name for name in shown if not (ROOT / name).is_dir()} == set()
    rooms = {f"pipeline/{file.parent.name}" for file in (ROOT / "pipeline").glob("*/__init__.py")}
    assert rooms | {"dags", "expectations", "docker", "tests"} == shown


def test_every_table_is_in_the_list_of_its_layer():
    from pipeline.tables import TABLES  # noqa: PLC0415

    architecture = (ROOT / "docs/ARCHITECTURE.md").read_text().split("## Tables")[1].split("\n## ")[0]
    listed = re.findall(r"^\| (bronze|silver|gold),[^|]*\| `([^`]*)`", architecture, re.MULTILINE)
    assert sorted(f"{layer}.{name}" for layer, names in listed for name in names.split()) == sorted(
        table.name for table in TABLES
    )


def test_the_glossary_is_in_alphabetical_order():
    words = re.findall(r"^\| ([\w -]+?) \|", (ROOT / "docs/GLOSSARY.md").read_text(), re.MULTILINE)[1:]
    assert len(words) > 30
    assert words == sorted(words)


def test_public_names_are_unique_or_explained():
    rooms = defaultdict(list)
    for folder in ("pipeline", "dags", "expectations"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                    rooms[node.name].append(path.relative_to(ROOT).parts[1].removesuffix(".py"))
    names = (ROOT / "CONTRIBUTING.md").read_text().split("### Names that occur twice")[1].split("\n### ")[0]
    explained = {
        name: set(places.split(", ")) for name, places in re.findall(r"^\| `(\w+)` \| ([^|]*) \|", names, re.M)
    }
    twice = {name: set(places) for name, places in rooms.items() if len(places) > 1}
    assert twice == explained


def test_the_table_of_rules_is_that_of_the_rules():
    assert PAPER.read_text() == with_table(PAPER.read_text())

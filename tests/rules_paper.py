"""Program: writes the table of rules in `docs/RULES.md` from `pipeline.rules`."""

import re
from pathlib import Path

from pipeline.rules import RULES

PAPER = Path(__file__).parents[1] / "docs/RULES.md"
HEAD = "| rule | measure | limit, k of n | severity |\n|---|---|---|---|\n"


def with_table(text: str) -> str:
    """The paper with the table as the rules have it."""
    rows = "".join(
        f"| `{rule.name}` | {rule.doc} | {rule.limit:g}, {rule.k} of {rule.n} | {rule.severity} |\n"
        for rule in RULES.values()
    )
    return re.sub(re.escape(HEAD) + r"(\|.*\n)*", lambda _: HEAD + rows, text)


if __name__ == "__main__":
    PAPER.write_text(with_table(PAPER.read_text()))

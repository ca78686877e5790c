"""Commands on a terminal, in a shell and in `--help`. Oracles: a real pseudo-terminal, bash, and argparse."""

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from pipeline.cli import COMMANDS, build_parser
from pipeline.cli.terminal import print_error
from pipeline.tables import TABLES

ROOT = Path(__file__).parents[3]
TABLE = """
from pipeline.cli.terminal import paint, show_table
rows = [["broker 1", "fail", "a long reason " * 12, "1.40"], ["broker 2", "ok", "[bold]x", "0.80"]]
print(show_table(["subject", "verdict", "reason", "ratio"], rows, right=frozenset({3}), indent=2), end="")
print(paint("NOT healthy", "fail"))
"""
SHELL = """
from pipeline.cli.sql import read_statements, show_answer
for statement in read_statements(["gold.broker_share", "share_ratio"]):
    show_answer(f"<{statement}>\\n" * (40 if "many" in statement else 1))
"""


def on_terminal(arguments, *, typed="", columns=80, lines=24, **variables):
    """What a program writes to a terminal of some size, which a person types into, until it ends."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment = {**kept, "TERM": "xterm-256color", "INPUTRC": os.devnull, **variables}
    with subprocess.Popen(arguments, stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, env=environment) as process:
        os.close(slave)
        os.write(master, typed.encode())  # the terminal keeps it until it is read
        written = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # it has ended
                break
            if not part:
                break
            written += part
    os.close(master)
    assert process.returncode == 0, written
    return written.decode().replace("\r\n", "\n")


def plain(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@pytest.mark.parametrize(("columns", "is_list"), [(24, True), (41, True), (42, False), (200, False)])
def test_a_table_fits_the_terminal_and_keeps_every_word(columns, is_list):
    shown = on_terminal([sys.executable, "-c", TABLE], columns=columns)
    assert max(len(line.rstrip()) for line in plain(shown).splitlines()) <= columns
    assert bool(re.search(r"^  subject +broker 1", plain(shown), re.MULTILINE)) is is_list
    assert plain(shown).count("long") == 12
    assert "[bold]x" in plain(shown)
    assert re.search(r"\x1b\[[\d;]*31m(NOT healthy|fail)", shown)


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_where_none_is_wanted_or_shown(variables):
    shown = on_terminal([sys.executable, "-c", TABLE], **variables)
    assert not re.search(r"\x1b\[[\d;]*3\dm", shown)
    assert "NOT healthy" in shown


def test_a_pipe_gets_whole_lines_without_colour():
    shown = subprocess.run([sys.executable, "-c", TABLE], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert shown.splitlines()[1] == f"  broker 1  fail     {'a long reason ' * 12}   1.40"
    assert "\x1b" not in shown


@pytest.mark.parametrize("arguments", [["tables"], ["tables", "gold.verdicts"], ["config"]])
def test_commands_keep_to_the_terminal(arguments):
    shown = plain(on_terminal([sys.executable, "-m", "pipeline", *arguments], columns=60))
    wide = [line for line in shown.splitlines() if len(line.rstrip()) > 60]
    assert [line for line in wide if ": " not in line] == []  # a setting's name, type and default stay on one line


def test_what_an_error_repeats_acts_on_no_terminal(capsys):
    print_error("\x1b[31ma broker's words\nand the next line\u202e")
    assert capsys.readouterr().err == "\\x1b[31ma broker's words\nand the next line\\u202e\n"


def test_the_shell_completes_names_of_tables_and_columns_and_remembers(tmp_path):
    typed = "SELECT share_r\t FROM gold.brok\t;\nexit\n"
    shown = on_terminal([sys.executable, "-c", SHELL], typed=typed, columns=200, PARTITION_HEALTH_CACHE=str(tmp_path))
    assert re.search(r"<SELECT share_ratio +FROM gold.broker_share *>", shown)
    assert "share_ratio" in (tmp_path / "sql_history").read_text()


def test_an_answer_longer_than_the_terminal_is_paged(tmp_path):
    paged = {"PAGER": "sed s/^/paged:/", "PARTITION_HEALTH_CACHE": str(tmp_path)}
    shown = on_terminal([sys.executable, "-c", SHELL], typed="SELECT few;\nSELECT many;\nexit\n", **paged)
    assert shown.count("paged:<SELECT many>") == 40
    assert "paged:<SELECT few>" not in shown
    assert "<SELECT few>" in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_and_each_is_understood(command, capsys):
    parser = build_parser(command)
    for example in COMMANDS[command][1:]:
        words = shlex.split(re.sub(r" [<>] \S+$", "", example))
        assert words[0] == command
        assert parser.parse_args(words).run is not None
    with pytest.raises(SystemExit):
        parser.parse_args([command, "--help"])
    help_text = capsys.readouterr().out
    assert all(f"  partition-health {example}\n" in help_text for example in COMMANDS[command][1:])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("partition-health ta", {"tables"}),
        ("partition-health tables gold.v", {"gold.verdicts"}),
        ("partition-health tables ", {table.name for table in TABLES}),
        ("partition-health outbox --re", {"--retry"}),
        ("partition-health mute 'K-1' --unt", {"--until"}),
    ],
)
def test_bash_completes(line, expected):
    programs = Path(sys.executable).parent
    script = f"""
        set -e
        eval "$({programs}/register-python-argcomplete partition-health)"
        COMP_LINE={shlex.quote(line)} COMP_POINT=${{#COMP_LINE}} COMP_TYPE=9
        COMP_POINT=${{#COMP_LINE}} COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
        _python_argcomplete {programs}/partition-health
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, check=False)
    found = {word.strip() for word in done.stdout.splitlines()}
    assert expected <= found, done.stderr
    assert all(word in expected or word.startswith("-") for word in found), found

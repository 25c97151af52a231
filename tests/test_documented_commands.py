"""Every command and option that README and `docs/` show exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from orienteer.cli import app

COMMANDS = typer.main.get_command(app)
ROOT = Path(__file__).parent.parent
PAGES = sorted(path for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))
# Options of experiments that ended; the lab book still shows the command that was run.
ENDED = {"--pretrain": "lab-book/t5.md"}
_INLINE = re.compile(r"`orienteer\s([^`]*)`")
_LINE = re.compile(r"^\s*(?:[A-Z_]+=\S+ )*(?:\$ )?orienteer ((?:.*\\\n)*.*)$", re.MULTILINE)


def shown_commands(page: str) -> Iterator[list[str]]:
    """The words after `orienteer` of every command line of a page, in code blocks and within sentences."""
    blocks = "\n".join(block for block in re.findall(r"(?:^(?: {4}.*|\s*)$\n?)+|^```.*?^```", page, re.M | re.S))
    for text in (*_LINE.findall(blocks), *_INLINE.findall(page)):
        words = shlex.split(text.replace("\\\n", " ").replace("…", " "), comments=True)
        yield words[: words.index("|")] if "|" in words else words


def missing(words: list[str]) -> str:
    """What of a command line does not exist; empty where all does."""
    command: Any = COMMANDS
    name, words = "orienteer", [word for word in words if word not in ("--help", "--version")]
    while hasattr(command, "get_command") and words and not words[0].startswith("-"):
        name, words = words[0], words[1:]
        command = command.get_command(typer.Context(command), name)
        if command is None:
            return f"no command {name!r}"
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    given = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    return ", ".join(f"{name} has no option {option}" for option in given if option not in known)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_that_a_page_shows_exists(page: Path) -> None:
    for words in shown_commands(page.read_text(encoding="utf-8")):
        ended = [name for name, where in ENDED.items() if page.as_posix().endswith(where)]
        wrong = missing([word for word in words if word not in ended])
        assert not wrong, f"{page.name}: orienteer {' '.join(words)}: {wrong}"


def test_commands_are_found_in_blocks_and_in_sentences() -> None:
    block = "    orienteer search INDEX 'a b' \\\n        --explain   # why\n"
    page = f"Run\n\n{block}\nor `orienteer agents`.\n\n    make orienteer\n"
    assert list(shown_commands(page)) == [["search", "INDEX", "a b", "--explain"], ["agents"]]
    assert sum(len(list(shown_commands(page.read_text(encoding="utf-8")))) for page in PAGES) > 100


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("search INDEX QUERY --explain", ""),
        ("train look --success 6 --price 0.003 --back 0.2", ""),
        ("serach INDEX", "no command 'serach'"),
        ("search INDEX --explian", "search has no option --explian"),
        ("train pointer --minuts 3", "pointer has no option --minuts"),
    ],
)
def test_a_command_that_does_not_exist_is_noticed(line: str, wrong: str) -> None:
    assert missing(line.split()) == wrong

"""Every command that the pages show can be typed: it is there, with its options."""

import argparse
import contextlib
import io
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

from autograder.cli import parser as autograder
from ddp_lab.cli import parser as ddp_lab
from minitorch.serve.__main__ import parser as serve

ROOT = Path(__file__).parents[1]
NAMED = (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "labs/README.md"))
PAGES = "\n".join(
    page.read_text(encoding="utf-8") for page in [*NAMED, *(ROOT / "docs").rglob("*.md")]
)
PARSERS = {"autograder": autograder(), "ddp_lab": ddp_lab(), "minitorch.serve": serve()}

# On a line of its own, such as systemd's; and within a sentence, where arguments may be left out.
LINES = re.findall(r"^    (?:ExecStart=\S+/)?((?:autograder|python -m) .+)", PAGES, re.M)
MENTIONS = re.findall(r"`((?:autograder|python -m) [^`\n]+)`", PAGES)
TARGETS = re.findall(r"(?:`|^    )make ([a-z-]+)", PAGES, re.M)
PROGRAMS = re.findall(r"\b(?:bench|scripts|deploy)/\w+\.\w+", PAGES)


def wrong(line: str, *, is_whole: bool) -> str:
    """Return what is wrong with a command line, or an empty text."""
    typed = re.sub(r"\$\(.*?\)|[][]", "", re.split(r" [|>] | -- ", line)[0])
    words = shlex.split(typed, comments=True)
    module, *rest = words[2:] if words[0] == "python" else words
    if module not in PARSERS:
        return "" if find_spec(module) else module
    unknown = unknown_word(PARSERS[module], rest)
    if unknown or not is_whole or "..." in rest:
        return unknown
    with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.suppress(SystemExit):
        PARSERS[module].parse_args(rest)
    return said.getvalue()


def unknown_word(parser: argparse.ArgumentParser, words: list[str]) -> str:
    """Return the command or option that a parser, or one that it leads to, does not have."""
    kind = argparse._SubParsersAction
    commands = next((a.choices for a in parser._actions if isinstance(a, kind)), None)
    for place, word in enumerate(words):
        if word.startswith("--"):
            if word.partition("=")[0] not in parser._option_string_actions:
                return word
        elif commands is not None:
            there = commands.get(word)
            return unknown_word(there, words[place + 1 :]) if there else word
    return ""


def test_commands_of_the_pages_are_there_with_their_options() -> None:
    assert len(LINES) > 40 and len(MENTIONS) > 40
    assert {line: wrong(line, is_whole=True) for line in LINES if wrong(line, is_whole=True)} == {}
    assert [line for line in MENTIONS if wrong(line, is_whole=False)] == []


@pytest.mark.parametrize(
    ("line", "is_whole", "says"),
    [
        ("autograder realise labs -o out", False, "realise"),
        ("autograder serve --data D --labour labs  # as ever", False, "--labour"),
        ("autograder marking asign [LOGIN]", False, "asign"),
        ("autograder roster time ada", True, "required: FACTOR"),
        ("autograder export --format excel", True, "invalid choice"),
        ("python -m ddp_lab calibrate --transport wire", True, "invalid choice"),
        ("python -m ddp_labs", True, "ddp_labs"),
    ],
)
def test_a_command_that_cannot_be_typed_is_found(line: str, is_whole: bool, says: str) -> None:
    assert says in wrong(line, is_whole=is_whole)


def test_targets_and_programs_of_the_pages_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [name for name in TARGETS if not re.search(f"^{name}:", makefile, re.M)] == []
    assert len(PROGRAMS) > 10
    assert [path for path in PROGRAMS if not (ROOT / path).exists()] == []

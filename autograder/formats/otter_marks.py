"""Otter's marks for solutions in a code cell, turned into our regions and back.

x = 3 # SOLUTION                            x = ... stays
x = 3 # SOLUTION NO PROMPT                  goes
# BEGIN SOLUTION ... # END SOLUTION         ... stays; NO PROMPT: goes
\"\"\" # BEGIN PROMPT ... \"\"\" # END PROMPT    stays, in place of `...`
"""

import re
from collections.abc import Iterator
from pathlib import Path

from autograder.authoring.regions import parts_of
from autograder.records import Cell

_LINE = re.compile(r"^(?P<indent>\s*)(?P<code>.*?)\s*#\s*(?:SOLUTION(?P<no> NO PROMPT)?|SEED)\s*$")
_BEGIN = re.compile(r"^(?P<indent>\s*)#\s*BEGIN SOLUTION(?P<no> NO PROMPT)?\s*$")
_END = re.compile(r"^\s*#\s*END SOLUTION\s*$")
_PROMPT = re.compile(r"""^\s*(?:\"{3}|'{3})\s*#\s*BEGIN PROMPT\s*$""")
_PROMPT_END = re.compile(r"""^\s*(?:\"{3}|'{3});?\s*#\s*END PROMPT\s*$""")
_INDENT = re.compile(r"^(\s*)(.*)$", re.DOTALL)
_ASSIGNED = re.compile(r"^(?P<left>[A-Za-z_][\w.,\[\] ]*?)\s*=(?!=)")


def from_marks(text: str) -> str:
    """Return a cell of Otter's with our regions.

    In functions our own placeholder stands in place of `...`; where a solution at the top level or
    a prompt is in the cell, it keeps all of Otter's.
    """
    pieces = list(_pieces(text.split("\n")))
    is_kept = any(_stays_as_it_is(*piece) for piece in pieces)
    lines: list[str] = []
    for kind, content, starter in pieces:
        if kind != "SOLUTION":
            lines += content
            continue
        indent = _INDENT.sub(r"\1", (content or starter or [""])[0])
        if is_kept:
            shown = [_INDENT.sub(r"\1# \2", line) for line in starter]
            lines += [f"{indent}### BEGIN STARTER", *shown, f"{indent}### END STARTER"]
        if content:
            lines += [f"{indent}### BEGIN SOLUTION", *content, f"{indent}### END SOLUTION"]
    return "\n".join(lines)


def _stays_as_it_is(kind: str, content: list[str], starter: list[str]) -> bool:
    """Return whether a solution is one for which our placeholder will not do."""
    first = (content or starter or [""])[0]
    prompted = bool(starter) and starter[0].strip() != "..."
    return kind == "SOLUTION" and (prompted or not first.startswith((" ", "\t")))


Piece = tuple[str, list[str], list[str]]  # "SOLUTION" or "", its lines, what stays instead


def _pieces(lines: list[str]) -> Iterator[Piece]:
    waiting = iter(lines)
    for line in waiting:
        begin, single = _BEGIN.match(line), _LINE.match(line)
        if begin:
            content = list(_until(waiting, _END))
            yield "SOLUTION", content, [] if begin["no"] else [f"{begin['indent']}..."]
        elif _PROMPT.match(line):
            yield "SOLUTION", [], list(_until(waiting, _PROMPT_END))
        elif single and single["code"]:
            indent, code = single["indent"], single["code"]
            is_removed = single["no"] or line.rstrip().endswith("SEED")
            left = _ASSIGNED.match(code)
            stays = f"{indent}{left['left']} = ..." if left else f"{indent}..."
            yield "SOLUTION", [indent + code], [] if is_removed else [stays]
        else:
            yield "", [line], []


def _until(lines: Iterator[str], end: re.Pattern[str]) -> Iterator[str]:
    for line in lines:
        if end.match(line):
            return
        yield line


def to_marks(cell: Cell, path: Path) -> str:
    """Return a cell of ours with Otter's marks."""
    lines: list[str] = []
    parts = parts_of(cell, path)
    started = any(part.region == "STARTER" for part in parts)
    for part in parts:
        if part.region == "SOLUTION":
            no_prompt = " NO PROMPT" if started else ""
            lines += [f"{part.indent}# BEGIN SOLUTION{no_prompt}", *part.lines]
            lines += [f"{part.indent}# END SOLUTION"]
        elif part.region == "STARTER":
            shown = [re.sub(r"^(\s*)# ?", r"\1", line, count=1) for line in part.lines]
            lines += [f'{part.indent}""" # BEGIN PROMPT', *shown]
            lines += [f'{part.indent}"""; # END PROMPT']
        else:
            lines += part.lines
    return "\n".join(lines).strip("\n")

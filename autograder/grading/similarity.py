"""Which answers of different submissions are alike, whatever their names, comments and layout.

An answer's syntax tree is normalised: names become numbers in the order of their appearance,
docstrings and constants' spelling go. Two answers are compared by the share of subtrees that they
have in common (Dice). Short answers are alike by necessity and are left out. A report is a reason
to look, never a verdict.
"""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from autograder.errors import SubmissionError
from autograder.grading.paths import content_of
from autograder.grading.slicing import definitions, same_code, statements_of
from autograder.grading.submission import read
from autograder.printable import printable
from autograder.records import Lab

LEAST_NODES = 30  # below, an answer has hardly a choice of form
ALIKE = 0.9


@dataclass(frozen=True)
class Pair:
    """Two submissions whose answers to a question are alike; `share` is 1.0 for the same tree."""

    question: str
    left: Path
    right: Path
    share: float


def alike(lab: Lab, paths: Sequence[Path], least: float = ALIKE) -> list[str]:
    """Return a line for each pair of answers that are alike, the most alike first."""
    pairs = sorted(_pairs(lab, paths, least), key=lambda p: (-p.share, p.question, str(p.left)))
    return [
        f"alike {p.share:.0%}: {p.question}: {_name(p.left)} and {_name(p.right)}" for p in pairs
    ]


def _name(path: Path) -> str:
    return " ".join(printable(str(path)).split())  # a learner's file may be called anything


def _pairs(lab: Lab, paths: Sequence[Path], least: float) -> Iterator[Pair]:
    texts = {path: found for path in paths if (found := _definitions(path))}
    for question in lab.questions:
        starter = definitions(statements_of([("code", question.starter)]))
        prints: dict[Path, Counter[str]] = {}
        for path, found in texts.items():
            names = [n for n in question.defines if n in found]
            own = [found[n] for n in names if not same_code(found[n], starter.get(n, ""))]
            if own and sum((made := fingerprint("\n".join(own))).values()) >= LEAST_NODES:
                prints[path] = made
        for left, right in combinations(prints, 2):
            share = similarity(prints[left], prints[right])
            if share >= least:
                yield Pair(question.name, left, right, share)


def similarity(left: Counter[str], right: Counter[str]) -> float:
    """Return the share of subtrees in common, 0.0 to 1.0."""
    total = sum(left.values()) + sum(right.values())
    return 2 * sum((left & right).values()) / total if total else 0.0


def fingerprint(text: str) -> Counter[str]:
    """Return the subtrees of normalised code, each as a hash; none for what does not parse."""
    try:
        tree = ast.parse(text)
        names: dict[str, str] = {}
        found: Counter[str] = Counter()
        _hash(tree, names, found)
        return found
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Counter()


def _hash(node: ast.AST, names: dict[str, str], found: Counter[str]) -> str:
    """Return a subtree's hash; add it and all below it to `found`."""
    parts = [type(node).__name__]
    for field, value in ast.iter_fields(node):
        if field == "body" and isinstance(value, list) and _has_docstring(node):
            value = value[1:]
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.expr_context):
                continue
            if isinstance(item, ast.AST):
                parts.append(_hash(item, names, found))
            elif field in ("id", "arg", "name") and isinstance(item, str):
                parts.append(names.setdefault(item, str(len(names))))
            else:
                parts.append(repr(item))
    made = hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16]
    found[made] += 1
    return made


def _has_docstring(node: ast.AST) -> bool:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module
    return isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None


def _definitions(path: Path) -> dict[str, str]:
    try:
        return definitions(statements_of(read(content_of(path)).cells))
    except SubmissionError:
        return {}

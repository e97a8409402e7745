"""Which answers of different submissions are alike, whatever their names, comments and layout.

Winnowing: an answer is a row of tokens in which a name is a name; of the hashes of all runs of K
tokens the least of each window counts, so that every stretch of K + WINDOW - 1 tokens that two
answers share is seen. What the starter or the solution has too, or many others, says nothing and is
left out, and so are answers that are short without it. What two share of the rest (Dice) is a
reason to look, never a verdict. Nothing here runs.

Reading alone can kill a process, so there is one for it (`Reader`): `python -m
autograder.grading.similarity LAB` answers `{"notebook": BASE64}` with the learner's own `texts`, by
question, and their `prints` beyond what the lab explains.

Source: Schleimer, Wilkerson, Aiken, Winnowing: Local Algorithms for Document Fingerprinting,
SIGMOD 2003.
"""

import ast
import base64
import hashlib
import io
import keyword
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path

from autograder.authoring.source import load_lab
from autograder.errors import SubmissionError
from autograder.grading.line_process import Answer, LineProcess, ProcessEnded, Request, Serving
from autograder.grading.paths import content_of
from autograder.grading.pool import Pool
from autograder.grading.slicing import definitions, own_texts, statements_of
from autograder.grading.submission import read
from autograder.printable import printable
from autograder.records import Lab

K, WINDOW = 8, 4  # tokens of a run, runs of a window: two short lines
LEAST_PRINTS = 6  # below, an answer has hardly a choice of form
MANY, SHARE_OF_MANY = 10, 0.05  # so many learners, or such a share of them, have it by themselves
ALIKE = 0.9

Prints = Mapping[str, frozenset[int]]  # question -> fingerprints of its answer


@dataclass(frozen=True)
class Pair:
    """Two submissions whose answers to a question are alike; `share` is 1.0 for the same code."""

    question: str
    left: str
    right: str
    share: float


def answers(lab: Lab, notebook: bytes) -> dict[str, str]:
    """Return the learner's own code for each question, as far as there is any.

    Raises:
        SubmissionError: the notebook cannot be read.
    """
    defined = definitions(statements_of(read(notebook).cells))
    own = {question.name: "\n".join(own_texts(question, defined)) for question in lab.questions}
    return {name: text for name, text in own.items() if text}


def fingerprint_handouts(lab: Lab) -> dict[str, frozenset[int]]:
    """Return the fingerprints of what everybody has from the lab, by question."""
    return {q.name: prints(q.starter) | prints(q.solution) for q in lab.questions}


def pairs(prints_by_name: Mapping[str, Prints], least: float) -> list[Pair]:
    """Return the pairs that share `least` or more, the most alike first."""
    questions = {question for own in prints_by_name.values() for question in own}
    alike = [p for q in questions for p in _pairs(q, prints_by_name, least)]
    return sorted(alike, key=lambda p: (-p.share, p.question, p.left, p.right))


def _pairs(question: str, prints_by_name: Mapping[str, Prints], least: float) -> Iterator[Pair]:
    holders: dict[int, list[str]] = {}
    for who, own in prints_by_name.items():
        for each in own.get(question, ()):
            holders.setdefault(each, []).append(who)
    many = max(MANY, int(SHARE_OF_MANY * len(prints_by_name)))
    rare = [who for who in holders.values() if len(who) <= many]
    size = Counter(name for who in rare for name in who)
    shared = Counter(pair for who in rare for pair in combinations(who, 2))
    for (left, right), count in shared.items():
        share = 2 * count / (size[left] + size[right])
        if share >= least and min(size[left], size[right]) >= LEAST_PRINTS:
            yield Pair(question, left, right, share)


def prints(text: str) -> frozenset[int]:
    """Return the fingerprints of code; none of what does not parse."""
    try:
        row = list(_tokens(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return frozenset()
    runs = [" ".join(row[i : i + K]).encode() for i in range(len(row) - K + 1)]
    hashes = [int.from_bytes(hashlib.blake2b(run, digest_size=6).digest()) for run in runs]
    return frozenset(min(hashes[i : i + WINDOW]) for i in range(len(hashes) - WINDOW + 1))


def _tokens(text: str) -> Iterator[str]:
    """Yield the tokens of code: names as one sign, but for attributes; no docstrings, no texts."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(ast.unparse(tree)).readline):
        word = token.string
        if token.type == tokenize.NAME and before != "." and not keyword.iskeyword(word):
            word = "name"
        elif token.type == tokenize.STRING:
            word = "text"
        elif token.type in (tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE):
            word = tokenize.tok_name[token.type]
        if word.strip():
            yield word
        before = token.string


_READ_S = 60.0  # one notebook; the largest that is let in takes a tenth


@dataclass(frozen=True)
class Reading:
    """What was read of a notebook: the answers as code, and what is their own of it."""

    texts: dict[str, str]
    prints: Prints


class Reader:
    """Reads notebooks of the lab in a directory; to be closed."""

    def __init__(self, lab: Path) -> None:
        command = ["-m", "autograder.grading.similarity", str(lab.absolute())]
        self._pool = Pool(partial(LineProcess, command))
        self.close = self._pool.close

    def read(self, notebook: bytes) -> Reading:
        """Return what was read of a notebook: nothing where it ended the process."""
        try:
            text = base64.b64encode(notebook).decode()
            answer = self._pool.ask({"notebook": text}, _READ_S)
        except ProcessEnded:
            return Reading({}, {})
        return Reading(
            answer["texts"], {name: frozenset(own) for name, own in answer["prints"].items()}
        )


def alike(lab: Path, paths: Sequence[Path], least: float = ALIKE) -> list[str]:
    """Return a line for each pair of answers that are alike, the most alike first."""
    prints_by_name: dict[str, Prints] = {}
    with closing(Reader(lab)) as reader:
        for path in paths:
            try:
                prints_by_name[str(path)] = reader.read(content_of(path)).prints
            except SubmissionError:
                continue
    return [
        f"alike {p.share:.0%}: {p.question}: {_name(p.left)} and {_name(p.right)}"
        for p in pairs(prints_by_name, least)
    ]


def _name(path: str) -> str:
    return " ".join(printable(path).split())  # a learner's file may be called anything


def main() -> None:
    """Serve notebooks until the input closes."""
    lab = load_lab(Path(sys.argv[1]))
    handout_prints = fingerprint_handouts(lab)

    def read(request: Request) -> Answer:
        try:
            texts = answers(lab, base64.b64decode(request["notebook"]))
        except (SubmissionError, RecursionError, MemoryError):
            texts = {}
        fresh = {name: list(prints(text) - handout_prints[name]) for name, text in texts.items()}
        return {"texts": texts, "prints": fresh}

    Serving().run(read)


if __name__ == "__main__":
    main()

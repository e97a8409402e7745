"""What the model of lab 18 reads: docstrings of the standard library, and rows of digits to sort.

The text lies on every machine that has Python, in its source files. It differs a little from one
version of Python to the next; nothing depends on it to the letter.
"""

import ast
import sysconfig
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.typing import NDArray

Ints = NDArray[np.int64]
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))  # token 0 is the end of a line
SORTED = ">"  # stands between digits and the same digits sorted
MODULES = "argparse calendar csv datetime difflib heapq os random shutil statistics textwrap"


def docstrings(characters: int) -> str:
    """Return the first so many characters of docstrings of the standard library."""
    texts = list[str]()
    for name in MODULES.split():
        source = Path(sysconfig.get_path("stdlib"), f"{name}.py").read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                texts.append(ast.get_docstring(node) or "")
    known = set(CHARACTERS)
    return "".join(c for c in "\n\n".join(filter(None, texts)) if c in known)[:characters]


def distinct_bytes(arrays: Iterable[NDArray[Any]]) -> int:
    """Return the bytes of memory that arrays lie in; what several look into counts once."""
    total, end = 0, 0
    for low, high in sorted(map(byte_bounds, arrays)):
        total += max(0, high - max(low, end))
        end = max(end, high)
    return total


def tokens_of(text: str) -> list[int]:
    """Return a token for each character."""
    return [CHARACTERS.index(c) for c in text]


def problems(rng: np.random.Generator, n: int, digits: int) -> Ints:
    """Return n rows of tokens like `31524>12345`, each with an end of line."""
    drawn = rng.integers(10, size=(n, digits))
    marks = [np.full((n, 1), token) for token in tokens_of(f"{SORTED}\n")]
    zero = CHARACTERS.index("0")
    return np.hstack([drawn + zero, marks[0], np.sort(drawn, axis=1) + zero, marks[1]])


class Batches:
    """Batches by the number of the step: a third of the rows is text, the others are problems.

    Args:
        tokens: the text.
        context: tokens of a row.
        digits: how many a problem has.
    """

    def __init__(self, tokens: Sequence[int], context: int, digits: int, rows: int) -> None:
        self.tokens, self.context = np.array(tokens), context
        self.digits, self.rows = digits, rows

    def __call__(self, step: int) -> tuple[Ints, Ints]:
        """Return the inputs of a step, and for each its next token."""
        rng, long = np.random.default_rng(step), self.context + 1
        starts = rng.integers(len(self.tokens) - long, size=self.rows // 3)
        texts = self.tokens[starts[:, np.newaxis] + np.arange(long)]
        others = self.rows - len(starts)
        each = -(-long // (2 * self.digits + 2))
        sorts = problems(rng, others * each, self.digits).reshape(others, -1)[:, :long]
        rows = np.vstack([texts, sorts]) if len(texts) else sorts
        return rows[:, :-1], rows[:, 1:]


def exact_share(next_logits: Callable[[Ints], NDArray[np.float32]], digits: int, n: int) -> float:
    """Return the share of n new problems whose answer is right in every digit.

    Args:
        next_logits: gives logits (n, V) of the token after each row.
    """
    right = problems(np.random.default_rng(2**31), n, digits)
    rows = right[:, : digits + 1]
    for _ in range(digits):
        rows = np.hstack([rows, next_logits(rows).argmax(axis=1)[:, np.newaxis]])
    return float((rows == right[:, :-1]).all(axis=1).mean())


def answer_loss(logits: Callable[[Ints], NDArray[np.float32]], digits: int, n: int) -> float:
    """Return the mean loss on the digits of n new answers, in nats."""
    rows = problems(np.random.default_rng(2**31 + 1), n, digits)
    scores = logits(rows[:, :-1])[:, digits:-1].astype(np.float64)
    scores -= scores.max(axis=2, keepdims=True)
    log_sums = np.log(np.exp(scores).sum(axis=2))
    right_scores = np.take_along_axis(scores, rows[:, digits + 1 : -1, np.newaxis], axis=2)[..., 0]
    return float((log_sums - right_scores).mean())


def least_table_loss(digits: int, seen: int, n: int = 20_000) -> float:
    """Return the least loss on answers of any table by the last `seen` tokens, in nats.

    Such a table can say no better than how often each digit follows them: its loss is the mean
    entropy, taken of n problems, which it has all seen.
    """
    after: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for row in problems(np.random.default_rng(7), n, digits).tolist():
        for at in range(digits + 1, 2 * digits + 1):
            after[tuple(row[at - seen : at])][row[at]] += 1
    loss = 0.0
    for counts in after.values():
        shares = np.array([*counts.values()]) / counts.total()
        loss -= counts.total() * float((shares * np.log(shares)).sum())
    return loss / (n * digits)


def pair_table_loss(seen: Sequence[int], held_out: Sequence[int], vocabulary: int) -> float:
    """Return the loss on text of a table of which token follows which, in nats."""
    pairs, firsts = Counter(pairwise(seen)), Counter(seen)
    of_each = [
        (pairs[pair] + 0.1) / (firsts[pair[0]] + 0.1 * vocabulary) for pair in pairwise(held_out)
    ]
    return float(-np.log(of_each).mean())

"""Large bodies of JSON, read and written a piece at a time: other queries run in between.

The standard library reads 8 MiB in one call of a tenth of a second, which no thread shortens: it
holds the interpreter. A piece here is some elements of one array, cut where the brackets that the
first of them opens are closed. The cut is a guess, and right when the piece alone is an array of
JSON; it is none where the cut lies in a text or within an element. Then its elements are read one
by one.

May import: NumPy, errors, wire.
"""

import asyncio
import json
import math
import re
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from minitorch.errors import ArgumentError, DTypeError, ShapeError
from minitorch.serve.wire import as_input

PIECE = 2**14  # characters: read in a quarter of a millisecond
ELEMENTS = 250  # read one by one before others have a turn
MOST_AXES = 32
OPENING = re.compile(r"[\[\s]*")
SPACE = re.compile(r"[ \t\n\r]*")

NUMBERS = 2**12  # of an array: converted in half a millisecond
MOST_TEXT = 2**23  # characters of an array of texts: each takes as many as the longest

Work = Generator[None, None, Any]  # yields after each piece, and returns the result


async def in_turns(work: Work, turns: asyncio.Lock) -> Any:
    """Return what the work returns; whatever else is ready runs after each piece of it.

    Work of more than one piece waits for its turn, and what is small does not.
    """
    try:
        next(work)
        async with turns:
            while True:
                await asyncio.sleep(0)
                next(work)
    except StopIteration as end:
        return end.value


class Reader:
    """Reads a text as `decoder.decode` does, in pieces of so many characters.

    The decoder has an `object_pairs_hook`.
    """

    def __init__(self, text: str, decoder: json.JSONDecoder, piece: int = PIECE) -> None:
        self._text, self._decoder, self._piece = text, decoder, piece
        self._from_pairs: Callable[[list[tuple[str, object]]], object] = decoder.object_pairs_hook
        self._left = ELEMENTS
        self._guess_from = 0  # a cut before here was wrong

    def read(self) -> Work:
        """Return the value; raise ValueError and RecursionError as the decoder does."""
        if len(self._text) <= self._piece:
            return self._decoder.decode(self._text)
        value, end = yield from self._value(self._skip(0))
        if (end := self._skip(end)) < len(self._text):
            raise json.JSONDecodeError("Extra data", self._text, end)
        return value

    def _skip(self, at: int) -> int:
        return SPACE.match(self._text, at).end()  # type: ignore[union-attr]  # it matches nothing too

    def _next(self, at: int, close: str) -> tuple[bool, int]:
        """Return whether a list of parts goes on after the one that has ended here, and where."""
        at = self._skip(at)
        if (mark := self._text[at : at + 1]) not in (",", close) or not mark:
            raise json.JSONDecodeError("Expecting ',' delimiter", self._text, at)
        return mark == ",", self._skip(at + 1) if mark == "," else at + 1

    def _value(self, at: int) -> Generator[None, None, tuple[object, int]]:
        self._left -= 1
        if self._left <= 0:
            self._left = ELEMENTS
            yield
        match self._text[at : at + 1]:
            case "[":
                return (yield from self._array(self._skip(at + 1)))
            case "{":
                return (yield from self._object(self._skip(at + 1)))
        return self._decoder.raw_decode(self._text, at)

    def _object(self, at: int) -> Generator[None, None, tuple[object, int]]:
        pairs: list[tuple[str, object]] = []
        goes_on = self._text[at : at + 1] != "}"
        at += not goes_on
        while goes_on:
            if self._text[at : at + 1] != '"':
                words = "Expecting property name enclosed in double quotes"
                raise json.JSONDecodeError(words, self._text, at)
            name, at = self._decoder.raw_decode(self._text, at)
            if self._text[(at := self._skip(at)) : at + 1] != ":":
                raise json.JSONDecodeError("Expecting ':' delimiter", self._text, at)
            value, at = yield from self._value(self._skip(at + 1))
            pairs.append((name, value))
            goes_on, at = self._next(at, "}")
        return self._from_pairs(pairs), at

    def _array(self, at: int) -> Generator[None, None, tuple[list[object], int]]:
        items: list[object] = []
        goes_on = self._text[at : at + 1] != "]"
        at += not goes_on
        while goes_on:
            part = self._elements(at)
            if part is None:
                item, at = yield from self._value(at)
                items.append(item)
                goes_on, at = self._next(at, "]")
                continue
            items += part[0]
            goes_on, at = part[1:]
            yield
        return items, at

    def _elements(self, at: int) -> tuple[list[object], bool, int] | None:
        """Return some elements, whether more follow, and where; None where a guess is wrong."""
        if at < self._guess_from or (cut := self._cut(at, at + self._piece)) is None:
            return None
        try:
            part = self._decoder.decode(f"[{self._text[at : cut - 1]}]")
        except json.JSONDecodeError:
            self._guess_from = at + self._piece
            return None
        goes_on = self._text[cut - 1] == ","
        return (part, goes_on, self._skip(cut) if goes_on else cut) if part else None

    def _cut(self, at: int, end: int) -> int | None:
        """Return where the array probably ends, or else the last of its elements before `end`."""
        depth = OPENING.match(self._text, at, end).group().count("[")  # type: ignore[union-attr]
        if depth >= MOST_AXES:
            return None
        closed = re.compile(r"\]\s*" * depth + r"\]").search(self._text, at, end)
        if closed:
            return closed.end()
        if not depth:
            return self._text.rfind(",", at, end) + 1 or None
        commas = re.compile(r"\]\s*" * depth + ",").finditer(self._text, at, end)
        return max((comma.end() for comma in commas), default=None)


def to_array(x: object, has_texts: bool, n_parts: int = 0) -> Work:
    """Return the array that `as_input` makes of what was read, or refuse it as that does.

    Refuse texts of which a long one would have NumPy give each of the others as much room.
    """
    size = _count(x)
    n_parts = n_parts or size
    if not isinstance(x, list) or size <= NUMBERS:
        if has_texts:
            _check_texts(x, n_parts)
        return as_input(x)
    rows, parts = max(NUMBERS * len(x) // size, 1), []
    for first in range(0, len(x), rows):
        if _count(x[first]) > NUMBERS:
            parts.append((yield from to_array(x[first], has_texts, n_parts))[None])
        else:
            parts.append((yield from to_array(x[first : first + rows], has_texts, n_parts)))
            yield
    return _join(parts)


def _count(x: object) -> int:
    """Return how many parts a list of lists has, if they are all as long as their first."""
    size = 1
    while isinstance(x, list):
        size *= len(x)
        x = x[0] if x else None
    return size


def _check_texts(x: object, n_parts: int) -> None:
    parts = np.asarray(x, object).ravel().tolist()
    longest = max([len(part) for part in parts if type(part) is str], default=0)
    if longest * n_parts > MOST_TEXT:
        words = f"x has {n_parts} parts and one of {longest} characters. Cut it."
        raise ArgumentError(f"predict: {words}")


def _join(parts: list[np.ndarray]) -> np.ndarray:
    shapes = {part.shape[1:]: None for part in parts}
    if len(shapes) > 1:
        first, other = list(shapes)[:2]
        raise ShapeError(f"predict: x is no array: some of its parts are {first}, others {other}.")
    if len({part.dtype.kind == "U" for part in parts}) > 1:
        raise DTypeError("predict: x cannot be sent: got numbers and text, expected one dtype.")
    return np.concatenate(parts)


def to_json(value: object) -> Work:
    """Return the JSON of what `plain` makes of a value."""
    if not isinstance(value, np.ndarray) or value.size <= NUMBERS:
        return json.dumps(plain(value), allow_nan=False, default=str)
    rows, texts = max(NUMBERS * len(value) // value.size, 1), []
    for first in range(0, len(value), rows):
        if value[first].size > NUMBERS:
            texts.append((yield from to_json(value[first])))
        else:
            texts.append((yield from to_json(value[first : first + rows]))[1:-1])
            yield
    return f"[{', '.join(texts)}]"


def plain(value: object) -> Any:
    """Return what JSON can hold: arrays as lists, numbers that JSON has not as null."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

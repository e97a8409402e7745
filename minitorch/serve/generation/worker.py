"""A generator in its container: prompts and steps to logits, logits to tokens.

An order is {"free", "starts", "steps"}: slots to free, then either prompts or slots. Its answer has
a token for each prompt or slot, or what went wrong with it: only tokens cross, never logits.

May import: NumPy, container, sampling.
"""

import json
from contextlib import suppress
from typing import Any, Protocol

import numpy as np

from minitorch.serve.container import Answer, describe
from minitorch.serve.generation.sampling import Sampling, sample

# a token; or whether the input is to blame, and what was raised
Result = int | tuple[bool, str]


class Generator(Protocol):
    """What generates: a model with a cache of keys and values for each slot."""

    def start(self, slot: int, tokens: list[int]) -> np.ndarray:
        """Put a prompt into the cache of a slot; return the logits (V,) of the next token."""

    def step(self, slots: list[int], tokens: list[int]) -> np.ndarray:
        """Add a token to the cache of each slot; return the logits (len(slots), V)."""

    def free(self, slot: int) -> None:
        """Empty the cache of a slot."""


class Row:
    """A slot in use: how it samples, its last token, and the number of the next draw."""

    def __init__(self, sampling: Sampling, draw: int) -> None:
        self.sampling = sampling
        self.draw = draw
        self.token = -1

    def next(self, logits_V: np.ndarray) -> Result:
        """Return the next token."""
        try:
            self.token = sample(logits_V, self.sampling, self.draw)
        except ValueError as error:
            return False, f"{error}. The model's logits are at fault."
        self.draw += 1
        return self.token


def prepare(make: Any) -> Answer:
    """Return what answers orders, by the generator that `make` makes."""
    try:
        model = make()
    except MemoryError as error:
        raise MemoryError(
            f"{error}. The model and its cache do not fit: give it fewer slots or a shorter context"
        ) from error
    lacking = [name for name in ("start", "step", "free") if not callable(getattr(model, name, 0))]
    if lacking:
        raise TypeError(f"what was made, {type(model).__name__}, has no {lacking[0]}()")
    return Worker(model).answer


class Worker:
    """The slots of one generator."""

    def __init__(self, model: Generator) -> None:
        self._model = model
        self._vocabulary: int | None = None  # V, once the first logits are there
        self._rows: dict[int, Row] = {}

    def answer(self, frame: bytes) -> list[bytes]:
        """Carry out an order and return the frame that answers it."""
        order = json.loads(frame)
        for slot in order["free"]:
            if self._rows.pop(slot, None):
                self._model.free(slot)
        results: list[Result] = [self._start(*start) for start in order["starts"]]
        error = None
        if order["steps"]:
            try:
                results = self._step(order["steps"])
            except Exception as raised:
                error = describe(raised)
        report = {"results": results, "error": error, "vocabulary": self._vocabulary}
        return [json.dumps(report).encode()]

    def _start(self, slot: int, tokens: list[int], draw: int, *sampling: Any) -> Result:
        try:
            logits_V = as_logits(self._model.start(slot, tokens), (self._vocabulary,))
        except Exception as error:
            with suppress(Exception):  # it may hold a part of the prompt, or nothing
                self._model.free(slot)
            return describe(error)
        row = self._rows[slot] = Row(Sampling(*sampling), draw)
        self._vocabulary = len(logits_V)
        return row.next(logits_V)

    def _step(self, slots: list[int]) -> list[Result]:
        rows = [self._rows[slot] for slot in slots]
        logits = self._model.step(slots, [row.token for row in rows])
        logits_SV = as_logits(logits, (len(slots), self._vocabulary))
        return [row.next(logits_V) for row, logits_V in zip(rows, logits_SV, strict=True)]


def as_logits(logits: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    """Return logits as an array of that shape, where None is any length, or refuse them."""
    array = np.asarray(logits)
    fits = array.ndim == len(shape) and array.size > 0 and array.dtype.kind in "fiu"
    if not fits or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True)):
        expected = f"({', '.join('V' if n is None else str(n) for n in shape)})"
        raise RuntimeError(
            f"the model gave logits {array.shape} of {array.dtype}, expected real {expected}"
        )
    return array

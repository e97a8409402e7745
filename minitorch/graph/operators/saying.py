"""`tf.print`, and small names that hand values on."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...arrays import Array, as_dtype, float64, to_numpy
from ...errors import GraphError
from ...op import Spec
from ..lined import lined
from ..naming import rename
from ..node import Constant, Node, build, convert
from ..state import State, StateOp
from .effects import py_func
from .shaping import identity, shape


class Said(StateOp):
    """A line of words and of the inputs, each where its place is among the words."""

    def __init__(self, words: Sequence[str | None], stream: Any, how: tuple[int, str, str]) -> None:
        self.words, self.stream, self.how = words, stream, how

    @property
    def name(self) -> str:
        """What messages call it."""
        return "print"

    def run(self, state: State, *arrays: Array) -> Any:
        """Print, to the stream that has this name now."""
        summarize, between, end = self.how
        rest = iter(arrays)
        edge = None if summarize < 0 else summarize
        said = [_shown(to_numpy(next(rest)), edge) if w is None else w for w in self.words]
        stream = getattr(sys, self.stream) if isinstance(self.stream, str) else self.stream
        print(between.join(said), end=end, file=stream, flush=True)

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of a scalar, which nobody reads."""
        return Spec((), as_dtype(bool))


def _shown(array: Any, edge: int | None) -> str:
    """Return an array as text: so many elements from each end of an axis, all for None."""
    many = {"threshold": 2 * edge, "edgeitems": edge} if edge else {"threshold": sys.maxsize}
    text = np.array2string(np.asarray(array), separator=" ", **many)  # type: ignore[arg-type]
    return " ".join(text.split())


STREAMS = {id(sys.stdout): "stdout", id(sys.stderr): "stderr"}


@lined
def print_(
    *inputs: Any,
    output_stream: Any = None,
    summarize: int | None = None,
    sep: str = " ",
    end: str = "\n",
    name: str | None = None,
) -> Node:
    """An operation that prints words and values whenever it runs: put it under what waits for it.

    Args:
        output_stream: the standard error stream unless given.
        summarize: so many elements from each end of every axis, 3 unless given; -1 for all.
    Raises:
        GraphError: the stream can not be written to.
    """
    stream = "stderr" if output_stream is None else output_stream
    if not isinstance(stream, str) and not hasattr(stream, "write"):
        raise GraphError(f"print: got output_stream {stream!r}, expected an open file.")
    stream = STREAMS.get(id(stream), stream)
    words = [v if isinstance(v, str) else None for v in inputs]
    nodes = [convert(v) for v in inputs if not isinstance(v, str)]
    how = (3 if summarize is None else summarize, sep, end)
    return rename(build(Said(words, stream, how), nodes), name)


class Now(StateOp):
    """Seconds since 1970 when it runs."""

    def run(self, state: State, *arrays: Array) -> Array:
        """Return the time."""
        return np.float64(time.time())

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of one number."""
        return Spec((), float64)


def timestamp(name: str | None = None) -> Node:
    """Seconds since 1970, read anew in each run."""
    return rename(build(Now(), ()), name)


@lined
def identity_n(input: Sequence[Any], name: str | None = None) -> list[Node]:
    """Each of the values as a node of its own."""
    found = [identity(value) for value in input]
    if found:
        rename(found[0], name)
    return found


@lined
def shape_n(input: Sequence[Any], out_type: Any = "int32", name: str | None = None) -> list[Node]:
    """The sizes of each of the values at run time."""
    found = [shape(value, out_type=out_type) for value in input]
    if found:
        rename(found[0], name)
    return found


def numpy_function(
    func: Callable[..., Any], inp: Sequence[Any], Tout: Any, name: str | None = None
) -> Any:
    """`py_func`."""
    return py_func(func, inp, Tout, name=name)


def get_static_value(tensor: Any, partial: bool = False) -> Any:
    """Return the array of a constant; None of what only the run knows.

    Args:
        partial: taken for TensorFlow's sake: a node is known as a whole or not at all.
    """
    return np.array(tensor.value) if isinstance(tensor, Constant) else None


def dimension_value(dimension: Any) -> int | None:
    """Return a size as a number, None of one that is not known."""
    found = getattr(dimension, "value", dimension)
    return None if found is None else int(found)


def dimension_at_index(shape: Any, index: int) -> Any:
    """Return one of the sizes of a static shape."""
    return shape[index]

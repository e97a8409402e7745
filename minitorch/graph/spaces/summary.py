"""Numbers of a run kept for later, under TensorFlow's names: `tf.summary`.

A summary is a node that gives a dict from tags to numbers. A `FileWriter` appends each as a line of
JSON to one file, which any program can read; there is no TensorBoard here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from ...arrays import Array, as_dtype, to_numpy
from ...errors import GraphError
from ...op import Spec
from ..collections import GraphKeys
from ..lined import lined
from ..naming import rename
from ..node import Node, build, convert
from ..scope import get_default_graph
from ..state import State, StateOp
from .absent import no_attribute

FILE = "summaries.jsonl"


class Summarised(StateOp):
    """A dict of numbers by their tags, from values or from other summaries."""

    def __init__(self, tag: str | None, of: Callable[[Any], Any]) -> None:
        self.tag, self.of = tag, of

    def run(self, state: State, *arrays: Array) -> Any:
        """Return the dict."""
        if self.tag is not None:
            return {self.tag: self.of(to_numpy(arrays[0]))}
        return {tag: value for found in arrays for tag, value in dict(found).items()}

    def infer(self, *specs: Spec) -> Spec:
        """Return a spec that nobody reads."""
        return Spec((), as_dtype(bool))


def _number(array: Any) -> float:
    if np.size(array) != 1:
        raise GraphError(f"summary.scalar: got shape {np.shape(array)}, expected one number.")
    return float(array)


def _spread(array: Any) -> dict[str, float]:
    if not np.size(array):
        return {"count": 0}
    measures: dict[str, Callable[..., Any]] = {
        "min": np.min,
        "max": np.max,
        "mean": np.mean,
        "std": np.std,
    }
    return {"count": np.size(array), **{k: float(f(array)) for k, f in measures.items()}}


@lined
def _summary(
    name: str, value: Any, of: Callable[[Any], Any], collections: Any, family: str | None
) -> Node:
    full = name if family is None else f"{family}/{name}"
    node = rename(build(Summarised(full, of), (convert(value),)), full)
    node.op.tag = node.name if family is None else f"{family}/{node.name}"  # in its scopes
    graph = get_default_graph()
    graph.add_to_collections(collections or [GraphKeys.SUMMARIES], node)
    return node


def scalar(
    name: str, tensor: Any, collections: Sequence[Any] | None = None, family: str | None = None
) -> Node:
    """A summary of one number.

    Args:
        family: what the tag begins with, before its scopes.
    """
    return _summary(name, tensor, _number, collections, family)


def histogram(
    name: str, values: Any, collections: Sequence[Any] | None = None, family: str | None = None
) -> Node:
    """A summary of many numbers: how many, the smallest, the largest, mean and deviation."""
    return _summary(name, values, _spread, collections, family)


def image(
    name: str,
    tensor: Any,
    max_outputs: int = 3,
    collections: Sequence[Any] | None = None,
    family: str | None = None,
) -> Node:
    """A summary of the first `max_outputs` images: only the spread of their numbers is kept."""
    return _summary(name, convert(tensor)[:max_outputs], _spread, collections, family)


def merge(
    inputs: Sequence[Node], collections: Sequence[Any] | None = None, name: str | None = None
) -> Node:
    """All of these summaries as one."""
    node = rename(build(Summarised(None, _number), inputs), name)
    get_default_graph().add_to_collections(collections or (), node)
    return node


def merge_all(key: Any = GraphKeys.SUMMARIES, scope: str | None = None) -> Node | None:
    """All summaries of the graph as one; None if there is none."""
    found = get_default_graph().get_collection(key, scope)
    return merge(found) if found else None


class FileWriter:
    """Appends summaries to `summaries.jsonl` in a directory, a line each."""

    def __init__(self, logdir: str | Path, graph: Any = None, *args: Any, **more: Any) -> None:
        directory = Path(logdir)
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / FILE
        self._file: IO[str] | None = None

    def add_summary(self, summary: Mapping[str, Any], global_step: Any = None) -> None:
        """Write what a run of a summary gave."""
        if not isinstance(summary, Mapping):
            raise GraphError(
                f"add_summary: got {type(summary).__name__}, expected what a run of a summary gave."
            )
        step = None if global_step is None else int(global_step)
        line = {"time_s": time.time(), "step": step, "values": dict(summary)}
        self._opened().write(json.dumps(line) + "\n")

    def add_graph(self, graph: Any, global_step: Any = None) -> None:
        """Write nothing: `show` draws graphs."""

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        """Write nothing: `profile` records runs."""

    def flush(self) -> None:
        """Let what was written reach the file."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Close the file; a later summary opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _opened(self) -> IO[str]:
        if self._file is None:
            self._file = self.path.open("a")
        return self._file


def __getattr__(name: str) -> Any:
    """Raise for a name that is not here, and say what to use."""
    raise no_attribute(__name__, name)

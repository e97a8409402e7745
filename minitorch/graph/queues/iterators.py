"""Iterators: nodes that give a dataset's next element in each run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Iterator as PythonIterator
from typing import TYPE_CHECKING, Any

from ...arrays import CPU, Array, as_dtype, asarray
from ...errors import GraphError
from ...op import Spec
from ..control.history import Opaque
from ..lined import lined
from ..naming import rename
from ..node import Node, build
from ..scope import get_default_graph
from ..spaces.absent import Named, no_attribute
from ..spaces.errors import OutOfRangeError
from ..state import State, StateOp
from ..waits import Turn
from .elements import Structure, declared
from .queue_ops import Component
from .rows import Row, planned

if TYPE_CHECKING:
    from .dataset import Dataset

Rows = Callable[["Running"], PythonIterator[Row]]


class Running:
    """A dataset being gone through in a session: its memory, and the arrays of the sources."""

    def __init__(self, state: State, known: Mapping[Node, Array]) -> None:
        self.state, self._known = state, known

    def of(self, node: Node) -> Array:
        """Return a source's array."""
        return self._known[node]

    def knowing(self, nodes: Sequence[Node], arrays: Sequence[Array]) -> Running:
        """Return the same with further sources."""
        return Running(self.state, {**self._known, **dict(zip(nodes, arrays, strict=True))})


class Kept:
    """Something that a dataset keeps in a session between one round and the next."""

    def __init__(self) -> None:
        self.value: Any = None

    def abandon(self) -> None:
        """Forget it."""
        self.value = None


class Cursor:
    """Where an iterator is in a session."""

    def __init__(self) -> None:
        self.rows: PythonIterator[Row] | None = None
        self.turn = Turn()  # of several threads one asks for an element at a time

    def abandon(self) -> None:
        """Forget the place: who waits for an element waits in a queue, or computes."""
        self.rows = None


class Iterator(metaclass=Named):
    """Gives the next element of a dataset in each run.

    Attributes:
        structure: what an element looks like.
        once: the dataset of a one-shot iterator.
    """

    known_as = "minitorch.graph.spaces.data.Iterator"

    def __init__(
        self, structure: Structure, once: Dataset | None = None, name: str | None = None
    ) -> None:
        self.structure, self.once = structure, once
        self.name = get_default_graph().unique_name(name or "Iterator")
        self._initializer: Node | None = None

    @staticmethod
    def from_structure(
        output_types: Any, output_shapes: Any = None, shared_name: str | None = None
    ) -> Iterator:
        """Return an iterator that `make_initializer` sets to one dataset or another."""
        return Iterator(declared(output_types, output_shapes), name=shared_name)

    @property
    def initializer(self) -> Node:
        """The operation that begins with the first element again."""
        if self._initializer is None:
            raise GraphError(
                f"iterator {self.name!r}: has no initializer. Use make_initializable_iterator, or "
                "make_initializer for a dataset."
            )
        return self._initializer

    @property
    def output_types(self) -> Any:
        """The dtypes of an element."""
        return self.structure.types()

    @property
    def output_shapes(self) -> Any:
        """The shapes of an element, as far as they are known."""
        return self.structure.shapes()

    def make_initializer(self, dataset: Dataset, name: str | None = None) -> Node:
        """Return an operation that begins with the first element of a dataset.

        Raises:
            GraphError: its elements are of other types.
        """
        got, want = dataset.structure.dtypes, self.structure.dtypes
        if got != want:
            raise GraphError(f"make_initializer: got elements of {got}, expected {want}.")
        return rename(build(Begin(self, dataset), dataset.sources), name)

    @lined
    def get_next(self, name: str | None = None) -> Any:
        """The next element; all its values are of one element in a run."""
        bundle = build(Next(self), (), kind=Opaque)
        nodes = [
            build(Component(i, spec), (bundle,)) for i, spec in enumerate(self.structure.specs)
        ]
        rename(nodes[0], name)
        return self.structure.rebuild(nodes)

    def __getattr__(self, name: str) -> Any:
        """Raise for a method that is not here, and say what to use."""
        raise no_attribute(self.known_as, name)


def one_shot(dataset: Dataset) -> Iterator:
    """Return an iterator that begins by itself."""
    return Iterator(dataset.structure, once=dataset)


def over(dataset: Dataset, name: str | None) -> Iterator:
    """Return an iterator with an initializer."""
    made = Iterator(dataset.structure, name=name)
    made._initializer = made.make_initializer(dataset)
    return made


class Begin(StateOp):
    """Set an iterator to a dataset's first element; the inputs are what the dataset reads."""

    def __init__(self, iterator: Iterator, dataset: Dataset) -> None:
        self.iterator, self.dataset = iterator, dataset

    def run(self, state: State, *arrays: Array) -> Any:
        """Return nothing."""
        cursor: Cursor = state.resource(self.iterator, Cursor)
        copies = [a.copy() if hasattr(a, "copy") else a for a in arrays]
        known = dict(zip(self.dataset.sources, copies, strict=True))
        with cursor.turn:
            cursor.rows = iter(self.dataset.rows(Running(state, known)))

    def infer(self, *specs: Spec) -> Spec:
        """Return a spec that nobody reads."""
        return Spec((), as_dtype(bool))


class Next(StateOp):
    """The next element as a tuple of arrays."""

    def __init__(self, iterator: Iterator) -> None:
        self.iterator = iterator

    def run(self, state: State, *arrays: Array) -> Any:
        """Return the tuple.

        Raises:
            OutOfRangeError: there is none. GraphError: the iterator was not initialised.
        """
        cursor: Cursor = state.resource(self.iterator, Cursor)
        with cursor.turn:
            if cursor.rows is None and self.iterator.once is not None:
                cursor.rows = _first(self.iterator.once, state)
            if cursor.rows is None:
                raise GraphError(
                    f"get_next: iterator {self.iterator.name!r} has not begun. Run its initializer "
                    "first."
                )
            row = next(cursor.rows, None)
        if row is None:
            raise OutOfRangeError(f"get_next: iterator {self.iterator.name!r} is at its end.")
        return row if state.device == CPU else tuple(asarray(v, None, state.device) for v in row)

    def infer(self, *specs: Spec) -> Spec:
        """Return a spec that nobody reads."""
        return Spec((), as_dtype(bool))


def _first(dataset: Dataset, state: State) -> PythonIterator[Row]:
    """Return the elements of a dataset from the first one on; what it reads is computed now."""
    arrays = planned(dataset.sources, (), state.device)(state, [])
    known = dict(zip(dataset.sources, arrays, strict=True))
    return iter(dataset.rows(Running(state, known)))

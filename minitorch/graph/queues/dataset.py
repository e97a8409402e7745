"""Dataset: elements one after another, made as they are asked for, under TensorFlow's name.

A dataset knows which nodes it reads (`sources`), what an element looks like, and how to go through
its elements in a session. What `map` and `filter` build is a part of the graph, run for each
element with the session's variables and random numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ...arrays import Array, as_dtype, int64, to_numpy
from ...errors import GraphError
from ...op import Spec
from ..lined import lined
from ..node import UNKNOWN, Node, UnknownShape, as_shape, convert
from ..operators.random import seed_of
from ..spaces.absent import Named, no_attribute
from .elements import Structure, apart, declared
from .iterators import Iterator as IteratorNode
from .iterators import Kept, Rows, Running, one_shot, over
from .numbers import Number, number
from .rows import Inner, Row, batched, padded_to, same_shapes


class Dataset(metaclass=Named):
    """Elements one after another."""

    known_as = "minitorch.graph.spaces.data.Dataset"

    def __init__(self, sources: Sequence[Node], structure: Structure, rows: Rows) -> None:
        self.sources, self.structure, self.rows = list(sources), structure, rows

    @property
    def output_types(self) -> Any:
        """The dtypes of an element."""
        return self.structure.types()

    @property
    def output_shapes(self) -> Any:
        """The shapes of an element, as far as they are known."""
        return self.structure.shapes()

    # Beginnings

    @staticmethod
    @lined
    def from_tensors(tensors: Any) -> Dataset:
        """One element: the values themselves."""
        values, rebuild = apart(tensors)
        nodes = [convert(v) for v in values]
        specs = [Spec(node.shape, node.dtype) for node in nodes]

        def rows(run: Running) -> Iterator[Row]:
            yield tuple(run.of(node) for node in nodes)

        return Dataset(nodes, Structure(specs, rebuild), rows)

    @staticmethod
    @lined
    def from_tensor_slices(tensors: Any) -> Dataset:
        """An element for each row of the values.

        Raises:
            GraphError: they have different numbers of rows; or one has no axis.
        """
        values, rebuild = apart(tensors)
        nodes = [convert(v) for v in values]
        sizes = {n.shape[0] for n in nodes if n.shape.ndims} - {None}
        if len(sizes) > 1 or any(n.shape.ndims == 0 for n in nodes):
            raise GraphError(
                f"from_tensor_slices: got shapes {[n.shape for n in nodes]}, expected equally many "
                "rows in all."
            )
        specs = [Spec(n.shape[1:] if n.shape.ndims else UNKNOWN, n.dtype) for n in nodes]

        def rows(run: Running) -> Iterator[Row]:
            return zip(*[_rows_of(run.of(node)) for node in nodes], strict=True)

        return Dataset(nodes, Structure(specs, rebuild), rows)

    @staticmethod
    def from_generator(
        generator: Callable[[], Any], output_types: Any, output_shapes: Any = None
    ) -> Dataset:
        """What a function's iterator of Python gives, in these types."""
        structure = declared(output_types, output_shapes)

        def rows(run: Running) -> Iterator[Row]:
            for element in generator():
                values, _ = apart(element)
                yield same_shapes("from_generator", values, structure.specs)

        return Dataset((), structure, rows)

    @staticmethod
    @lined
    def range(*args: Any) -> Dataset:
        """The integers of Python's range, int64; its ends may be nodes, read as it begins.

        Raises:
            GraphError: there is no end, or one is no integer.
        """
        ends = [convert(a) for a in args]
        if not 1 <= len(ends) <= 3 or any(e.dtype.kind not in "iu" for e in ends):
            raise GraphError(
                f"Dataset.range: got {args}, expected one to three integers: the end, or start, "
                "end and step."
            )
        found = Structure([Spec(as_shape(()), int64)], lambda row: row[0])

        def rows(run: Running) -> Iterator[Row]:
            numbers = range(*(int(run.of(end)) for end in ends))
            return ((np.int64(n),) for n in numbers)

        return Dataset(ends, found, rows)

    @staticmethod
    def zip(datasets: Any) -> Dataset:
        """Elements of several datasets side by side, as long as all have one."""
        parts, rebuild = apart(datasets)
        sources = [node for d in parts for node in d.sources]
        counts = np.cumsum([0, *(len(d.structure.specs) for d in parts)]).tolist()

        def together(row: Sequence[Any]) -> Any:
            cuts = zip(parts, counts, counts[1:], strict=False)
            return rebuild([d.structure.rebuild(row[a:b]) for d, a, b in cuts])

        def rows(run: Running) -> Iterator[Row]:
            for group in zip(*(d.rows(run) for d in parts), strict=False):
                yield tuple(value for row in group for value in row)

        specs = [spec for d in parts for spec in d.structure.specs]
        return Dataset(sources, Structure(specs, together), rows)

    # Element by element

    @lined
    def map(self, map_func: Callable[..., Any], num_parallel_calls: int | None = None) -> Dataset:
        """What a function builds from each element; it is called once, with nodes."""
        inner = Inner(map_func, self.structure)

        def rows(run: Running) -> Iterator[Row]:
            return (inner.compute(run.state, row) for row in self.rows(run))

        return Dataset(self.sources, inner.structure, rows)

    @lined
    def filter(self, predicate: Callable[..., Any]) -> Dataset:
        """The elements for which a function builds something true."""
        inner = Inner(predicate, self.structure)
        if len(inner.leaves) != 1 or inner.leaves[0].dtype != as_dtype(bool):
            raise GraphError("filter: the function gives no boolean. Compare something.")

        def rows(run: Running) -> Iterator[Row]:
            return (r for r in self.rows(run) if bool(inner.compute(run.state, r)[0]))

        return self._with(rows)

    @lined
    def flat_map(self, map_func: Callable[..., Dataset]) -> Dataset:
        """The elements of the datasets that a function builds, one dataset after another."""
        inner = Inner(map_func, self.structure)
        found: Dataset = inner.result

        def rows(run: Running) -> Iterator[Row]:
            for row in self.rows(run):
                arrays = inner.compute(run.state, row)
                yield from found.rows(run.knowing(found.sources, arrays))

        return Dataset(self.sources, found.structure, rows)

    @lined
    def interleave(
        self,
        map_func: Callable[..., Dataset],
        cycle_length: int = 1,
        block_length: int = 1,
        num_parallel_calls: int | None = None,
    ) -> Dataset:
        """The elements of the datasets that a function builds, taken in turns.

        Args:
            cycle_length: how many datasets take turns; -1 for one.
            block_length: how many elements one gives before the next.
        """
        inner = Inner(map_func, self.structure)
        cycle, length = number("interleave", cycle_length), number("interleave", block_length, 1)
        found: Dataset = inner.result

        def opened(run: Running, row: Row) -> Iterator[Row]:
            return iter(found.rows(run.knowing(found.sources, inner.compute(run.state, row))))

        def rows(run: Running) -> Iterator[Row]:
            waiting, block = (opened(run, row) for row in self.rows(run)), length.of(run)
            turns = deque(islice(waiting, max(1, cycle.of(run))))
            while turns:
                given = list(islice(turns[0], block))
                yield from given
                if len(given) == block:
                    turns.rotate(-1)
                    continue
                turns.popleft()
                turns.extend(islice(waiting, 1))

        sources = [*self.sources, *cycle.sources, *length.sources]
        return Dataset(sources, found.structure, rows)

    def enumerate(self, start: int = 0) -> Dataset:
        """The elements beside their numbers: (number, element)."""
        return Dataset.zip((Dataset.range(start, 2**62), self))

    def unbatch(self) -> Dataset:
        """The rows of the elements' values as elements."""
        specs = [
            Spec(s.shape if isinstance(s.shape, UnknownShape) else s.shape[1:], s.dtype)
            for s in self.structure.specs
        ]

        def rows(run: Running) -> Iterator[Row]:
            for row in self.rows(run):
                yield from zip(*map(_rows_of, row), strict=True)

        return Dataset(self.sources, self.structure.over(specs), rows)

    # Order and number

    def shuffle(
        self, buffer_size: Any, seed: int | None = None, reshuffle_each_iteration: bool = True
    ) -> Dataset:
        """The elements in another order: each drawn from `buffer_size` that are ready."""
        most, root = number("shuffle", buffer_size, 1), seed_of(seed)

        def rows(run: Running) -> Iterator[Row]:
            size, draw = most.of(run), run.state.generator(changed, root)
            if not reshuffle_each_iteration:
                kept = run.state.resource(changed, Kept)
                kept.value = int(draw.integers(2**62)) if kept.value is None else kept.value
                draw = np.random.default_rng(kept.value)
            ready: list[Row] = []
            for row in self.rows(run):
                ready.append(row)
                if len(ready) == size:
                    yield ready.pop(int(draw.integers(size)))
            while ready:
                yield ready.pop(int(draw.integers(len(ready))))

        changed = self._with(rows, most)
        return changed

    def repeat(self, count: Any = None) -> Dataset:
        """The elements `count` times; without end for None or -1."""
        given = number("repeat", -1 if count is None else count)

        def rows(run: Running) -> Iterator[Row]:
            done, times = 0, given.of(run)
            while done != times:
                empty = True
                for row in self.rows(run):
                    empty = False
                    yield row
                done += 1
                if empty:
                    return

        return self._with(rows, given)

    def take(self, count: Any) -> Dataset:
        """The first `count` elements; all for -1."""
        most = number("take", count)

        def rows(run: Running) -> Iterator[Row]:
            n = most.of(run)
            return islice(self.rows(run), None if n < 0 else n)

        return self._with(rows, most)

    def skip(self, count: Any) -> Dataset:
        """The elements after the first `count`; none for -1."""
        first = number("skip", count)

        def rows(run: Running) -> Iterator[Row]:
            n = first.of(run)
            return iter(()) if n < 0 else islice(self.rows(run), n, None)

        return self._with(rows, first)

    def shard(self, num_shards: Any, index: Any) -> Dataset:
        """Each `num_shards`-th element, from `index` on."""
        step, first = number("shard", num_shards, 1), number("shard", index, 0)
        return self._with(
            lambda run: islice(self.rows(run), first.of(run), None, step.of(run)), step, first
        )

    def concatenate(self, dataset: Dataset) -> Dataset:
        """These elements, and then those of another dataset."""

        def rows(run: Running) -> Iterator[Row]:
            yield from self.rows(run)
            yield from dataset.rows(run)

        return Dataset([*self.sources, *dataset.sources], self.structure, rows)

    def cache(self, filename: str = "") -> Dataset:
        """The elements, computed in the first round only and kept in memory."""
        if filename:
            raise GraphError("cache: files are not supported: got a file name. Keep it in memory.")

        def rows(run: Running) -> Iterator[Row]:
            kept = run.state.resource(changed, Kept)
            if kept.value is not None:
                yield from kept.value
                return
            fresh: list[Row] = []
            for row in self.rows(run):
                fresh.append(row)
                yield row
            kept.value = fresh

        changed = self._with(rows)
        return changed

    def prefetch(self, buffer_size: int) -> Dataset:
        """The elements themselves: they are computed when they are asked for."""
        return self

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """What a function makes of this dataset."""
        return transformation_func(self)

    # Several together

    def batch(self, batch_size: Any, drop_remainder: bool = False) -> Dataset:
        """So many elements stacked, the last ones fewer unless they are dropped."""
        size = number("batch", batch_size, 1)
        return self._grouped(size, drop_remainder, batched, [s.shape for s in self.structure.specs])

    def padded_batch(
        self,
        batch_size: Any,
        padded_shapes: Any,
        padding_values: Any = None,
        drop_remainder: bool = False,
    ) -> Dataset:
        """So many elements stacked, the shorter ones filled up to the largest or to a shape."""
        size = number("padded_batch", batch_size, 1)
        goal = declared(self.structure.types(), padded_shapes)
        fill = [0] * len(goal.specs) if padding_values is None else apart(padding_values)[0]
        shapes = [spec.shape for spec in goal.specs]
        return self._grouped(size, drop_remainder, padded_to(shapes, fill), shapes)

    def _grouped(self, count: Number, whole: bool, join: Any, shapes: Sequence[Any]) -> Dataset:
        def rows(run: Running) -> Iterator[Row]:
            source, size = self.rows(run), count.of(run)
            while group := list(islice(source, size)):
                if whole and len(group) < size:
                    return
                yield join(group)

        first = count.known if whole else None
        specs = [
            Spec(UNKNOWN if isinstance(s, UnknownShape) else (first, *s), old.dtype)
            for s, old in zip(shapes, self.structure.specs, strict=True)
        ]
        return Dataset([*self.sources, *count.sources], self.structure.over(specs), rows)

    # Out of it

    def make_one_shot_iterator(self) -> IteratorNode:
        """Return an iterator that goes through the elements once, without being initialised."""
        return one_shot(self)

    def make_initializable_iterator(self, shared_name: str | None = None) -> IteratorNode:
        """Return an iterator whose `initializer` begins anew; its run may feed placeholders."""
        return over(self, shared_name)

    def __getattr__(self, name: str) -> Any:
        """Raise for a method that is not here, and say what to use."""
        raise no_attribute(self.known_as, name)

    def _with(self, rows: Rows, *numbers: Number) -> Dataset:
        read = [node for n in numbers for node in n.sources]
        return Dataset([*self.sources, *read], self.structure, rows)


def _rows_of(array: Array) -> Iterator[Any]:
    return iter(np.asarray(to_numpy(array)))

"""Samplers: in which order the indices of a dataset are visited.

Indices are drawn as they are asked for, so a pass over 10^10 of them takes no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from itertools import chain, islice
from typing import Any

import numpy as np

from minitorch.data.seed import GeneratorLike, as_generator
from minitorch.errors import ArgumentError

CHUNK = 4096
"""Indices drawn, or made Python integers, at a time: enough that NumPy's call costs nothing."""


def _drawn(count: int, draw: Callable[[int], Any]) -> Iterator[int]:
    """Yield `count` numbers that `draw(n)` gives n at a time."""
    for start in range(0, count, CHUNK):
        yield from draw(min(CHUNK, count - start)).tolist()


def _items(order: Any) -> Iterator[int]:
    """Yield the elements of an array as Python integers; a list of them all takes five times it."""
    for start in range(0, len(order), CHUNK):
        yield from order[start : start + CHUNK].tolist()


class Sampler:
    """An order of indices; each `iter` may be another."""

    def __iter__(self) -> Iterator[int]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__. Define it.")


class SequentialSampler(Sampler):
    """0, 1, 2, ..."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """A fresh permutation at each pass, or with `replacement` independent draws."""

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: GeneratorLike = None,
    ) -> None:
        if num_samples is not None and num_samples <= 0:
            raise ArgumentError(
                f"RandomSampler: got num_samples {num_samples}, expected 1 or more."
            )
        self.data_source = data_source
        self.replacement = replacement
        self.num_samples = len(data_source) if num_samples is None else num_samples
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        draw = as_generator(self.generator)
        n = len(self.data_source)
        if self.replacement:
            return _drawn(self.num_samples, lambda count: draw.integers(n, size=count))
        passes = -(-self.num_samples // n) if n else 0
        orders = (_items(draw.permutation(n)) for _ in range(passes))
        return islice(chain.from_iterable(orders), self.num_samples)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """A fresh permutation of the given indices at each pass."""

    def __init__(self, indices: Sequence[int], generator: GeneratorLike = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        order = as_generator(self.generator).permutation(len(self.indices))
        return (self.indices[i] for i in _items(order))

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Index i with probability proportional to `weights[i]`."""

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: GeneratorLike = None,
    ) -> None:
        w = np.asarray(weights, dtype=np.float64)
        if w.ndim != 1 or not np.isfinite(w).all() or (w < 0).any() or w.sum() == 0:
            raise ArgumentError(
                f"WeightedRandomSampler: got weights {w!r}, expected one axis of finite numbers, "
                "none negative and one or more positive."
            )
        if not replacement and num_samples > np.count_nonzero(w):
            raise ArgumentError(
                f"WeightedRandomSampler: got num_samples {num_samples}, expected at most "
                f"{np.count_nonzero(w)}, the indices of positive weight. Use replacement=True."
            )
        self.weights = w
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        p = self.weights / self.weights.sum()
        draw = as_generator(self.generator)
        if not self.replacement:
            return _items(draw.choice(len(p), self.num_samples, False, p))
        ends = p.cumsum()
        ends /= ends[-1]
        return _drawn(
            self.num_samples, lambda count: ends.searchsorted(draw.random(count), "right")
        )

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler:
    """The indices of another sampler in lists of `batch_size`."""

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool = False) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ArgumentError(f"BatchSampler: got batch_size {batch_size!r}, expected 1 or more.")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

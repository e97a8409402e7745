"""Samplers: in which order the indices of a dataset are visited.

Indices are drawn as they are asked for, so a pass over 10^10 of them takes no memory.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from itertools import chain, islice
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from minitorch.arrays.generator import Generator, default_generator
from minitorch.arrays.library import int64
from minitorch.errors import ArgumentError

T_co = TypeVar("T_co", covariant=True)
GeneratorLike: TypeAlias = int | np.random.Generator | Generator | None
"""Where data draws its randomness: a seed, a generator, or the library's global generator."""

CHUNK = 4096
"""Indices drawn at a time: enough that NumPy's call costs nothing."""


def as_generator(generator: GeneratorLike) -> np.random.Generator:
    """Return a NumPy generator: the given one, one of the given seed, or a child of the global.

    With None the result depends on `minitorch.manual_seed` and moves the global generator on,
    so two passes over a shuffled loader differ and a seeded run repeats.
    """
    if isinstance(generator, np.random.Generator):
        return generator
    if isinstance(generator, int):
        return np.random.default_rng(generator)
    parent = default_generator() if generator is None else generator
    return np.random.default_rng(int(parent.integers(0, 2**62, (1,), int64)[0]))


def _draw_in_chunks(count: int, draw: Callable[[int], Any]) -> Iterator[int]:
    """Yield `count` numbers that `draw(n)` gives n at a time."""
    for start in range(0, count, CHUNK):
        yield from draw(min(CHUNK, count - start)).tolist()


class Sampler(Generic[T_co]):
    """An order of indices; a subclass gives `__iter__`, whose order may differ each time."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__. Define it.")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ..."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
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
            return _draw_in_chunks(self.num_samples, lambda count: draw.integers(n, size=count))
        passes = -(-self.num_samples // n) if n else 0
        orders = (map(int, draw.permutation(n)) for _ in range(passes))
        return islice(chain.from_iterable(orders), self.num_samples)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """A fresh permutation of the given indices at each pass."""

    def __init__(self, indices: Sequence[int], generator: GeneratorLike = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        order = as_generator(self.generator).permutation(len(self.indices))
        return (self.indices[i] for i in order)

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
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
        if num_samples < 1:
            raise ArgumentError(
                f"WeightedRandomSampler: got num_samples {num_samples}, expected 1 or more."
            )
        if not replacement and num_samples > np.count_nonzero(w):
            raise ArgumentError(
                f"WeightedRandomSampler: got num_samples {num_samples} without replacement, "
                f"expected at most {np.count_nonzero(w)}, one for each weight that is not 0."
            )
        self.weights = w
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        p = self.weights / self.weights.sum()
        draw = as_generator(self.generator)
        if not self.replacement:
            return map(int, draw.choice(len(p), self.num_samples, False, p))
        ends = p.cumsum()
        ends /= ends[-1]
        return _draw_in_chunks(
            self.num_samples, lambda count: ends.searchsorted(draw.random(count), "right")
        )

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """The indices of another sampler in lists of `batch_size`."""

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool = False) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ArgumentError(f"BatchSampler: got batch_size {batch_size!r}, expected 1 or more.")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

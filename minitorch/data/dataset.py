"""Datasets: things with a length and items by index, and ways to cut and join them."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

from minitorch.data.sampler import GeneratorLike, as_generator
from minitorch.errors import ArgumentError
from minitorch.tensor.tensor import Tensor

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """What has items by index; a subclass gives `__getitem__` and `__len__`."""

    def __getitem__(self, index: int) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__. Define it.")

    def __add__(self, other: "Dataset[object]") -> "ConcatDataset":
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """What can only be read from front to back; a subclass gives `__iter__`."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__. Define it.")


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors with one first axis: item i is the tuple of their i-th rows."""

    def __init__(self, *tensors: Tensor) -> None:
        sizes = [t.shape[0] if t.ndim else None for t in tensors]
        if not tensors or None in sizes or len(set(sizes)) != 1:
            raise ArgumentError(
                f"TensorDataset: first axes differ: got {[tuple(t.shape) for t in tensors]}, "
                "expected one length for all. Give one row of each tensor to each item."
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])

    def take(self, indices: list[int]) -> list[Tensor]:
        """Return the rows at `indices` stacked, as collating the items would, in one gather."""
        return [t[indices] for t in self.tensors]


class Subset(Dataset[T_co]):
    """The items of `dataset` at `indices`, in that order."""

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: int) -> T_co:
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset[Any]):
    """Several datasets end to end."""

    def __init__(self, datasets: Sequence[Dataset[Any]]) -> None:
        if not datasets:
            raise ArgumentError("ConcatDataset: got no dataset, expected one or more.")
        self.datasets = list(datasets)
        self.cumulative_sizes = list(accumulate(len(d) for d in self.datasets))  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> Any:
        index = range(len(self))[index]
        which = bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - before]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


def random_split(
    dataset: Dataset[T_co], lengths: Sequence[float], generator: GeneratorLike = None
) -> list[Subset[T_co]]:
    """Return disjoint random subsets of `dataset`.

    Args:
        lengths: item counts that add up to `len(dataset)`, or fractions that add up to 1;
            items left over by rounding go one each to the first subsets.
        generator: where the permutation is drawn; the global one unless given.
    """
    total = len(dataset)  # type: ignore[arg-type]
    counts = _counts(lengths, total)
    if sum(counts) != total or min(counts, default=0) < 0:
        raise ArgumentError(
            f"random_split: lengths do not cover the dataset: got {list(lengths)}, "
            f"expected a sum of {total}, or fractions with a sum of 1."
        )
    order = as_generator(generator).permutation(total).tolist()
    ends = list(accumulate(counts))
    return [Subset(dataset, order[end - n : end]) for n, end in zip(counts, ends, strict=True)]


def _counts(lengths: Sequence[float], total: int) -> list[int]:
    if abs(sum(lengths) - 1.0) > 1e-6 or any(isinstance(n, int) and n > 1 for n in lengths):
        return [int(n) for n in lengths]
    if any(n < 0 for n in lengths):
        return [-1]
    counts = [int(total * fraction) for fraction in lengths]
    for i in range(total - sum(counts)):
        counts[i % len(counts)] += 1
    return counts

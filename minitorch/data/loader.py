"""DataLoader: batches of a dataset, in a sampler's order, prepared ahead by worker threads.

Workers are threads and not processes: items are read from memory or files and stacked by NumPy,
both of which release the GIL, and a thread starts in microseconds and hands over without a copy.
Batches arrive in the sampler's order whatever the number of workers.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import count, islice
from typing import Any

import numpy as np

from minitorch.data.dataset import Dataset, IterableDataset, TensorDataset
from minitorch.data.sampler import BatchSampler, GeneratorLike, RandomSampler, SequentialSampler
from minitorch.errors import ArgumentError
from minitorch.ops.shaping.joining import stack
from minitorch.tensor.tensor import Tensor, tensor


class DataLoader:
    """Iterate over `dataset` in batches, each pass anew.

    Args:
        dataset: has `__getitem__` and `__len__`, or is an `IterableDataset`.
        batch_size: items a batch; None gives single items, not collated.
        shuffle: a new permutation at each pass.
        sampler: an order of indices, instead of `shuffle`.
        batch_sampler: lists of indices, instead of the four arguments about order and size.
        num_workers: threads that prepare batches ahead; 0 prepares each when asked for.
        collate_fn: makes a batch of a list of items; `default_collate` unless given.
        pin_memory: as `timeout` and `persistent_workers` for programs written for torch, whose
            workers are processes; changes nothing.
        drop_last: leave out a last batch that is not full.
        worker_init_fn: called with its number in each worker, before its first batch.
        generator: a seed or NumPy generator for `shuffle`; the library's global one unless given.
        prefetch_factor: batches ahead for each worker; 2 unless given.
    Raises:
        ValueError: arguments contradict each other; says which.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        batch_size: int | None = 1,
        shuffle: bool | None = False,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        *,
        generator: GeneratorLike = None,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
    ) -> None:
        self.prefetch_factor = 2 if prefetch_factor is None else prefetch_factor
        streams = isinstance(dataset, IterableDataset)
        orders = [shuffle, sampler is not None, batch_sampler is not None, streams]
        is_twice = bool(batch_sampler) and (batch_size != 1 or drop_last)
        _check(num_workers, self.prefetch_factor, is_twice or sum(map(bool, orders)) > 1)
        self.dataset = dataset
        self.batch_size = batch_size if batch_sampler is None else None
        self.drop_last = drop_last
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.worker_init_fn = worker_init_fn
        if sampler is None and not streams:
            sampler = _in_order(dataset, bool(shuffle), generator)
        self.sampler = sampler
        if batch_size is None and drop_last:
            raise ArgumentError("DataLoader: single items (batch_size=None) are never dropped.")
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(() if sampler is None else sampler, batch_size, drop_last)
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn or (_as_it_is if batch_sampler is None else default_collate)

    def __len__(self) -> int:
        if isinstance(self.dataset, IterableDataset):
            return self._count_of_stream()
        order = self.sampler if self.batch_sampler is None else self.batch_sampler
        return len(order)  # type: ignore[arg-type]

    def _count_of_stream(self) -> int:
        if not hasattr(self.dataset, "__len__"):
            raise TypeError(
                "DataLoader: this IterableDataset has no length. Give it __len__, or count while "
                "reading."
            )
        items, size = len(self.dataset), self.batch_size or 1
        return items // size if self.drop_last else -(-items // size)

    def __iter__(self) -> Iterator[Any]:
        return self._parallel() if self.num_workers else (task() for task in self._tasks())

    def _tasks(self) -> Iterator[Callable[[], Any]]:
        """Yield, for each batch in order, the call that prepares it."""
        if isinstance(self.dataset, IterableDataset):
            items = iter(self.dataset)
            while chunk := list(islice(items, self.batch_size or 1)):
                if self.drop_last and len(chunk) < (self.batch_size or 1):
                    return
                yield partial(self.collate_fn, chunk if self.batch_size else chunk[0])
        elif self.batch_sampler is not None:
            for indices in self.batch_sampler:
                yield partial(self._batch, indices)
        else:
            for index in self.sampler:  # type: ignore[union-attr]
                yield partial(lambda index: self.collate_fn(self._item(index)), index)

    def _item(self, index: int) -> Any:
        try:
            return self.dataset[index]
        except Exception as error:
            error.add_note(f"DataLoader: while reading item {index} of the dataset.")
            raise

    def _batch(self, indices: list[int]) -> Any:
        if type(self.dataset) is TensorDataset and self.collate_fn is default_collate:
            return self.dataset.take(indices)
        return self.collate_fn([self._item(index) for index in indices])

    def _parallel(self) -> Iterator[Any]:
        tasks = self._tasks()
        waiting: deque[Future[object]] = deque()
        numbers = count()
        begin = self.worker_init_fn or (lambda number: None)
        pool = ThreadPoolExecutor(
            self.num_workers, "minitorch-data", initializer=lambda: begin(next(numbers))
        )
        try:
            for task in islice(tasks, self.num_workers * self.prefetch_factor):
                waiting.append(pool.submit(task))
            while waiting:
                batch = waiting.popleft().result()
                waiting.extend(pool.submit(task) for task in islice(tasks, 1))
                yield batch
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def get_worker_info() -> None:
    """Return None, torch's answer outside of workers: a stream is read once, however many prepare.

    So an IterableDataset that shares its items out among torch's worker processes gives them all.
    """


def _check(num_workers: int, prefetch_factor: int, is_ordered_twice: bool) -> None:
    if num_workers < 0 or prefetch_factor < 1:
        raise ArgumentError(
            f"DataLoader: got num_workers {num_workers} and prefetch_factor {prefetch_factor}, "
            "expected 0 or more and 1 or more."
        )
    if is_ordered_twice:
        raise ArgumentError(
            "DataLoader: the order is fixed twice: expected one of shuffle, a sampler, a "
            "batch_sampler (without batch_size and drop_last), and an IterableDataset."
        )


def _in_order(dataset: Any, shuffle: bool, generator: GeneratorLike) -> Iterable[int]:
    if not shuffle:
        return SequentialSampler(dataset)
    if isinstance(generator, int):  # one that moves on, so that each epoch is shuffled anew
        generator = np.random.default_rng(generator)
    return RandomSampler(dataset, generator=generator)


def _as_it_is(item: object) -> object:
    """Return arrays as tensors and all else unchanged: what a loader does to single items."""
    if isinstance(item, Mapping):
        return {key: _as_it_is(value) for key, value in item.items()}
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        make: Callable[..., object] = type(item)
        return make(*map(_as_it_is, item))
    if isinstance(item, tuple | list):
        return [*map(_as_it_is, item)]
    return tensor(item) if isinstance(item, np.ndarray | np.generic) else item


def default_collate(batch: Sequence[Any]) -> Any:
    """Return `batch` turned inside out, with numbers, arrays and tensors stacked.

    Tensors and arrays of shape S become one tensor of shape (n, *S); int, float and bool become
    tensors of shape (n,) with int64, float64 and bool; strings stay a list; of tuples, lists and
    dicts each field is collated by itself.

    Raises:
        ValueError: items differ in shape or length; says how.
        TypeError: an item is of another type.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        _same([tuple(item.shape) for item in batch], "shape")
        return stack(list(batch))
    if type(first) in (int, bool):
        return tensor(list(batch))
    if isinstance(first, np.ndarray | np.generic | float):
        _same([np.shape(item) for item in batch], "shape")
        return tensor(np.array(batch))
    if isinstance(first, str | bytes):
        return list(batch)
    if isinstance(first, Mapping):
        _same([[key for key in first if key in item] for item in batch], "keys")
        return {key: default_collate([item[key] for item in batch]) for key in first}
    if isinstance(first, tuple | list):
        return _collate_fields(batch)
    raise TypeError(
        f"default_collate: got items of type {type(first).__name__}, expected tensors, arrays, "
        "numbers, strings, or tuples, lists and dicts of them. Give the loader a collate_fn."
    )


def _collate_fields(batch: Sequence[Any]) -> Any:
    first = batch[0]
    _same([len(item) for item in batch], "length")
    fields = [default_collate(list(field)) for field in zip(*batch, strict=True)]
    if isinstance(first, tuple) and hasattr(first, "_fields"):  # a namedtuple stays one
        return type(first)(*fields)
    return fields


def _same(facts: list[object], what: str) -> None:
    for i, fact in enumerate(facts):
        if fact != facts[0]:
            raise ArgumentError(
                f"default_collate: items differ in {what}: got {facts[0]} for item 0 and {fact} "
                f"for item {i} of the batch. Pad them, or give the loader a collate_fn."
            )

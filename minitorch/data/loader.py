"""DataLoader: batches of a dataset, in a sampler's order, prepared ahead by worker threads.

Workers are threads and not processes: items are read from memory or files and stacked by NumPy,
both of which release the GIL, and a thread starts in microseconds and hands over without a copy.
Batches arrive in the sampler's order whatever the number of workers.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count, islice
from typing import Any

from minitorch.data.collate import default_collate
from minitorch.data.dataset import Dataset, IterableDataset, TensorDataset
from minitorch.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from minitorch.data.seed import GeneratorLike
from minitorch.errors import ArgumentError

Progress = Callable[[int, int | None], None]


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
        pin_memory: as `timeout`, `multiprocessing_context`, `persistent_workers`,
            `pin_memory_device` and `in_order` for programs written for torch, whose workers are
            processes; changes nothing.
        drop_last: leave out a last batch that is not full.
        worker_init_fn: called with its number in each worker, before its first batch.
        generator: a seed or NumPy generator for `shuffle`; the library's global one unless given.
        prefetch_factor: batches ahead for each worker; 2 unless given.
        progress: True writes a line to stderr; a function is called with (batches done, total).
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
        multiprocessing_context: object = None,
        generator: GeneratorLike = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        progress: bool | Progress = False,
    ) -> None:
        prefetch_factor = 2 if prefetch_factor is None else prefetch_factor
        if num_workers < 0 or prefetch_factor < 1:
            raise ArgumentError(
                f"DataLoader: got num_workers {num_workers} and prefetch_factor {prefetch_factor}, "
                "expected 0 or more and 1 or more."
            )
        _refuse_contradictions(
            dataset, batch_size, bool(shuffle), sampler, batch_sampler, drop_last
        )
        self.dataset = dataset
        self.batch_size = batch_size if batch_sampler is None else None
        self.drop_last = drop_last
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.worker_init_fn = worker_init_fn
        self.prefetch_factor = prefetch_factor
        self.progress = _progress_line if progress is True else progress or None
        if sampler is None and not isinstance(dataset, IterableDataset):
            sampler = (
                RandomSampler(dataset, generator=_stream(generator))  # type: ignore[arg-type]
                if shuffle
                else SequentialSampler(dataset)  # type: ignore[arg-type]
            )
        self.sampler = sampler
        if batch_sampler is None and sampler is not None and batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn or (default_collate if self._batched else _as_it_is)

    @property
    def _batched(self) -> bool:
        return self.batch_size is not None or self.batch_sampler is not None

    def __len__(self) -> int:
        if isinstance(self.dataset, IterableDataset):
            raise TypeError("DataLoader: an IterableDataset has no length. Count while reading.")
        return len(self.batch_sampler if self._batched else self.sampler)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        batches = self._parallel() if self.num_workers else self._serial()
        return self._watched(batches) if self.progress else batches

    def _tasks(self) -> Iterator[Callable[[], Any]]:
        """Yield, for each batch in order, the call that prepares it."""
        if isinstance(self.dataset, IterableDataset):
            items = iter(self.dataset)
            while chunk := list(islice(items, self.batch_size or 1)):
                if self.drop_last and len(chunk) < (self.batch_size or 1):
                    return
                yield _Collate(self.collate_fn, chunk if self._batched else chunk[0])
        elif self.batch_sampler is not None:
            for indices in self.batch_sampler:
                yield _Fetch(self.dataset, self.collate_fn, indices)
        else:
            for index in self.sampler or ():
                yield _FetchOne(self.dataset, self.collate_fn, index)

    def _serial(self) -> Iterator[Any]:
        for task in self._tasks():
            yield task()

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

    def _watched(self, batches: Iterator[object]) -> Iterator[Any]:
        report = self.progress
        total = None if isinstance(self.dataset, IterableDataset) else len(self)
        for done, batch in enumerate(batches, start=1):
            yield batch
            if report:
                report(done, total)


class _Fetch:
    """The call that reads the items at `indices` and collates them."""

    __slots__ = ("collate", "dataset", "indices")

    def __init__(
        self, dataset: Dataset[Any], collate: Callable[[list[Any]], Any], indices: list[int]
    ) -> None:
        self.dataset, self.collate, self.indices = dataset, collate, indices

    def __call__(self) -> Any:
        if type(self.dataset) is TensorDataset and self.collate is default_collate:
            return self.dataset.take(self.indices)
        return self.collate([self._item(index) for index in self.indices])

    def _item(self, index: int) -> Any:
        try:
            return self.dataset[index]
        except Exception as error:
            error.add_note(f"DataLoader: while reading item {index} of the dataset.")
            raise


class _FetchOne(_Fetch):
    """The call that reads a single item."""

    def __init__(self, dataset: Dataset[Any], convert: Callable[[Any], Any], index: int) -> None:
        super().__init__(dataset, convert, [index])

    def __call__(self) -> Any:
        return self.collate(self._item(self.indices[0]))


class _Collate:
    """The call that collates items already read."""

    def __init__(self, collate: Callable[[Any], Any], items: Any) -> None:
        self.collate, self.items = collate, items

    def __call__(self) -> Any:
        return self.collate(self.items)


def _refuse_contradictions(
    dataset: object,
    batch_size: int | None,
    shuffle: bool,
    sampler: object,
    batch_sampler: object,
    drop_last: bool,
) -> None:
    def refuse(what: str) -> None:
        raise ArgumentError(f"DataLoader: {what}. Leave one of them out.")

    if sampler is not None and shuffle:
        refuse("got sampler and shuffle=True, and both fix the order")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler or drop_last):
        refuse("got batch_sampler beside batch_size, shuffle, sampler or drop_last")
    if isinstance(dataset, IterableDataset) and (shuffle or sampler or batch_sampler):
        refuse("got an IterableDataset, which has an order of its own, and a sampler or shuffle")
    if batch_size is None and drop_last:
        refuse("got batch_size=None and drop_last=True, but single items are never dropped")
    if batch_size is not None and (isinstance(batch_size, bool) or batch_size <= 0):
        raise ArgumentError(
            f"DataLoader: got batch_size {batch_size!r}, expected 1 or more, or None."
        )


def _stream(generator: GeneratorLike) -> GeneratorLike:
    """Turn a seed into one generator that moves on, so that each epoch is shuffled anew."""
    import numpy as np

    return np.random.default_rng(generator) if isinstance(generator, int) else generator


def _as_it_is(item: object) -> object:
    """Return arrays as tensors and all else unchanged: what a loader does to single items."""
    import numpy as np

    from minitorch.tensor import tensor

    return tensor(item) if isinstance(item, np.ndarray) else item


def _progress_line(done: int, total: int | None) -> None:
    of = f"/{total}" if total is not None else ""
    sys.stderr.write(f"\r{done}{of} batches" + ("\n" if done == total else ""))
    sys.stderr.flush()

"""Datasets, samplers, loaders and digits: order, determinism, errors."""

import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import TensorDataset as TorchTensorDataset

from minitorch import data
from minitorch.arrays.generator import manual_seed
from minitorch.data import DataLoader, Dataset, IterableDataset, TensorDataset
from minitorch.errors import ArgumentError
from minitorch.tensor.tensor import Tensor, tensor


class Squares(Dataset[int]):
    def __init__(self, n: int) -> None:
        self.n = n

    def __getitem__(self, index: int) -> int:
        if index >= self.n:
            raise IndexError(index)
        return index * index

    def __len__(self) -> int:
        return self.n


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(7))


def numbers(n: int = 10) -> TensorDataset:
    x = np.arange(2 * n, dtype=np.float32).reshape(n, 2)
    return TensorDataset(tensor(x), tensor(np.arange(n)))


def listed(loader: Any) -> list[Any]:
    return [b.tolist() if isinstance(b, Tensor) else [t.tolist() for t in b] for b in loader]


# ── loaders ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch_size", [1, 3, 5, 20])
@pytest.mark.parametrize("workers", [0, 3])
def test_batches_equal_pytorchs(batch_size: int, drop_last: bool, workers: int) -> None:
    ours = DataLoader(numbers(), batch_size, drop_last=drop_last, num_workers=workers)
    x, y = numbers().tensors
    twin = TorchTensorDataset(torch.tensor(x.numpy()), torch.tensor(y.numpy()))
    theirs = TorchLoader(twin, batch_size, drop_last=drop_last)
    assert len(ours) == len(theirs)
    assert listed(ours) == [[t.tolist() for t in b] for b in theirs]


def test_a_batch_taken_at_once_equals_one_collated_item_by_item() -> None:
    class Plain(Dataset[Any]):
        def __getitem__(self, index: int) -> Any:
            return numbers()[index]

        def __len__(self) -> int:
            return 10

    at_once = DataLoader(numbers(), 4, shuffle=True, generator=3)
    one_by_one = DataLoader(Plain(), 4, shuffle=True, generator=3)
    assert listed(at_once) == listed(one_by_one)


def test_shuffling_visits_everything_once_in_a_new_order_each_pass() -> None:
    loader = DataLoader(Squares(50), 7, shuffle=True, generator=0)
    first, second = (np.concatenate([b.numpy() for b in loader]) for _ in range(2))
    assert sorted(first) == sorted(second) == [i * i for i in range(50)]
    assert list(first) != list(second)


def test_a_seed_repeats_the_order_whatever_the_number_of_workers() -> None:
    def order(workers: int) -> list[Any]:
        return listed(DataLoader(Squares(40), 6, shuffle=True, generator=5, num_workers=workers))

    assert order(0) == order(1) == order(4)
    assert order(0) != listed(DataLoader(Squares(40), 6, shuffle=True, generator=6))


def test_a_sampler_may_be_an_array() -> None:
    assert listed(DataLoader(Squares(5), 2, sampler=np.array([3, 1, 0]))) == [[9, 1], [0]]
    with pytest.raises(ArgumentError, match="fixed twice"):
        DataLoader(Squares(5), shuffle=True, sampler=np.array([3, 1]))


def test_the_global_seed_decides_when_no_generator_is_given() -> None:
    def order() -> list[Any]:
        return listed(DataLoader(Squares(40), 6, shuffle=True))

    manual_seed(1)
    a = order()
    b = order()
    manual_seed(1)
    assert order() == a != b


def test_workers_run_beside_each_other() -> None:
    meeting = threading.Barrier(2, timeout=120)

    class Meets(Squares):
        def __getitem__(self, index: int) -> int:
            meeting.wait()  # passes only if two items are being read at the same time
            return index

    assert listed(DataLoader(Meets(8), 1, num_workers=2)) == [[i] for i in range(8)]


def test_leaving_a_loop_early_stops_the_workers() -> None:
    before = set(threading.enumerate())
    iterator = iter(DataLoader(Squares(1000), 1, num_workers=2))
    next(iterator)
    iterator.close()  # type: ignore[attr-defined]
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("workers", [0, 2])
def test_a_crash_in_the_dataset_names_the_item(workers: int) -> None:
    class Broken(Squares):
        def __getitem__(self, index: int) -> int:
            return 1 // (index - 5)

    with pytest.raises(ZeroDivisionError) as caught:
        list(DataLoader(Broken(8), 2, num_workers=workers))
    assert "item 5" in caught.value.__notes__[0]


def test_items_without_batches_and_streams() -> None:
    assert list(DataLoader(Squares(3), batch_size=None)) == [0, 1, 4]
    assert listed(DataLoader(Stream(), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert listed(DataLoader(Stream(), 3, drop_last=True, num_workers=2)) == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(TypeError, match="no length"):
        len(DataLoader(Stream(), 3))
    assert data.get_worker_info() is None


@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"batch_size": None}])
def test_a_stream_with_a_length_counts_its_batches(options: dict[str, Any]) -> None:
    class Counted(Stream):
        def __len__(self) -> int:
            return 7

    class TorchCounted(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(range(7))

        def __len__(self) -> int:
            return 7

    options = {"batch_size": 3, **options}
    ours, theirs = DataLoader(Counted(), **options), TorchLoader(TorchCounted(), **options)
    assert len(ours) == len(theirs) == len(list(ours))


@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": True, "sampler": [1, 2]},
        {"batch_sampler": [[1]], "shuffle": True},
        {"batch_sampler": [[1]], "batch_size": 3},
        {"batch_size": 0},
        {"batch_size": -1},
        {"batch_size": None, "drop_last": True},
        {"num_workers": -1},
        {"sampler": [0], "batch_sampler": [[1]]},
    ],
)
def test_arguments_that_contradict_each_other_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=r"^(DataLoader|BatchSampler): "):
        DataLoader(Squares(3), **options)


# ── collating ───────────────────────────────────────────────────────────────────────────────────

ITEMS: list[list[Any]] = [
    [1, 2, 3],
    [1.5, 2.5],
    [True, False],
    ["a", "b"],
    [(1, 2.0), (3, 4.0)],
    [1, 2.5],
    [True, False],
    [{"x": 1, "y": [1, 2]}, {"x": 2, "y": [3, 4]}],
    [np.float32(1), np.float32(2)],
    [np.ones((2, 3)), np.zeros((2, 3))],
]


def plain(value: Any) -> Any:
    if isinstance(value, Tensor | torch.Tensor):
        return str(value.dtype).removeprefix("torch."), value.tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("items", ITEMS, ids=str)
def test_items_are_collated_as_pytorch_does(items: list[Any]) -> None:
    theirs = torch.utils.data.default_collate(items)
    assert plain(data.default_collate(items)) == plain(theirs)


def test_items_that_do_not_stack_are_an_error_that_says_which() -> None:
    with pytest.raises(ArgumentError, match=r"\(2,\) for item 0 and \(3,\) for item 1"):
        data.default_collate([tensor([1.0, 2.0]), tensor([1.0, 2.0, 3.0])])
    with pytest.raises(ArgumentError, match="length"):
        data.default_collate([[1, 2], [1]])
    with pytest.raises(TypeError, match="object"):
        data.default_collate([object()])
    with pytest.raises(ArgumentError, match=r"differ in keys: got \['a'\] for item 0 and \[\]"):
        data.default_collate([{"a": 1}, {"b": 1}])


# ── datasets and samplers ───────────────────────────────────────────────────────────────────────


def test_datasets_are_cut_and_joined() -> None:
    both = Squares(3) + Squares(2)
    assert [both[i] for i in range(len(both))] == [0, 1, 4, 0, 1]
    assert both[-1] == 1
    assert list(data.Subset(Squares(9), [8, 1])) == [64, 1]
    with pytest.raises(IndexError):
        both[5]


@pytest.mark.parametrize("lengths", [[6, 4], [0.6, 0.4], [0.5, 0.25, 0.25]])
def test_a_random_split_covers_everything_once(lengths: list[float]) -> None:
    parts = data.random_split(Squares(10), lengths, generator=0)
    sizes = [len(p) for p in torch.utils.data.random_split(Squares(10), lengths)]  # type: ignore[arg-type]
    assert [len(p) for p in parts] == sizes
    assert sorted(i for p in parts for i in p.indices) == list(range(10))


@pytest.mark.parametrize("lengths", [[6, 5], [-1, 11], [0.5, 0.6]])
def test_a_split_that_does_not_cover_is_refused(lengths: list[float]) -> None:
    with pytest.raises(ArgumentError, match="random_split"):
        data.random_split(Squares(10), lengths)


def test_tensors_of_unequal_length_are_no_dataset() -> None:
    with pytest.raises(ArgumentError, match="first axes differ"):
        TensorDataset(tensor([1.0]), tensor([1.0, 2.0]))


def test_weighted_sampling_follows_the_weights() -> None:
    sampler = data.WeightedRandomSampler([1.0, 0.0, 3.0], 8000, generator=0)
    counts = np.bincount(list(sampler), minlength=3) / 8000
    np.testing.assert_allclose(counts, [0.25, 0.0, 0.75], atol=6 * (0.19 / 8000) ** 0.5)
    with pytest.raises(ArgumentError, match="at most 2, one for each weight that is not 0"):
        data.WeightedRandomSampler([1.0, 0.0, 3.0], 3, replacement=False)
    with pytest.raises(ArgumentError, match="num_samples 0, expected 1 or more"):
        data.WeightedRandomSampler([1.0], 0)
    with pytest.raises(ArgumentError, match="none negative"):
        data.WeightedRandomSampler([1.0, -1.0], 3)


def test_a_sampler_of_ones_own_says_what_it_gives() -> None:
    class Backwards(data.Sampler[int]):
        def __iter__(self) -> Iterator[int]:
            return iter([2, 1, 0])

    assert list(DataLoader(Squares(3), batch_size=None, sampler=Backwards())) == [4, 1, 0]
    assert isinstance(data.BatchSampler(range(3), 2), data.Sampler)


def test_a_random_sampler_may_draw_fewer_more_or_with_replacement() -> None:
    few = list(data.RandomSampler(range(5), num_samples=3, generator=0))
    assert len(set(few)) == 3
    many = list(data.RandomSampler(range(5), num_samples=12, generator=0))
    assert sorted(many[:5]) == sorted(many[5:10]) == list(range(5))
    again = list(data.RandomSampler(range(5), replacement=True, num_samples=50, generator=0))
    assert len(again) == 50
    assert set(again) <= set(range(5))


@pytest.mark.parametrize(
    "sampler",
    [
        data.RandomSampler(range(5), replacement=True, num_samples=int(1e10), generator=0),
        data.RandomSampler(range(5), num_samples=int(1e10), generator=0),
        data.WeightedRandomSampler([1.0, 3.0], int(1e10), generator=0),
        data.SequentialSampler(range(int(1e10))),
    ],
)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_pass_over_ten_thousand_million_indices_begins_at_once(
    sampler: data.Sampler, num_workers: int
) -> None:
    loader = DataLoader(
        range(int(1e10)),  # type: ignore[arg-type]
        batch_size=4,
        sampler=islice(sampler, 10),
        num_workers=num_workers,
    )
    assert [len(batch) for batch in islice(iter(loader), 2)] == [4, 4]
    assert len(DataLoader(range(9), batch_size=4, sampler=sampler)) == 25 * 10**8  # type: ignore[arg-type]


def test_indices_drawn_as_they_are_asked_for_are_those_drawn_at_once() -> None:
    def drawn() -> np.random.Generator:
        return np.random.default_rng(3)

    some, count, weights = range(1000), 10_000, np.arange(1.0, 8.0)
    again = data.RandomSampler(some, replacement=True, num_samples=count, generator=3)
    assert list(again) == drawn().integers(1000, size=count).tolist()
    heavy = data.WeightedRandomSampler(weights, count, generator=3)  # type: ignore[arg-type]
    assert list(heavy) == drawn().choice(7, count, True, weights / weights.sum()).tolist()
    once = data.WeightedRandomSampler(np.ones(count), count, False, generator=3)  # type: ignore[arg-type]
    assert list(once) == drawn().choice(count, count, False, np.ones(count) / count).tolist()
    subset = data.SubsetRandomSampler(range(5, count), generator=3)
    assert list(subset) == (drawn().permutation(count - 5) + 5).tolist()
    order = drawn()
    passes = [i for _ in range(3) for i in order.permutation(4000).tolist()]
    assert list(data.RandomSampler(range(4000), num_samples=count, generator=3)) == passes[:count]


# ── data that ships with a package ──────────────────────────────────────────────────────────────


def test_digits_are_split_without_overlap() -> None:
    train, test = data.digits(train=True), data.digits(train=False)
    assert (len(train), len(test)) == (1438, 359)
    assert train.tensors[0].shape == (1438, 1, 8, 8)
    assert data.digits(flat=True).tensors[0].shape == (1438, 64)
    rows = {t.tobytes() for t in train.tensors[0].numpy()}
    assert sum(t.tobytes() in rows for t in test.tensors[0].numpy()) <= 2  # two are drawn twice
    assert float(train.tensors[0].numpy().max()) == 1.0

"""x[index] for random indices beside PyTorch: read, written, added to, as a view, with gradients.

`WIDE=1` draws 40 times as many. A case is its seed: `check(seed)` runs one again.
"""

import os
from typing import Any

import numpy as np
import pytest
import torch

import minitorch
from minitorch.errors import AxisError

BATCHES = 20
CASES = 2000 if os.environ.get("WIDE") else 50

REFUSALS = (IndexError, RuntimeError, TypeError)
Rng = np.random.Generator


def integers(rng: Rng, size: int, common: tuple[int, ...]) -> Any:
    """An array of positions on an axis of `size`, of a shape that broadcasts to `common`."""
    shape = common[int(rng.integers(len(common) + 1)) :]
    shape = tuple(n if rng.random() < 0.8 else 1 for n in shape)
    return rng.integers(-size, size, shape) if size else np.zeros((0,), np.int64)


def mask(rng: Rng, shape: tuple[int, ...], picks: int) -> Any:
    """A mask of `shape` that picks so many, or, one time in five, however many."""
    found = np.zeros(shape, bool)
    count = picks if rng.random() < 0.8 else int(rng.integers(found.size + 1))
    found.reshape(-1)[rng.permutation(found.size)[:count]] = True
    return found


def item(rng: Rng, sizes: tuple[int, ...], common: tuple[int, ...]) -> tuple[Any, int]:
    """One item of an index for an axis of sizes[0], and how many axes it takes."""
    n = sizes[0]
    match rng.integers(9):
        case 0 | 1:
            return (int(rng.integers(-n, n)) if n else slice(None)), 1
        case 2:
            return slice(None), 1
        case 3:
            start, stop = (int(v) for v in rng.integers(-n - 1, n + 2, 2))
            return slice(start, stop, int(rng.integers(1, 3))), 1
        case 4 | 5:
            found = integers(rng, n, common)
            return found if rng.random() < 0.5 or found.ndim != 1 else found.tolist(), 1
        case 6:
            found = mask(rng, (n,), common[-1] if common else 1)
            return found.tolist() if rng.random() < 0.5 else found, 1
        case 7 if len(sizes) > 1:
            return mask(rng, sizes[:2], common[-1] if common else 1), 2
        case _:
            return None, 0


def an_index(rng: Rng, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A random index for a value of `shape`, as plain data."""
    common = tuple(int(n) for n in rng.integers(1, 4, rng.integers(3)))
    items: list[Any] = []
    used = 0
    while used < len(shape) and rng.random() < 0.85:
        found, axes = item(rng, shape[used:], common)
        items.append(found)
        used += axes
    if rng.random() < 0.3:
        items.insert(int(rng.integers(len(items) + 1)), Ellipsis)
    if rng.random() < 0.05:
        items.insert(int(rng.integers(len(items) + 1)), bool(rng.integers(2)))
    if rng.random() < 0.1:
        items.append(int(rng.integers(-4, 4)))  # perhaps one too many, or out of range
    return tuple(items)


def told(lib: Any, index: tuple[Any, ...]) -> Any:
    """The index with arrays as tensors of `lib`."""
    items = tuple(lib.tensor(i) if isinstance(i, np.ndarray) else i for i in index)
    return items[0] if len(items) == 1 else items


def programs(lib: Any, numbers: Any, index: Any, value: Any) -> dict[str, Any]:
    """What comes of every use of one index."""

    def leaf(array: Any) -> Any:
        return lib.tensor(array, requires_grad=True)

    x, w = leaf(numbers), leaf(value)
    taken = x[index]
    (taken * taken + x.sum()).sum().backward()
    found = {"get": taken, "grad": x.grad}

    x = leaf(numbers)
    out = x * 2
    out[index] = w
    ((out * out).sum() + w.sum()).backward()
    found |= {"set": out, "grad of the target": x.grad, "grad of the value": w.grad}

    out = lib.tensor(numbers)
    out[index] += 1
    found["added to"] = out

    out = lib.tensor((numbers * 100).astype(np.int64))
    view = out[index]
    view += 7
    found |= {"what the view shows": view, "under the view": out}
    return {name: got.detach().numpy() for name, got in found.items()}


def value_for(rng: Rng, numbers: Any, index: Any) -> Any:
    """A value to assign; one number where a place is picked twice: which one wins is open."""
    places = torch.arange(numbers.size).reshape(numbers.shape)[index]
    if len(torch.unique(places)) < places.numel():
        return np.array(3.5)
    shape = tuple(n if rng.random() < 0.8 else 1 for n in places.shape)
    shape = shape[int(rng.integers(len(shape) + 1)) if rng.random() < 0.3 else 0 :]
    return rng.normal(size=shape)


def refuses(numbers: Any, index: Any, case: str) -> None:
    """Assert that what PyTorch refuses is refused, or picks nothing."""
    try:
        taken = minitorch.tensor(numbers)[told(minitorch, index)]
    except REFUSALS:
        return
    assert not taken.numel(), f"{case}: PyTorch refuses it"


def check(seed: int) -> None:
    """Compare one case."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1 if rng.random() < 0.9 else 0, 5, rng.integers(5)))
    index = an_index(rng, shape)
    numbers = rng.normal(size=shape)
    case = f"seed {seed}: shape {shape}, index {index}"
    try:
        value = value_for(rng, numbers, told(torch, index))
        theirs = programs(torch, numbers, told(torch, index), value)
    except REFUSALS:
        refuses(numbers, index, case)
        return
    try:
        ours = programs(minitorch, numbers, told(minitorch, index), value)
    except AxisError:
        assert not theirs["get"].size, case  # PyTorch does not look where nothing is picked
        return
    for name, expected in theirs.items():
        where = f"{case}: {name}"
        assert ours[name].shape == expected.shape, where
        assert ours[name].dtype == expected.dtype, where
        np.testing.assert_allclose(ours[name], expected, rtol=1e-12, err_msg=where)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_indices_mean_what_they_mean_in_pytorch(batch: int) -> None:
    for seed in range(batch * CASES, (batch + 1) * CASES):
        check(seed)


def test_the_same_over_torch_arrays(torch_arrays: None) -> None:
    for seed in range(CASES):
        check(seed)

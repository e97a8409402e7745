"""Every collective by every algorithm on every transport, dtype, size and world size 1 to 5.

The values are small integers, so that every dtype holds every result exactly and the oracle is
NumPy on the stacked inputs.
"""

import functools
from typing import Any

import numpy as np
import pytest

import ddp_lab
from ddp_lab.collectives.registry import COLLECTIVES

DTYPES = ("float16", "float32", "float64", "int32", "int64", "uint8")
SHAPES = ((0,), (1,), (7,), (3, 5), (), (1030,))
REDUCTIONS = {"sum": np.sum, "prod": np.prod, "min": np.min, "max": np.max}
ROWS = ("reduce_scatter", "all_to_all")

Case = tuple[str, str, str, tuple[int, ...], str, int]


def cases(world_size: int) -> list[Case]:
    found = []
    number = 0
    for collective in COLLECTIVES:
        for algorithm in ddp_lab.algorithms(collective):
            for dtype in DTYPES:
                for shape in SHAPES:
                    op = list(REDUCTIONS)[number % len(REDUCTIONS)]
                    found.append((collective, algorithm, dtype, shape, op, number % world_size))
                    number += 1
    return found


def argument(case: Case, rank: int, world_size: int) -> np.ndarray:
    collective, _, dtype, shape, _, _ = case
    shape = (world_size, *shape) if collective in ROWS else shape
    return drawn(rank, shape).astype(dtype)


@functools.cache  # which takes longer than most of the collectives
def drawn(rank: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng([rank, len(shape), *shape]).integers(0, 3, shape)


def run_all(comm: ddp_lab.Communicator, some: list[Case]) -> list[Any]:
    results = []
    for case in some:
        collective, algorithm, _, _, op, root = case
        x = argument(case, comm.rank, comm.size)
        before = x.copy()
        call = getattr(comm, collective)
        if collective == "barrier":
            results.append(call(algorithm=algorithm))
            continue
        options: dict[str, Any] = {"algorithm": algorithm}
        if collective in ("broadcast", "gather", "reduce", "scatter"):
            options["root"] = root
        if collective in ("reduce", "reduce_scatter", "all_reduce"):
            options["op"] = op
        if collective == "scatter":
            x = [x + i for i in range(comm.size)] if comm.rank == root else None
        if collective == "broadcast" and comm.rank != root and comm.rank % 2:
            x = None  # ranks may leave it to the root to say what comes
        results.append(call(x, **options))
        if isinstance(x, np.ndarray):
            np.testing.assert_array_equal(x, before, err_msg=f"{case} changed its argument")
    return results


def expected(case: Case, rank: int, world_size: int) -> np.ndarray | None:
    collective, _, dtype, _, op, root = case
    inputs = np.stack([argument(case, r, world_size) for r in range(world_size)])
    reduced = REDUCTIONS[op](inputs, axis=0).astype(dtype)
    return {
        "all_gather": lambda: inputs,
        "all_reduce": lambda: reduced,
        "all_to_all": lambda: inputs[:, rank],
        "barrier": lambda: None,
        "broadcast": lambda: inputs[root],
        "gather": lambda: inputs if rank == root else None,
        "reduce": lambda: reduced if rank == root else None,
        "reduce_scatter": lambda: reduced[rank],
        "scatter": lambda: inputs[root] + rank,
    }[collective]()


def wrong(case: Case, rank: int, world_size: int, got: Any) -> str | None:
    want = expected(case, rank, world_size)
    if want is None or got is None:
        return None if want is got else f"{case} on rank {rank}: {got!r} is not {want!r}"
    want = np.asarray(want)
    if got.dtype != np.dtype(case[2]) or got.shape != want.shape or not np.array_equal(got, want):
        return f"{case} on rank {rank}: {got!r} is not {want!r}"
    return None


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("transport", ["threads", "shm", "tcp"])
def test_every_collective_equals_numpy(transport: str, world_size: int) -> None:
    some = cases(world_size)
    if transport == "threads" or world_size > 3:
        some = some[world_size % 3 :: 3]
    results = ddp_lab.launch(run_all, world_size, some, transport=transport)
    faults = [
        fault
        for rank, mine in enumerate(results)
        for case, got in zip(some, mine, strict=True)
        if (fault := wrong(case, rank, world_size, got))
    ]
    assert not faults[:5]


def test_the_comparison_finds_a_wrong_element_dtype_or_shape() -> None:
    case: Case = ("all_reduce", "ring", "float32", (7,), "sum", 0)
    right = expected(case, 0, 2)
    assert right is not None
    assert not wrong(case, 0, 2, right)
    off = right.copy()
    off[3] *= -1.0005
    assert wrong(case, 0, 2, off)
    assert wrong(case, 0, 2, right.astype(np.float64))
    assert wrong(case, 0, 2, right[np.newaxis])


def large(comm: ddp_lab.Communicator, count: int) -> list[tuple[str, bool, bool]]:
    """Return, for each algorithm, whether the result is right and the same bits as on rank 0."""
    found = []
    x = np.arange(count, dtype=np.float32) % 97 + comm.rank
    want = comm.size * (np.arange(count, dtype=np.float32) % 97) + sum(range(comm.size))
    registered = comm.empty(count, np.float32)
    for algorithm in ddp_lab.algorithms("all_reduce"):
        registered[:] = x
        comm.all_reduce(registered, algorithm=algorithm, out=registered)
        result = comm.all_reduce(x, algorithm=algorithm)
        noise = np.random.default_rng(comm.rank).normal(size=1001)
        alike = comm.all_reduce(noise, algorithm=algorithm)
        same = bool((alike == comm.broadcast(alike)).all())
        right = np.array_equal(result, want) and np.array_equal(registered, want)
        found.append((algorithm, right, same))
    return found


@pytest.mark.parametrize("transport", ["threads", "shm", "tcp"])
@pytest.mark.parametrize("world_size", [2, 3])
def test_large_arrays_are_reduced_to_the_same_bits_everywhere(
    transport: str, world_size: int
) -> None:
    for result in ddp_lab.launch(large, world_size, 300_001, transport=transport):
        assert all(right and same for _, right, same in result), result


def gather_in_place(comm: Any) -> list[bool]:
    found = []
    for n in (3, 50_000):
        for algorithm in ddp_lab.algorithms("all_gather"):
            rows = comm.empty((comm.size, n), np.float32)
            rows[comm.rank] = comm.rank
            got = comm.all_gather(rows[comm.rank], algorithm=algorithm, out=rows)
            found.append(got is rows and all((rows[r] == r).all() for r in range(comm.size)))
    with pytest.raises(ddp_lab.InvalidArgument, match="out= does not fit: got float32"):
        comm.all_gather(rows[0], out=rows[:1])
    return found


@pytest.mark.parametrize("transport", ["shm", "threads"])
def test_all_gather_fills_an_array_of_which_its_argument_is_a_row(transport: str) -> None:
    assert all(map(all, ddp_lab.launch(gather_in_place, 3, transport=transport)))


def broadcast_in_place(comm: Any) -> list[bool]:
    found = []
    for n in (3, 50_000):
        for algorithm in ddp_lab.algorithms("broadcast"):
            x = np.full(n, comm.rank, np.float32)
            got = comm.broadcast(x, 1, algorithm=algorithm, out=x)
            apart = np.empty(n, np.float32)
            comm.broadcast(x + 1 if comm.rank == 2 else None, 2, algorithm=algorithm, out=apart)
            found.append(got is x and bool((x == 1).all()) and bool((apart == 2).all()))
    return found


@pytest.mark.parametrize("transport", ["shm", "threads", "tcp"])
def test_broadcast_fills_an_array_that_may_be_its_argument(transport: str) -> None:
    assert all(map(all, ddp_lab.launch(broadcast_in_place, 3, transport=transport)))


def gather_into_lists(comm: Any) -> list[bool]:
    """Return whether each algorithm has filled lists of arrays, the argument among them."""
    found = []
    for n in (3, 50_000):
        for algorithm in ddp_lab.algorithms("all_gather"):
            rows = [comm.empty(n, np.float32) for _ in range(comm.size)]
            (x := rows[0])[...] = comm.rank  # which others read while row 0 is written
            got = comm.all_gather(x, algorithm=algorithm, out=rows)
            found.append(got is rows and all((row == r).all() for r, row in enumerate(rows)))
        for algorithm in ddp_lab.algorithms("gather"):
            rows = [np.zeros(n, np.float32) for _ in range(comm.size)]
            got = comm.gather(np.full(n, comm.rank, np.float32), 1, algorithm=algorithm, out=rows)
            right = all((row == r).all() for r, row in enumerate(rows))
            found.append(got is rows and right if comm.rank == 1 else got is None)
    with pytest.raises(ddp_lab.InvalidArgument, match="out= is one array a rank: got a list of 2"):
        comm.all_gather(rows[0], out=rows[:2])
    return found


@pytest.mark.parametrize("transport", ["shm", "threads"])
def test_gather_and_all_gather_fill_lists_of_arrays(transport: str) -> None:
    assert all(map(all, ddp_lab.launch(gather_into_lists, 3, transport=transport)))

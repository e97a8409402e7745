"""The caching allocator: memory that is kept by size, and that comes back by itself."""

import gc
import itertools
import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitorch
from minitorch.arrays import allocator
from minitorch.arrays.allocator import PAGE, CachingAllocator


def test_memory_given_back_is_handed_out_again() -> None:
    pool = CachingAllocator()
    array = pool.empty((1000,), np.uint8)
    assert pool.stats() == pool.stats() | {"reserved": 4096, "misses": 1, "hits": 0}
    del array
    pool.empty((4000,), np.uint8)
    assert pool.stats() == pool.stats() | {"reserved": 4096, "misses": 1, "hits": 1}


def test_no_more_is_kept_than_the_limit_or_what_was_in_use() -> None:
    pool, megabyte = CachingAllocator(), 2**20
    for size in range(1, 60):
        pool.empty((size * megabyte,), np.uint8)
        stats = pool.stats()
        assert stats["allocated"] == 0
        assert stats["reserved"] <= allocator.KEPT + size * megabyte
    assert stats["misses"] == 59


def test_an_array_and_its_views_hold_their_memory_and_then_return_it() -> None:
    pool = CachingAllocator()
    array = pool.empty((100, 10), np.float64)
    view = array[3:].T
    del array
    assert pool.stats()["allocated"] >= 8000
    del view
    assert pool.stats()["allocated"] == 0


MIB = 2**20


def test_free_neighbours_are_joined_and_cut_anew() -> None:
    pool = CachingAllocator()
    whole = pool.empty((24 * MIB,), np.uint8)
    place = whole.ctypes.data
    del whole
    parts = [pool.empty((n * MIB,), np.uint8) for n in (4, 12, 8)]
    assert [part.ctypes.data - place for part in parts] == [0, 4 * MIB, 16 * MIB]
    del parts[1]
    assert pool.empty((10 * MIB,), np.uint8).ctypes.data == place + 4 * MIB
    parts.clear()
    assert pool.empty((24 * MIB,), np.uint8).ctypes.data == place
    assert pool.stats() == pool.stats() | {"reserved": 24 * MIB, "misses": 1, "hits": 5}


def test_a_block_is_cut_from_the_smallest_that_has_room() -> None:
    pool = CachingAllocator()
    blocks = [pool.empty((n * MIB,), np.uint8) for n in (16, 5, 8)]
    places = [block.ctypes.data for block in blocks]
    blocks.clear()
    assert pool.empty((6 * MIB,), np.uint8).ctypes.data == places[2]
    assert pool.stats()["reserved"] == 29 * MIB


def test_little_memory_is_kept_by_size_alone() -> None:
    pool = CachingAllocator()
    pool.empty((4 * MIB,), np.uint8)
    pool.empty((2 * MIB,), np.uint8)
    assert pool.stats()["misses"] == 2


def test_of_too_much_memory_that_goes_which_is_free_as_a_whole() -> None:
    pool = CachingAllocator()
    pool.empty((200 * MIB,), np.uint8)
    part = pool.empty((1 * MIB,), np.uint8)  # cut from the first one, which so must stay
    pool.empty((210 * MIB,), np.uint8)
    pool.empty((220 * MIB,), np.uint8)
    assert pool.stats()["reserved"] == (200 + 220) * MIB
    del part
    pool.empty((230 * MIB,), np.uint8)
    assert pool.stats()["reserved"] == 230 * MIB


FORKED = """
import os
import numpy as np
from minitorch.arrays.allocator import CachingAllocator

array = CachingAllocator().empty((1 << 20,), np.float32)
array[:] = 1.0
child = os.fork()
if child == 0:
    array[:] = 2.0
    os._exit(0)
os.waitpid(child, 0)
print(array[0], array[-1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_does_not_write_into_its_parents_arrays() -> None:
    ran = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["1.0", "1.0"]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 4_000_000), st.booleans()), max_size=60))
def test_blocks_in_use_never_overlap_and_the_counters_add_up(
    requests: list[tuple[int, bool]],
) -> None:
    pool = CachingAllocator()
    held: list[np.ndarray[Any, Any]] = []
    for size, drop_one in requests:
        held.append(pool.empty((size,), np.uint8))
        if drop_one:
            del held[len(held) // 2]
    stats = pool.stats()
    assert stats["allocated"] == sum(-(-array.nbytes // PAGE) * PAGE for array in held)
    assert stats["allocated"] <= stats["reserved"]
    assert stats["hits"] + stats["misses"] == len(requests)
    spans = sorted((array.ctypes.data, array.ctypes.data + array.nbytes) for array in held)
    for (_, end), (start, _) in itertools.pairwise(spans):
        assert end <= start


def test_large_results_of_operators_lie_in_cached_memory_and_are_right() -> None:
    x = np.random.default_rng(0).standard_normal((520, 520)).astype(np.float32)
    a = minitorch.tensor(x, requires_grad=True)
    before = allocator.cpu.stats()
    for _ in range(3):
        y = minitorch.relu(a * 2 + a)
        y.sum().backward()
        np.testing.assert_array_equal(y.detach().numpy(), np.maximum(x * 2 + x, 0))
    after = allocator.cpu.stats()
    assert after["hits"] > before["hits"]
    assert after["reserved"] - before["reserved"] <= 8 * 2**20
    assert a.grad is not None
    np.testing.assert_allclose(a.grad.numpy(), 9.0 * (x > 0))


@pytest.mark.parametrize("shape", [(300, 301), (512, 256), (2, 300, 301), (20, 3)])
def test_a_transposed_array_is_copied_in_rows(shape: tuple[int, ...]) -> None:
    turned = np.arange(np.prod(shape), dtype=np.float32).reshape(shape).T
    rows = allocator.rows_of(turned, turned.shape)
    assert rows.flags.c_contiguous and not np.may_share_memory(rows, turned)
    np.testing.assert_array_equal(rows, turned)


def test_all_memory_returns_when_the_tensors_are_gone() -> None:
    gc.collect()
    start = allocator.cpu.stats()["allocated"]
    y = minitorch.ones(520, 520) * 3.0
    assert allocator.cpu.stats()["allocated"] > start
    del y
    assert allocator.cpu.stats()["allocated"] == start


def test_threads_share_the_allocator_safely() -> None:
    pool = CachingAllocator()
    wrong: list[int] = []

    def work(mark: int) -> None:
        for _ in range(200):
            array = pool.empty((500,), np.int64)
            array[:] = mark
            if not (array == mark).all():
                wrong.append(mark)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert pool.stats()["allocated"] == 0


@pytest.mark.parametrize("shape", [(0,), (3, 0), ()])
def test_empty_and_0_d_arrays_are_fine(shape: tuple[int, ...]) -> None:
    assert CachingAllocator().empty(shape, np.float32).shape == shape


def test_the_block_that_came_back_last_is_taken_first_and_counted() -> None:
    pool = CachingAllocator()
    first, second = (pool.empty((1000,), np.float64) for _ in range(2))
    place = second.ctypes.data
    del first, second
    again = pool.empty((1000,), np.float64)
    assert again.ctypes.data == place
    stats = pool.stats()
    assert (stats["hits"], stats["misses"]) == (1, 2)
    assert stats["allocated"] == 8192
    assert stats["peak_allocated"] == 16384


FAULTS = """
import resource
import numpy as np
import minitorch

def pages() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for turn in range(30):
    if turn == 10:
        before = pages()
    arrays = [np.ones(2**21, np.uint8) for _ in range(4)]
    del arrays
print(pages() - before)
"""


@pytest.mark.skipif(not allocator.keep_freed_memory(), reason="malloc is not glibc's, or is set")
@pytest.mark.parametrize(("settings", "most"), [({}, 1000), ({"MALLOC_TRIM_THRESHOLD_": "0"}, 0)])
def test_what_numpy_frees_is_there_for_what_it_asks_next(
    settings: dict[str, str], most: int
) -> None:
    code = [sys.executable, "-c", FAULTS]
    child = subprocess.run(code, env=os.environ | settings, capture_output=True, check=True)
    if most:
        assert int(child.stdout) < most
    else:  # the environment's setting stands: all pages are fresh in all twenty turns
        assert int(child.stdout) > 20 * 4 * 2**21 // PAGE // 2


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize(
    "sizes", [(1, 512, 512), (2, 700, 800), (40, 300, 150), (300, 1, 200), (5, 1, 3), (64, 64, 300)]
)
def test_products_are_the_same_however_they_are_computed(
    dtype: str, sizes: tuple[int, int, int]
) -> None:
    (rows, terms, columns), rng = sizes, np.random.default_rng(0)
    a = rng.integers(-3, 4, (rows, terms)).astype(dtype)  # sums are exact in any order
    b = rng.integers(-3, 4, (columns, terms)).astype(dtype).T
    right = (a.astype("int64") @ b.astype("int64")).astype(dtype)
    for left, other in ((a, b), (a, b.copy()), (np.asfortranarray(a), b), (a[::-1], b)):
        product = allocator.matrix_product(left, other)
        np.testing.assert_array_equal(product, right[::-1] if left.strides[0] < 0 else right)
        assert product.dtype == dtype and product.flags.c_contiguous
    np.testing.assert_array_equal(
        allocator.matrix_product(np.stack([a, a]), np.stack([b, -b])), np.stack([right, -right])
    )
    with pytest.raises(ValueError, match="mismatch"):
        allocator.matrix_product(a, np.ones((terms + 1, 2), dtype))


@pytest.mark.parametrize("sizes", [(256, 192, 64), (301, 77, 100), (130, 784, 200), (7, 500, 500)])
def test_products_in_blocks_of_rows_have_all_rows(
    sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocator.threads, "reads_small_products", lambda: True)
    monkeypatch.setattr(allocator.threads, "get_num_threads", lambda: 1)
    rng, (rows, terms, columns) = np.random.default_rng(0), sizes
    a, b = (rng.normal(size=s).astype(np.float32) for s in ((rows, terms), (terms, columns)))
    for other in (b, np.asfortranarray(b)):
        product = allocator.matrix_product(a, other)
        np.testing.assert_allclose(product, a.astype(np.float64) @ b, 1e-4, 1e-4)
    assert allocator._rows_at_a_time(a, b) % 4 == 0 < allocator._rows_at_a_time(a, b)
    assert bool(allocator._rows_at_a_time(a, other)) == (terms >= 2 * columns)

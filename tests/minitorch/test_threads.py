"""Threads of NumPy's products: as many as there are cores, unless told."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import minitorch
from minitorch.arrays.threads import _beside, cores
from minitorch.errors import ArgumentError

COUNT = os.cpu_count() or 1


def test_the_number_of_threads_is_the_one_that_was_set() -> None:
    before = minitorch.get_num_threads()
    try:
        minitorch.set_num_threads(1)
        assert minitorch.get_num_threads() == 1
    finally:
        minitorch.set_num_threads(before)
    assert minitorch.get_num_threads() == before


@pytest.mark.parametrize("threads", [0, -1, 2.0, True])
def test_a_number_of_threads_that_makes_no_sense_is_refused(threads: int) -> None:
    with pytest.raises(ArgumentError, match="set_num_threads"):
        minitorch.set_num_threads(threads)


def test_threads_asked_for_in_the_environment_are_no_more_than_the_cores() -> None:
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "import minitorch; print(minitorch.get_num_threads())"
    )
    many = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "8")
    found = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | many, capture_output=True, check=True
    )
    assert found.stdout.split() == [b"1"]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("max 100000", COUNT), ("50000 100000", 1), (f"{COUNT * 200000} 100000", COUNT)],
)
def test_the_quota_of_the_container_counts(limit: str, expected: int, tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text(limit + "\n")
    assert cores(tmp_path) == min(expected, len(os.sched_getaffinity(0)))


@pytest.mark.parametrize(("quota", "expected"), [("-1", COUNT), ("100000", 1), ("30000", 1)])
def test_a_quota_in_the_older_layout_counts(quota: str, expected: int, tmp_path: Path) -> None:
    folder = tmp_path / "cpu"
    folder.mkdir()
    (folder / "cpu.cfs_quota_us").write_text(quota + "\n")
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    assert cores(tmp_path) == min(expected, len(os.sched_getaffinity(0)))


def test_without_control_groups_the_affinity_counts(tmp_path: Path) -> None:
    assert cores(tmp_path) == len(os.sched_getaffinity(0))


def test_functions_of_openblas_are_looked_for_beside_its_own_only() -> None:
    library = SimpleNamespace(openblas_get_corename=1, MKL_Get_Max_Threads=2)
    assert _beside(library, "openblas_get_num_threads", "get_corename") == 1
    assert _beside(library, "MKL_Get_Max_Threads", "get_corename") is None

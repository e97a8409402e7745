"""What was tuned is kept in a directory, and used where it was measured to be faster."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import minitorch as mt
from minitorch import compile as code
from minitorch.compile import engine, tuned

CONV = ("conv2d", 2, 3, 8, 8, 4, 3, 3, 1, 1)
POINT = {"rows": 2, "lanes": 4}


@pytest.fixture(autouse=True)
def directory(tmp_path: Path) -> Iterator[Path]:
    before = code.get_cache_directory()
    code.set_cache_directory(tmp_path / "tuned")
    yield tmp_path / "tuned"
    code.set_cache_directory(before)


def write(directory: Path, *entries: Any) -> None:
    directory.mkdir(exist_ok=True)
    lines = [entry if isinstance(entry, str) else json.dumps(entry) for entry in entries]
    (directory / f"{engine.processor()}.jsonl").write_text("\n".join(lines) + "\n")
    tuned.set_cache_directory(directory)


def entry(task: Any, seconds: float, library: float) -> dict[str, Any]:
    return {"task": task, "point": POINT, "seconds": seconds, "library_seconds": library}


def test_what_is_kept_is_there_for_the_next_process(directory: Path) -> None:
    assert code.kernel_for(CONV) is None and not directory.exists()  # nothing unasked
    found = code.tune(CONV, 2, "random")
    kept = code.keep(found)
    assert kept.seconds > 0 and kept.library_seconds > 0
    (line,) = (directory / f"{engine.processor()}.jsonl").read_text().splitlines()
    assert json.loads(line)["task"] == [*CONV]
    pays = kept.seconds < kept.library_seconds
    tuned.set_cache_directory(directory)  # as another process would begin
    assert (code.kernel_for(CONV) is not None) == pays


def test_a_kernel_is_used_only_where_it_pays_and_the_last_line_counts(directory: Path) -> None:
    task = ("matmul", 8, 8, 8)
    write(directory, entry(task, 1.0, 2.0))
    kernel = code.kernel_for(task)
    assert kernel is not None and dict(kernel.schedule)["rows"] == 2
    assert code.kernel_for(task) is kernel
    assert code.kernel_for((*task, "float64")) is None and code.kernel_for(CONV) is None
    write(directory, entry(task, 1.0, 2.0), entry(task, 2.0, 1.0))
    assert code.kernel_for(task) is None


def test_lines_that_cannot_be_used_are_passed_over(directory: Path) -> None:
    good = entry(CONV, 1.0, 2.0)
    illegal = good | {"point": {"rows": 99}, "task": ["matmul", 2, 2, 2]}
    write(directory, "{", "[]", "5", illegal, {"task": CONV}, good, '{"task": ["conv2')
    assert code.kernel_for(CONV) is not None and code.kernel_for(("matmul", 2, 2, 2)) is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_eager_convolutions_and_their_gradients_take_the_kernel(
    directory: Path, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = () if dtype == "float32" else (dtype,)
    back = ("conv2d", 2, 4, 8, 8, 3, 3, 3, 1, 1)  # the image's gradient
    write(directory, entry((*CONV, *kind), 1.0, 2.0), entry((*back, *kind), 1.0, 2.0))
    called = []
    run = code.ProductKernel.__call__
    monkeypatch.setattr(
        code.ProductKernel, "__call__", lambda s, *a, **k: called.append(s.task) or run(s, *a, **k)
    )
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=s).astype(dtype) for s in ((2, 3, 8, 8), (4, 3, 3, 3)))
    found = []
    for lib in (mt, torch):
        a, b = lib.tensor(x, requires_grad=True), lib.tensor(w, requires_grad=True)
        y = lib.nn.functional.conv2d(a, b, padding=1)
        (y * y).sum().backward()
        found.append([np.asarray(v.detach()) for v in (y, a.grad, b.grad)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-4)
    assert [task.sizes for task in called] == [CONV[1:], back[1:]]


def test_convolutions_of_other_kinds_are_left_to_numpy(directory: Path) -> None:
    write(directory, entry(CONV, 1.0, 2.0))
    f = mt.nn.functional
    x = mt.ones(2, 4, 8, 8)
    assert f.conv2d(x, mt.ones(4, 1, 3, 3), padding=1, groups=4).shape == (2, 4, 8, 8)
    assert f.conv2d(x, mt.ones(4, 4, 3, 3), padding=(1, 0), stride=(1, 2)).shape == (2, 4, 8, 3)
    assert f.conv1d(mt.ones(2, 4, 8), mt.ones(4, 4, 3)).shape == (2, 4, 6)
    assert f.conv2d(mt.ones(0, 3, 8, 8), mt.ones(4, 3, 3, 3), padding=1).shape == (0, 4, 8, 8)

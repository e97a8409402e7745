"""Kernels kept on disk: a later process runs what an earlier one compiled, without LLVM."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from minitorch.compile import attention, code_cache, engine
from minitorch.compile.text import KERNEL, OWN_CODE

STEP = """
import sys
import numpy as np
import minitorch
f, rng = minitorch.nn.functional, np.random.default_rng(0)
shapes = ((9, 8, 12, 12), (16, 8, 3, 3), (16,))
x, w, b = (minitorch.tensor(rng.normal(size=s), requires_grad=True) for s in shapes)
f.cross_entropy(f.relu(f.conv2d(x, w, b)).flatten(1), minitorch.arange(9)).backward()
print(any(name.startswith("llvmlite") for name in sys.modules))
print([t.grad.numpy().tobytes().hex()[:4000] for t in (x, w, b)])
"""

pytestmark = pytest.mark.skipif(
    code_cache.directory() is None or not engine.available(),
    reason="kernels are kept on Linux with x86-64",
)


def run(home: Path) -> list[str]:
    environment = os.environ | {"HOME": str(home)}
    child = subprocess.run(
        [sys.executable, "-c", STEP], env=environment, check=True, capture_output=True, text=True
    )
    return child.stdout.splitlines()


def test_a_second_process_takes_the_kernels_from_the_disk_and_does_without_llvm(
    tmp_path: Path,
) -> None:
    first, second = run(tmp_path), run(tmp_path)
    assert (first[0], second[0]) == ("True", "False")
    assert first[1] == second[1]
    kept = list((tmp_path / ".cache/minitorch/code").iterdir())
    assert len(kept) > 2
    for i, path in enumerate(kept):  # a byte of the code is another, or most is missing
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data if i % 2 else data[:20])
    assert run(tmp_path) == first
    assert run(tmp_path) == second


def test_the_half_that_was_used_longest_ago_is_forgotten(tmp_path: Path) -> None:
    first = run(tmp_path)
    folder = tmp_path / ".cache/minitorch/code"
    used, unused = set(folder.iterdir()), [folder / f"unused{i}" for i in range(20)]
    for i, path in enumerate(unused):
        path.touch()
        os.utime(path, (10 + i, 10 + i))
    for path in used:
        os.utime(path, (1, 1))
    assert run(tmp_path)[1] == first[1]  # which uses all that the first run has kept
    code_cache.forget_half(folder, len(used) + 21)
    assert set(folder.iterdir()) == used | set(unused)
    code_cache.forget_half(folder, 20)
    assert set(folder.iterdir()) == used | set(unused[10:])


def test_without_a_home_each_process_compiles(tmp_path: Path) -> None:
    first = run(tmp_path / "nowhere")
    assert first[0] == "True"
    assert not (tmp_path / "nowhere").exists()


def _object_file(body: str, more: str = "") -> bytes:
    return _compiled(f"{more}\n{KERNEL} {{\n{body}\n  ret void\n}}\n")


def _compiled(text: str) -> bytes:
    machine = engine.target_machine(reloc="pic", codemodel="small")
    return bytes(machine.emit_object(engine._optimise(engine._llvm(), text, machine)))


@pytest.mark.parametrize(
    ("body", "more"),
    [
        ("  call void @other()", "declare void @other()"),
        ("  store i64 %lo, ptr @count", "@count = global i64 0"),
        ("  store ptr @outside, ptr %table", "@outside = external global i64"),
    ],
)
def test_code_that_needs_something_from_outside_is_not_kept(body: str, more: str) -> None:
    assert code_cache.link_code(_object_file(body, more), "kernel") is None
    assert code_cache.link_code(_object_file("  store i64 %lo, ptr %table"), "kernel")
    assert code_cache.link_code(_object_file("  store i64 %lo, ptr %table"), "another") is None


@pytest.mark.parametrize("module", [attention._forward, attention._backward])
def test_loops_that_clear_memory_are_kept_as_loops(module: Callable[[str], str]) -> None:
    text = module("float32")
    assert code_cache.link_code(_compiled(text), "kernel")
    assert code_cache.link_code(_compiled(text.replace(OWN_CODE, "")), "kernel") is None  # memset

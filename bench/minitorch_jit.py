"""Whole training steps by jit beside PyTorch: eager, and by `torch.compile` where it can compile.

Every round runs one step of each, one thread; the table holds median times over PyTorch eager's,
then jit's over `torch.compile`'s, the same ratio of the first two calls, which trace and compile,
and jit's memory over PyTorch's: how far a child process's high-water mark goes in the first five
steps beyond what it holds before them, LLVM and compiling included. (The smallest MLP's is code
that is read; its ratio says nothing.)
`torch.compile` (default mode) takes the C++ compiler that CXX names, else g++; without one its
columns are empty. Run: python bench/minitorch_jit.py [ROW ...], rows by the start of their names.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import ctypes
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import minitorch_speed as speed
import numpy as np
import torch

import minitorch
from minitorch.graph import jit

Step = Callable[[], Any]
WARM = 3
COMPILER = shutil.which(os.environ.get("CXX", "g++"))


class Block:
    """A pre-norm block of a GPT, written for either library."""

    def __init__(self, lib: Any, width: int, heads: int) -> None:
        nn, self.f, self.heads = lib.nn, lib.nn.functional, heads
        self.norms = [nn.LayerNorm(width) for _ in range(2)]
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def __call__(self, x: Any) -> Any:
        count, length, width = x.shape
        split = self.qkv(self.norms[0](x)).reshape(count, length, 3, self.heads, -1)
        q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = self.f.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(count, length, width))
        return x + self.down(self.f.gelu(self.up(self.norms[1](x))))


def gpt(
    lib: Any, layers: int = 4, width: int = 128, count: int = 12, length: int = 64, words: int = 256
) -> Step:
    """Return a step of a GPT with AdamW and clipping."""
    nn = lib.nn
    places, table = nn.Embedding(length, width), nn.Embedding(words, width)
    blocks = [Block(lib, width, 4) for _ in range(layers)]
    norm, head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
    modules = [places, table, norm, head]
    modules += [m for b in blocks for m in (*b.norms, b.qkv, b.out, b.up, b.down)]
    params = [param for module in modules for param in module.parameters()]
    optimizer = lib.optim.AdamW(params, lr=1e-3)
    text = lib.tensor(np.random.default_rng(0).integers(0, words, (count, length + 1)))
    order = lib.arange(length)

    def step() -> Any:
        x = table(text[:, :-1]) + places(order)
        for block in blocks:
            x = block(x)
        logits = head(norm(x)).reshape(-1, words)
        loss = nn.functional.cross_entropy(logits, text[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        return loss

    return step


def elementwise(lib: Any, count: int = 1_000_000) -> Step:
    """Return relu(x * w + b) * s + tanh(y) of arguments: a trace fixes what is outside."""
    rng = np.random.default_rng(0)
    inputs = (lib.tensor(rng.standard_normal(count).astype(np.float32)) for _ in range(5))
    return partial(lambda x, w, b, s, y: (x * w + b).relu() * s + y.tanh(), *inputs)


ROWS: dict[str, tuple[int, Callable[[Any], Step]]] = {
    "MLP 64-32-10, batch 64": (300, lambda lib: speed.mlp(lib, (64, 32, 10), 64)),
    "MLP 784-200-100-10, batch 128": (100, lambda lib: speed.mlp(lib, (784, 200, 100, 10), 128)),
    "CNN on 8x8, batch 64": (60, speed.cnn),
    "transformer block, 8x32x64": (60, speed.transformer),
    "GPT, 4 layers, 12x64x128, AdamW": (15, gpt),
    "relu(x*w+b)*s + tanh(y), a million": (20, elementwise),
}


def of(step: Step) -> Step:
    """Return a step, compiled; it has no arguments but those of a `partial`."""
    function, inputs = (step.func, step.args) if isinstance(step, partial) else (step, ())
    return partial(jit(lambda *args: function(*args)), *inputs)


def seconds(step: Step) -> float:
    """Return how long a call takes."""
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


def times(steps: dict[str, Step], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each step's first two calls together, then of each later one."""
    found = {name: [seconds(step) + seconds(step)] for name, step in steps.items()}
    for k in range(WARM + rounds):
        for name, step in steps.items():
            took = seconds(step)
            if k >= WARM:
                found[name].append(took)
    return found


def gained(row: str, lib: str) -> int:
    """Return by how many KiB five steps raise the high-water mark of a process of their own."""
    code = f"import minitorch_jit; minitorch_jit.print_gain({row!r}, {lib!r})"
    run = [sys.executable, "-c", code]
    here = Path(__file__).resolve().parent
    return int(subprocess.run(run, cwd=here, check=True, capture_output=True).stdout)


def print_gain(row: str, lib: str) -> None:
    """Print what `gained` returns, inside that process: small steps come first, which load code."""
    make = ROWS[row][1]
    wrap = of if lib == "minitorch" else lambda step: step
    used = minitorch if lib == "minitorch" else torch
    torch.set_num_threads(1)
    small = wrap(speed.mlp(used, (64, 32, 10), 8))
    for _ in range(3):
        small()
    step = wrap(make(used))
    ctypes.CDLL(None).malloc_trim(0)  # what making inputs took goes back to the system
    Path("/proc/self/clear_refs").write_text("5")  # the mark is what is held now
    before = high_water()
    for _ in range(5):
        step()
    print(high_water() - before)


def high_water() -> int:
    """Return the most KiB that this program has held; `getrusage` also counts who started it."""
    return int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0])


def main(asked: list[str]) -> None:
    torch.set_num_threads(1)
    print(f"C++ compiler of torch.compile: {COMPILER or 'none'}")
    heads = ("eager", "jit", "compiled", "jit/compiled", "compile time", "memory")
    print(f"{'over PyTorch eager':<36}" + "".join(f"{head:>13}" for head in heads))
    for row, (rounds, make) in ROWS.items():
        if asked and not row.startswith(tuple(asked)):
            continue
        steps = {"torch": make(torch), "eager": make(minitorch), "jit": of(make(minitorch))}
        if COMPILER:
            steps["compiled"] = torch.compile(make(torch))
        found = times(steps, rounds)
        median = {name: statistics.median(taken[1:]) for name, taken in found.items()}
        cells = [median["eager"] / median["torch"], median["jit"] / median["torch"]]
        if COMPILER:
            cells += [median["compiled"] / median["torch"], median["jit"] / median["compiled"]]
            cells += [found["jit"][0] / found["compiled"][0]]
        else:
            cells += [float("nan")] * 3
        cells.append(gained(row, "minitorch") / max(gained(row, "torch"), 1))
        print(f"{row:<36}" + "".join(f"{cell:>13.2f}" for cell in cells), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

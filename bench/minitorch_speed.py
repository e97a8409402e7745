"""Minitorch beside PyTorch eager, with one thread and two, HIPS autograd and NumPy by hand.

The libraries take turns, each in a process of its own, so that load on the machine meets all of
them; the table holds the time of each over that of PyTorch. Run: python bench/minitorch_speed.py
With --device cuda both libraries compute on a CUDA device, and each step waits until it is done.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import itertools
import math
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional

import minitorch
import minitorch.nn.functional
import minitorch.nn.utils

Step = Callable[[], None]
LR = 0.01
PLACE = "cpu"
"""The device of minitorch and PyTorch: `--device`."""


def parameters(lib: Any, shapes: list[tuple[int, ...]]) -> list[Any]:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) / math.sqrt(s[-1]) for s in shapes]
    return [lib.tensor(a, requires_grad=True, device=PLACE) for a in arrays]


def training_step(lib: Any, params: list[Any], loss_of: Callable[[], Any]) -> Step:
    """Return a step: forward, backward, SGD. PyTorch steps by its own optimizer."""
    optimizer = (
        torch.optim.SGD(params, lr=LR) if lib is torch else minitorch.optim.SGD(params, lr=LR)
    )

    def step() -> None:
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()

    return step


def chain(lib: Any, length: int = 1000) -> Step:
    x = lib.tensor(1.0, requires_grad=True, device=PLACE)

    def step() -> None:
        y = x
        for _ in range(length // 4):
            y = y * 1.0001
            y = y + x
            y = y.sin()
            y = y * x
        y.backward()
        x.grad = None

    return step


def chain_autograd(length: int = 1000) -> Step:
    import autograd
    import autograd.numpy as anp

    def function(x: Any) -> Any:
        y = x
        for _ in range(length // 4):
            y = y * 1.0001
            y = y + x
            y = anp.sin(y)
            y = y * x
        return y

    gradient = autograd.grad(function)
    return lambda: gradient(1.0)


def batch(lib: Any, sizes: tuple[int, ...], count: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((count, sizes[0])).astype(np.float32)
    classes = rng.integers(0, sizes[-1], count)
    return lib.tensor(x, device=PLACE), lib.tensor(classes, device=PLACE)


def mlp(lib: Any, sizes: tuple[int, ...], count: int) -> Step:
    functional = lib.nn.functional
    shapes = [s for i, o in itertools.pairwise(sizes) for s in ((o, i), (o,))]
    params = parameters(lib, shapes)
    x, classes = batch(lib, sizes, count)

    def loss() -> Any:
        h = x
        for k in range(0, len(params), 2):
            h = functional.linear(h, params[k], params[k + 1])
            h = functional.relu(h) if k + 2 < len(params) else h
        return functional.cross_entropy(h, classes)

    return training_step(lib, params, loss)


def mlp_autograd(sizes: tuple[int, ...], count: int) -> Step:
    import autograd
    import autograd.numpy as anp

    rng = np.random.default_rng(0)
    params = [
        rng.standard_normal(s).astype(np.float32) / math.sqrt(s[0])
        for i, o in itertools.pairwise(sizes)
        for s in ((i, o), (o,))
    ]
    x = rng.standard_normal((count, sizes[0])).astype(np.float32)
    classes, rows = rng.integers(0, sizes[-1], count), np.arange(count)

    def loss(params: Any) -> Any:
        h = x
        for k in range(0, len(params), 2):
            h = anp.dot(h, params[k]) + params[k + 1]
            h = anp.maximum(h, 0) if k + 2 < len(params) else h
        away = h - anp.max(h, axis=1, keepdims=True)
        return anp.mean(anp.log(anp.sum(anp.exp(away), axis=1)) - away[rows, classes])

    gradient = autograd.grad(loss)

    def step() -> None:
        for param, share in zip(params, gradient(params), strict=True):
            param -= LR * share

    return step


def mlp_by_hand(sizes: tuple[int, ...], count: int) -> Step:
    rng = np.random.default_rng(0)
    pairs = list(itertools.pairwise(sizes))
    weights = [rng.standard_normal(s).astype(np.float32) / math.sqrt(s[0]) for s in pairs]
    biases = [np.zeros(o, np.float32) for _, o in pairs]
    x = rng.standard_normal((count, sizes[0])).astype(np.float32)
    classes, rows = rng.integers(0, sizes[-1], count), np.arange(count)

    def step() -> None:
        layers = [x]
        for k, (w, b) in enumerate(zip(weights, biases, strict=True)):
            h = layers[-1] @ w + b
            layers.append(np.maximum(h, 0) if k + 1 < len(weights) else h)
        g = np.exp(layers[-1] - layers[-1].max(1, keepdims=True))
        g /= g.sum(1, keepdims=True)
        g[rows, classes] -= 1
        g /= np.float32(count)
        for k in reversed(range(len(weights))):
            below = g @ weights[k].T * (layers[k] > 0) if k else g
            weights[k] -= LR * (layers[k].T @ g)
            biases[k] -= LR * g.sum(0)
            g = below

    return step


def cnn(lib: Any) -> Step:
    functional = lib.nn.functional
    shapes = [(16, 1, 3, 3), (16,), (32, 16, 3, 3), (32,), (10, 128), (10,)]
    params = parameters(lib, shapes)
    w1, b1, w2, b2, w3, b3 = params
    x, classes = batch(lib, (64, 10), 64)
    images = x.reshape(64, 1, 8, 8)

    def loss() -> Any:
        h = functional.relu(functional.conv2d(images, w1, b1, padding=1))
        h = functional.relu(functional.conv2d(functional.max_pool2d(h, 2), w2, b2, padding=1))
        h = functional.max_pool2d(h, 2).flatten(1)
        return functional.cross_entropy(functional.linear(h, w3, b3), classes)

    return training_step(lib, params, loss)


MOBILE = [(32, 3, 2, 1), (32, 3, 1, 32), (64, 1, 1, 1), (64, 3, 2, 64), (128, 1, 1, 1)]
STRIDED = [(32, 3, 2, 1), (64, 3, 2, 1), (128, 3, 2, 1)]
"""Layers: channels, size of the window, stride, groups."""


def layers(lib: Any, how: list[tuple[int, int, int, int]], count: int, size: int = 56) -> Step:
    """Return a step of convolutions with relu, the mean of their places and a linear layer."""
    f, widths = lib.nn.functional, [3, *(out for out, *_ in how)]
    shapes: list[tuple[int, ...]] = [
        (out, into // groups, k, k)
        for into, (out, k, _, groups) in zip(widths[:-1], how, strict=True)
    ]
    params = parameters(lib, [*shapes, *((out,) for out in widths[1:]), (10, widths[-1])])
    images, classes = batch(lib, (3 * size**2, 10), count)

    def loss() -> Any:
        h = images.reshape(count, 3, size, size)
        for (_, k, stride, groups), w, b in zip(how, params, params[len(how) :], strict=False):
            h = f.relu(f.conv2d(h, w, b, stride, k // 2, groups=groups))
        return f.cross_entropy(f.linear(h.mean((2, 3)), params[-1]), classes)

    return training_step(lib, params, loss)


def transformer(
    lib: Any, width: int = 64, heads: int = 4, length: int = 32, count: int = 8
) -> Step:
    """Return a step of one pre-norm block: attention and a GELU layer four times as wide."""
    f = lib.nn.functional
    d = width
    shapes = [(3 * d, d), (3 * d,), (d, d), (d,), (4 * d, d), (4 * d,), (d, 4 * d), (d,)]
    params = parameters(lib, [*shapes, (d,), (d,), (d,), (d,)])
    qkv, b_qkv, out, b_out, w1, b1, w2, b2, g1, h1, g2, h2 = params
    drawn = np.random.default_rng(2).standard_normal((count, length, d)).astype(np.float32)
    x = lib.tensor(drawn, device=PLACE)

    def loss() -> Any:
        normed = f.layer_norm(x, (d,), g1, h1)
        split = f.linear(normed, qkv, b_qkv).reshape(count, length, 3, heads, d // heads)
        q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = f.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = x + f.linear(mixed.transpose(1, 2).reshape(count, length, d), out, b_out)
        wide = f.gelu(f.linear(f.layer_norm(y, (d,), g2, h2), w1, b1))
        y = y + f.linear(wide, w2, b2)
        return (y * y).mean()

    return training_step(lib, params, loss)


def recurrent(
    lib: Any, kind: str, width: int = 200, words: int = 1000, count: int = 20, length: int = 35
) -> Step:
    """Return a step of a language model with two recurrent layers, dropout and clipping."""
    nn = lib.nn
    embedding, decoder = nn.Embedding(words, width), nn.Linear(width, words)
    layers = getattr(nn, kind)(width, width, 2, dropout=0.2)
    modules = [module.to(PLACE) for module in (embedding, layers, decoder)]
    params = [param for module in modules for param in module.parameters()]
    rng = np.random.default_rng(3)
    text = lib.tensor(rng.integers(0, words, (length + 1, count)), device=PLACE)
    first = lib.zeros(2, count, width, device=PLACE)
    state: Any = (first, first) if kind == "LSTM" else first
    optimizer = lib.optim.SGD(params, lr=LR)

    def step() -> None:
        nonlocal state
        optimizer.zero_grad()
        y, last = layers(nn.functional.dropout(embedding(text[:-1]), 0.2), state)
        state = tuple(s.detach() for s in last) if kind == "LSTM" else last.detach()
        logits = decoder(nn.functional.dropout(y, 0.2)).reshape(-1, words)
        nn.functional.cross_entropy(logits, text[1:].reshape(-1)).backward()
        nn.utils.clip_grad_norm_(params, 0.25)
        optimizer.step()

    return step


class _GPT:
    """A GPT: embeddings, pre-norm blocks, a norm, a head; functions alone, on parameters."""

    def __init__(
        self, lib: Any, layers: int = 4, width: int = 128, heads: int = 4, words: int = 256,
        length: int = 64,
    ) -> None:  # fmt: skip
        d = self.width = width
        self.f, self.lib, self.layers, self.heads = lib.nn.functional, lib, layers, heads
        block = [(3 * d, d), (3 * d,), (d, d), (d,), (4 * d, d), (4 * d,), (d, 4 * d), (d,)]
        block += [(d,)] * 4
        self.params = parameters(lib, [(words, d), (length, d), (words, d), (d,), (d,)] +
                                 block * layers)  # fmt: skip
        self.places = lib.arange(length, device=PLACE)

    def logits(self, text: Any, cache: Any = None, start: int = 0) -> Any:
        """Return (count, length, words); with a cache the keys before `start` are read from it."""
        f, d, heads = self.f, self.width, self.heads
        count, length = text.shape
        words, places, head, g, h = self.params[:5]
        x = f.embedding(text, words) + f.embedding(self.places[start : start + length], places)
        for k in range(self.layers):
            qkv, b_qkv, out, b_out, w1, b1, w2, b2, g1, h1, g2, h2 = self.params[5 + 12 * k :][:12]
            split = f.linear(f.layer_norm(x, (d,), g1, h1), qkv, b_qkv)
            split = split.reshape(count, length, 3, heads, d // heads)
            q, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
            if cache is not None:
                keys, values = cache[k]
                keys[:, :, start : start + length] = key
                values[:, :, start : start + length] = value
                key, value = keys[:, :, : start + length], values[:, :, : start + length]
            mixed = f.scaled_dot_product_attention(q, key, value, is_causal=not start)
            x = x + f.linear(mixed.transpose(1, 2).reshape(count, length, d), out, b_out)
            wide = f.gelu(f.linear(f.layer_norm(x, (d,), g2, h2), w1, b1))
            x = x + f.linear(wide, w2, b2)
        return f.linear(f.layer_norm(x, (d,), g, h), head)


def gpt(lib: Any, count: int = 12, length: int = 64, words: int = 256) -> Step:
    """Return a step of a GPT (4 layers, 128 wide) with AdamW and clipping."""
    model = _GPT(lib, words=words, length=length)
    rng = np.random.default_rng(4)
    text = lib.tensor(rng.integers(0, words, (count, length + 1)), device=PLACE)
    optimizer = lib.optim.AdamW(model.params, lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        logits = model.logits(text[:, :-1]).reshape(-1, words)
        model.f.cross_entropy(logits, text[:, 1:].reshape(-1)).backward()
        lib.nn.utils.clip_grad_norm_(model.params, 1.0)
        optimizer.step()

    return step


def generation(lib: Any, new: int = 200, prompt: int = 16, heads: int = 4) -> Step:
    """Return the generation of `new` tokens: keys and values in a cache that views write into."""
    length = prompt + new
    model = _GPT(lib, length=length, heads=heads)
    shape = (1, heads, length, model.width // heads)
    cache = [[lib.zeros(shape, device=PLACE) for _ in range(2)] for _ in range(model.layers)]
    first = lib.tensor(np.random.default_rng(5).integers(0, 256, (1, prompt)), device=PLACE)

    def step() -> None:
        with lib.no_grad():
            text, start = first, 0
            for _ in range(new):
                logits = model.logits(text, cache, start)
                start += text.shape[1]
                text = logits[:, -1].argmax(-1, True)

    return step


def vocabulary(lib: Any, words: int = 50_000, width: int = 64, count: int = 128) -> Step:
    """Return a step of embedding, head and cross-entropy over 50,000 classes."""
    f = lib.nn.functional
    table, head = params = parameters(lib, [(words, width), (words, width)])
    rng = np.random.default_rng(6)
    text, target = (lib.tensor(rng.integers(0, words, count), device=PLACE) for _ in range(2))
    return training_step(
        lib, params, lambda: f.cross_entropy(f.linear(f.embedding(text, table), head), target)
    )


def attention(
    lib: Any, length: int, causal: bool = True, count: int = 2, heads: int = 4, size: int = 32
) -> Step:
    """Return attention alone, forward and backward."""
    rng = np.random.default_rng(7)
    shape = (count, heads, length, size)
    q, k, v, g = (
        lib.tensor(rng.standard_normal(shape).astype(np.float32), device=PLACE) for _ in range(4)
    )
    params = [x.requires_grad_() for x in (q, k, v)]

    def step() -> None:
        for param in params:
            param.grad = None
        lib.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal).backward(g)

    return step


def medians(steps: dict[str, Step], rounds: int) -> dict[str, float]:
    """Return the median time of each step, run in turn."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for i in range(rounds + 3):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if PLACE != "cpu":
                torch.cuda.synchronize()
            if i >= 3:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


SMALL, LARGE = (64, 32, 10), (784, 200, 100, 10)
ROWS: dict[str, tuple[float, int, Callable[[Any], Step]]] = {
    "chain of 1,000 scalar operators": (1.0, 8, chain),
    "MLP 64-32-10, batch 64": (0.85, 60, lambda lib: mlp(lib, SMALL, 64)),
    "MLP 784-200-100-10, batch 128": (0.85, 20, lambda lib: mlp(lib, LARGE, 128)),
    "CNN on 8x8, batch 64": (0.95, 20, cnn),
    "MobileNet's blocks, 8x3x56x56": (1.0, 10, lambda lib: layers(lib, MOBILE, 8)),
    "MobileNet's blocks, one image": (1.0, 20, lambda lib: layers(lib, MOBILE, 1)),
    "convolutions, stride 2, 8x3x56x56": (1.0, 10, lambda lib: layers(lib, STRIDED, 8)),
    "transformer block, 8x32x64": (1.0, 20, transformer),
    "LSTM language model, 35x20x200": (0.9, 5, lambda lib: recurrent(lib, "LSTM")),
    "GRU language model, 35x20x200": (0.9, 5, lambda lib: recurrent(lib, "GRU")),
    "RNN language model, 35x20x200": (0.9, 5, lambda lib: recurrent(lib, "RNN")),
    "GPT, 4 layers, 12x64x128": (1.0, 5, gpt),
    "generation of 200 tokens, cached": (1.0, 2, generation),
    "embedding, loss of 50,000 classes": (1.0, 5, vocabulary),
    "attention, 128 tokens, causal": (1.0, 20, lambda lib: attention(lib, 128)),
    "attention, 256 tokens, causal": (1.0, 10, lambda lib: attention(lib, 256)),
    "attention, 1024 tokens, causal": (1.0, 3, lambda lib: attention(lib, 1024)),
    "attention, 1024 tokens": (1.0, 3, lambda lib: attention(lib, 1024, False)),
}
"""For each row the goal on one thread, the steps of a run, and what makes a step of a library."""

OTHERS: dict[str, dict[str, Callable[[], Step]]] = {
    "chain of 1,000 scalar operators": {"autograd": chain_autograd},
    "MLP 64-32-10, batch 64": {
        "autograd": lambda: mlp_autograd(SMALL, 64), "by hand": lambda: mlp_by_hand(SMALL, 64)},
    "MLP 784-200-100-10, batch 128": {
        "autograd": lambda: mlp_autograd(LARGE, 128), "by hand": lambda: mlp_by_hand(LARGE, 128)},
}  # fmt: skip
"""What else is compared with PyTorch on one thread."""
RUNS = 5


def answer(title: str, side: str) -> None:
    """Run a row's steps for each line that is read; write the median of their times."""
    _, rounds, make = ROWS[title]
    libraries = {"minitorch": minitorch, "torch": torch}
    step = make(libraries[side]) if side in libraries else OTHERS[title][side]()
    for _ in sys.stdin:
        print(medians({side: step}, rounds)[side], flush=True)


def times_of(title: str) -> dict[tuple[str, int], list[float]]:
    """Return the times of each side with each number of threads, a number for each run.

    Every side is a process of its own, and they take turns: a pool that waits for work in the
    process of another would take its core.
    """
    threads = (1, 2) if PLACE == "cpu" else (1,)
    sides = [(library, count) for count in threads for library in ("minitorch", "torch")]
    sides += [(other, 1) for other in OTHERS.get(title, {}) if PLACE == "cpu"]
    processes = {}
    for side, count in sides:
        options = ["--side", title, side, "--threads", str(count), "--device", PLACE]
        wanted = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(count))
        processes[side, count] = subprocess.Popen(
            [sys.executable, __file__, *options], text=True, env=os.environ | wanted,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
    times: dict[tuple[str, int], list[float]] = {key: [] for key in processes}
    for _ in range(RUNS):
        for key, process in processes.items():
            assert process.stdin is not None and process.stdout is not None
            print(file=process.stdin, flush=True)
            times[key].append(float(process.stdout.readline()))
    for process in processes.values():
        process.communicate()
    return times


def compared(ours: list[float], theirs: list[float]) -> str:
    """Return the median ratio of runs, their least and greatest; ~ where they do not decide."""
    ratios = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    undecided = "~" if ratios[0] < 1 < ratios[-1] else " "
    return f"{statistics.median(ratios):.2f}{undecided}({ratios[0]:.2f}-{ratios[-1]:.2f})"


def print_speeds() -> None:
    """Print the table of times over PyTorch's, with one thread and with two."""
    head = ("one thread", "goal", "two threads", "two over one", "autograd", "by hand")
    print(f"{'times PyTorch eager':<34}" + "".join(f"{name:>19}" for name in head))
    for title, (goal, *_) in ROWS.items():
        times = times_of(title)
        one = times["minitorch", 1]
        cells = [compared(one, times["torch", 1]), f"{goal:.2f}", "", ""]
        if ("torch", 2) in times:
            two = times["minitorch", 2]
            cells[2:] = compared(two, times["torch", 2]), compared(two, one)
        for other in ("autograd", "by hand"):
            known = (other, 1) in times
            cells.append(compared(times[other, 1], times["torch", 1]) if known else "")
        print(f"{title:<34}" + "".join(f"{cell:>19}" for cell in cells), flush=True)
    print(f"medians of {RUNS} runs (least-greatest); ~: below 1 in some runs and above in others")


PEAKS: dict[str, Callable[[Any], Step]] = {
    "MLP 784-200-100-10, batch 128": lambda lib: mlp(lib, (784, 200, 100, 10), 128),
    "CNN on 8x8, batch 64": cnn,
    "LSTM language model, 35x20x200": lambda lib: recurrent(lib, "LSTM"),
    "GPT, 4 layers, 12x64x128": gpt,
    "embedding, loss of 50,000 classes": vocabulary,
    "attention, 1024 tokens, causal": lambda lib: attention(lib, 1024),
}
"""Models whose peak memory is compared."""


def peak_kib() -> int:
    """Return this process's high-water mark; `getrusage` has its parent's, where that is higher."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def peak_of(name: str, library: str) -> int:
    """Return by how many KiB five steps raise this process's high-water mark, data included."""
    lib = minitorch if library == "minitorch" else torch
    warm = mlp(lib, (64, 32, 10), 64)  # what a first backward loads is no model's
    warm()
    before = peak_kib()
    step = PEAKS[name](lib)
    for _ in range(5):
        step()
    return peak_kib() - before


def print_peaks() -> None:
    """Print the peak of each model over PyTorch's, each in a child of its own."""
    print(f"{'peak bytes, times PyTorch':<34}{'minitorch':>10}{'MiB':>8}")
    for name in PEAKS:
        kib = {}
        for library in ("minitorch", "torch"):
            command = [sys.executable, __file__, "--peak", name, library]
            child = subprocess.run(command, check=True, capture_output=True, text=True)
            kib[library] = int(child.stdout)
        ratio = kib["minitorch"] / max(kib["torch"], 1)
        print(f"{name:<34}{ratio:>10.2f}{kib['minitorch'] / 1024:>8.1f}", flush=True)


def import_over_numpy(rounds: int = 9) -> float:
    """Return the median of how many milliseconds of CPU `import minitorch` takes over NumPy's."""

    def seconds(module: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return 1e3 * statistics.median(seconds("minitorch") - seconds("numpy") for _ in range(rounds))


def main() -> None:
    global PLACE
    parser = argparse.ArgumentParser(description="Times of training steps over PyTorch's.")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:1")
    parser.add_argument("--peak", nargs=2, help="print the peak KiB of a model with a library")
    parser.add_argument("--side", nargs=2, help="run a row's step with a library when asked to")
    parser.add_argument("--threads", type=int, default=1, help="of --side")
    options = parser.parse_args()
    PLACE = str(minitorch.device(options.device))
    torch.set_num_threads(options.threads)
    minitorch.set_num_threads(options.threads)
    if options.peak:
        print(peak_of(*options.peak))
        return
    if options.side:
        answer(*options.side)
        return
    print_speeds()
    if PLACE == "cpu":
        print_peaks()
    print(f"import minitorch: {import_over_numpy():.0f} ms of CPU over NumPy (goal 150)")


if __name__ == "__main__":
    main()

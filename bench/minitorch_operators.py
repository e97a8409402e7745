"""Operators beside PyTorch's, each with its gradient: float32 of a usual size.

A ratio is the least time there and back over PyTorch's, of integers only there; both take turns in
one process, of several runs, before which a pool that waits for work has gone to sleep. Matrices
are 256 x 256, images 8 x 16 x 32 x 32.
Run: [OMP_NUM_THREADS=N] python bench/minitorch_operators.py [NAME...]
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", os.environ["OMP_NUM_THREADS"])

import math
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional

import minitorch
import minitorch.nn.functional

Case = tuple[Callable[..., Any], tuple[Any, ...]]
SIZE, SECONDS, SLOWEST, RUNS = 256, 0.03, 12, 5
THREADS = int(os.environ["OMP_NUM_THREADS"])
SPIN_S = 0.005
"""How long a pool may wait for work before it sleeps."""


def inputs() -> dict[str, Any]:
    """Return the arrays that operators take, the same for both libraries."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((SIZE, SIZE)).astype(np.float32) for _ in range(2))
    return {
        "x": x,
        "y": y,
        "above": np.abs(x) + np.float32(0.1),
        "near one": np.exp(x / 16),
        "part": np.clip(np.abs(x), 0.01, 0.99),
        "vector": y[0],
        "mask": x > 0.3,
        "places": rng.integers(0, SIZE, (SIZE, SIZE)),
        "rows": rng.integers(0, SIZE, 2 * SIZE),
        "tall": np.concatenate([x, y]),
        "image": rng.standard_normal((8, 16, 32, 32)).astype(np.float32),
        "filters": rng.standard_normal((16, 16, 3, 3)).astype(np.float32),
        "channels": rng.standard_normal(16).astype(np.float32),
    }


def families(array: dict[str, Any]) -> dict[str, dict[str, Case]]:
    """Return the cases: `f(library, functional, *values)`, and the values."""
    x, y, above, part = (array[k] for k in ("x", "y", "above", "part"))
    image, places, rows = array["image"], array["places"], array["rows"]

    def named(names: str, *values: Any) -> dict[str, Case]:
        return {n: (lambda lib, f, *v, n=n: getattr(lib, n)(*v), values) for n in names.split()}

    def functions(names: str, *values: Any) -> dict[str, Case]:
        return {n: (lambda lib, f, *v, n=n: getattr(f, n)(*v), values) for n in names.split()}

    def along(names: str, values: Any) -> dict[str, Case]:
        return {
            f"{n} {d}": (lambda lib, f, v, n=n, d=d: getattr(lib, n)(v, dim=d), (values,))
            for n in names.split()
            for d in (0, 1)
        }

    return {
        "one element": named(
            "exp log sqrt rsqrt sin tanh sigmoid erf expm1 log1p abs neg square reciprocal", above
        ),
        "two": {
            **named("add sub mul div pow maximum minimum atan2", above, above),
            **named("fmod remainder", x, above),
        },
        "broadcast": named("add mul div", x, array["vector"]),
        "activations": functions(
            "relu leaky_relu elu selu silu gelu relu6 hardtanh softplus mish hardswish logsigmoid",
            x,
        ),
        "choices": {
            "where": (lambda lib, f, m, a, b: lib.where(m, a, b), (array["mask"], x, y)),
            "clamp": (lambda lib, f, a: a.clamp(-0.5, 0.5), (x,)),
            "masked_fill": (lambda lib, f, a, m: a.masked_fill(m, -1.0), (x, array["mask"])),
            "tril": (lambda lib, f, a: lib.tril(a), (x,)),
        },
        "reductions": {
            **along("sum mean var std amax norm logsumexp cumsum cumprod", above),
            **along("prod", array["near one"]),
            "cummax 1": (lambda lib, f, a: lib.cummax(a, 1)[0], (x,)),
            "max 1": (lambda lib, f, a: a.max(1)[0], (x,)),
            "median 1": (lambda lib, f, a: a.median(1)[0], (x,)),
            "topk": (lambda lib, f, a: a.topk(8)[0], (x,)),
            "softmax": (lambda lib, f, a: f.softmax(a, 1), (x,)),
            "log_softmax": (lambda lib, f, a: f.log_softmax(a, 1), (x,)),
        },
        "losses": {
            **functions("mse_loss l1_loss smooth_l1_loss huber_loss", x, above),
            **functions("binary_cross_entropy", part, part),
            **functions("binary_cross_entropy_with_logits", x, part),
            **functions("cross_entropy nll_loss", x, places[0]),
        },
        "indices": {
            "rows": (lambda lib, f, a, i: a[i], (x, rows)),
            "embedding": (lambda lib, f, a, i: f.embedding(i, a), (x, rows)),
            "gather": (lambda lib, f, a, i: lib.gather(a, 1, i), (x, places)),
            "scatter": (lambda lib, f, a, i, b: a.scatter(1, i, b), (x, places, y)),
            "scatter_add": (lambda lib, f, a, i, b: a.scatter_add(0, i, b), (x, places, y)),
            "index_add": (lambda lib, f, a, i, b: a.index_add(0, i, b), (x, rows, array["tall"])),
            "index_select 0": (lambda lib, f, a, i: a.index_select(0, i), (x, rows)),
            "index_select 1": (lambda lib, f, a, i: a.index_select(1, i), (x, rows)),
            "one_hot": (lambda lib, f, i: f.one_hot(i, SIZE), (rows,)),
            "slice": (lambda lib, f, a: a[::2, 1:-1], (x,)),
        },
        "movement": {
            "cat": (lambda lib, f, a, b: lib.cat([a, b], 1), (x, y)),
            "stack": (lambda lib, f, a, b: lib.stack([a, b], 1), (x, y)),
            "unbind": (lambda lib, f, a: lib.stack(a.unbind(1), 1), (x,)),
            "split": (lambda lib, f, a: lib.cat(a.split(16, 1), 0), (x,)),
            "turned": (lambda lib, f, a: a.t().reshape(-1), (x,)),
            "permute": (lambda lib, f, a: a.permute(0, 2, 3, 1).contiguous(), (image,)),
            "pad": (lambda lib, f, a: f.pad(a, (1, 1, 1, 1)), (image,)),
            "pad, reflect": (lambda lib, f, a: f.pad(a, (1, 1, 1, 1), "reflect"), (image,)),
        },
        "products": {
            **named("matmul", x, y),
            "linear": (lambda lib, f, a, w, b: f.linear(a, w, b), (x, y, array["vector"])),
            "bmm": (lambda lib, f, a, b: a.reshape(-1, 16, 16) @ b.reshape(-1, 16, 16), (x, y)),
            "det": (lambda lib, f, a: lib.linalg.det(a.reshape(-1, 16, 16)), (x,)),
            "cosine": (lambda lib, f, a, b: f.cosine_similarity(a, b), (x, y)),
            "einsum": (lambda lib, f, a, b: lib.einsum("ij,kj->ik", a, b), (x, y)),
        },
        "images": {
            "conv2d": (lambda lib, f, a, w: f.conv2d(a, w, padding=1), (image, array["filters"])),
            "conv2d, stride 2": (
                lambda lib, f, a, w: f.conv2d(a, w, stride=2, padding=1),
                (image, array["filters"]),
            ),
            "max_pool2d": (lambda lib, f, a: f.max_pool2d(a, 2), (image,)),
            "avg_pool2d": (lambda lib, f, a: f.avg_pool2d(a, 2), (image,)),
            "adaptive_avg_pool2d": (lambda lib, f, a: f.adaptive_avg_pool2d(a, 1), (image,)),
            "adaptive, uneven": (lambda lib, f, a: f.adaptive_avg_pool2d(a, 5), (image,)),
            "interpolate": (lambda lib, f, a: f.interpolate(a, scale_factor=2), (image,)),
            "batch_norm": (
                lambda lib, f, a, w: f.batch_norm(a, None, None, w, w, True),
                (image, array["channels"]),
            ),
            "batch_norm, evaluated": (
                lambda lib, f, a, w, m, v: f.batch_norm(a, m.detach(), v.detach(), w, w),
                (image, array["channels"], array["channels"], array["channels"] ** 2 + 1),
            ),
            "group_norm": (
                lambda lib, f, a, w: f.group_norm(a, 4, w, w),
                (image, array["channels"]),
            ),
            "layer_norm": (lambda lib, f, a: f.layer_norm(a, (SIZE,)), (x,)),
        },
    }


def side(library: Any, functional: Any, case: Case) -> Callable[[], None]:
    """Return what computes an operator and its gradient once."""
    function, arrays = case
    values = [library.tensor(a) for a in arrays]
    floats = [v for v in values if v.dtype == library.float32]
    for value in floats:
        value.requires_grad_(True)
    shape = tuple(function(library, functional, *values).shape)
    gradient = library.tensor(np.random.default_rng(1).standard_normal(shape).astype(np.float32))

    def run() -> None:
        result = function(library, functional, *values)
        if floats:
            result.backward(gradient)
        for value in floats:
            value.grad = None

    return run


def ratio(case: Case) -> float:
    """Return the least time of ours over PyTorch's."""
    ours = side(minitorch, minitorch.nn.functional, case)
    theirs = side(torch, torch.nn.functional, case)
    least = [math.inf, math.inf]
    stop, turns = time.perf_counter() + 2 * SECONDS, 0
    while turns < 7 or time.perf_counter() < stop:
        for i, run in enumerate((ours, theirs)):
            time.sleep(SPIN_S * (THREADS > 1))
            for _ in range(RUNS):
                start = time.perf_counter()
                run()
                least[i] = min(least[i], time.perf_counter() - start)
        turns += 1
    return least[0] / least[1]


def mean_of(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(THREADS)
    minitorch.set_num_threads(THREADS)
    ratios: dict[str, float] = {}
    print(f"{'operators':16} {'mean of PyTorch':>16}   slowest")
    for family, cases in families(inputs()).items():
        found = {n: ratio(case) for n, case in cases.items() if not sys.argv[1:] or n in sys.argv}
        if found:
            mean, name = mean_of(list(found.values())), max(found, key=found.__getitem__)
            print(f"{family:16} {mean:16.2f}   {name} {found[name]:.2f}")
            ratios |= {f"{family}: {name}": value for name, value in found.items()}
    if ratios:
        print(f"{'all':16} {mean_of(list(ratios.values())):16.2f}   of {len(ratios)}")
    for name in sorted(ratios, key=ratios.__getitem__, reverse=True)[:SLOWEST]:
        print(f"  {ratios[name]:5.2f}  {name}")


if __name__ == "__main__":
    main()

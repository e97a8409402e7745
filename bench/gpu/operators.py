"""Single operators and training steps of minitorch on a device, beside PyTorch's."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import DEVICE, Step, attempt, compare

SMALL = DEVICE == "cpu"  # a stand-in shows that it runs, not how fast
N = 256 if SMALL else 4096
OPERATORS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda lib, x, y: x + y,
    "matmul": lambda lib, x, y: x @ y,
    "tanh": lambda lib, x, y: lib.tanh(x),
    "sum of rows": lambda lib, x, y: x.sum(1),
    "softmax": lambda lib, x, y: lib.nn.functional.softmax(x, dim=1),
    "layer_norm": lambda lib, x, y: lib.nn.functional.layer_norm(x, (N,)),
    "transpose, contiguous": lambda lib, x, y: x.t().contiguous(),
}


def operator(of: Callable[[Any, Any, Any], Any]) -> tuple[Step, Step]:
    import minitorch

    draw = np.random.default_rng(0)
    a, b = (draw.standard_normal((N, N)).astype(np.float32) for _ in range(2))

    def step(lib: Any) -> Step:
        x, y = lib.tensor(a, device=DEVICE), lib.tensor(b, device=DEVICE)
        return lambda: of(lib, x, y)

    return step(minitorch), step(torch)


def training(name: str) -> tuple[Step, Step]:
    import minitorch

    sys.path.insert(0, str(Path(__file__).parent.parent))
    import minitorch_speed as speed

    speed.PLACE = DEVICE
    makers: dict[str, Callable[[Any], Step]] = {
        "chain": speed.chain,
        "MLP": lambda lib: speed.mlp(lib, (784, 200, 100, 10), 128),
        "wide MLP": lambda lib: speed.mlp(lib, (N,) * 4, N // 4),
        "CNN": speed.cnn,
        "transformer block": speed.transformer,
    }
    return makers[name](minitorch), makers[name](torch)


def main() -> None:
    for name, of in OPERATORS.items():
        compare(f"{name}, {N} x {N}", lambda of=of: operator(of))
    for name in ("chain", "MLP", "wide MLP", "CNN", "transformer block"):
        compare(f"training step: {name}", lambda name=name: training(name))


if __name__ == "__main__":
    with attempt("operators"):
        main()

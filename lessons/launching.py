"""The same small operators as many calls, as one compiled call, and on a GPU as one launch."""

from collections.abc import Callable

import numpy as np

import minitorch as mt
import minitorch.graph as tf
from minitorch.arrays import Array


def many(v: mt.Tensor) -> mt.Tensor:
    """Return v after 200 small operators, elementwise."""
    for _ in range(100):
        v = v * 1.01 + 0.01
    return v


def ways_to_launch(size: int, device: str) -> dict[str, Callable[[], object]]:
    """Return {name: a function that runs `many` on so many elements}."""
    array = np.ones(size, np.float32)
    eager = mt.tensor(array, device=device)
    tf.reset_default_graph()
    fed = tf.placeholder(tf.float32, (None,))
    node = many(fed)
    planned = tf.Session(device=device, optimize=False)
    compiled = tf.Session(device=device)
    ways: dict[str, Callable[[], object]] = {
        "200 calls": lambda: many(eager),
        "a plan of 200": lambda: planned.run(node, {fed: array}),
        "one compiled call": lambda: compiled.run(node, {fed: array}),
    }
    if device == "cuda":
        ways["200 kernels, captured"] = captured(size)
    return ways


def captured(size: int) -> Callable[[], Array]:
    """Return a function that launches the 200 kernels of a GPU at once, as a CUDA graph."""
    import torch

    x = torch.ones(size, device="cuda")
    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):  # kernels are loaded and memory is taken before the capture
        many(x)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = many(x)

    def replay() -> Array:
        graph.replay()
        torch.cuda.synchronize()
        return found

    return replay

"""Programs that lab 04 runs: as lectures and papers print them, and 200 small operators in a row.

A printed program needs its imports and its data, which stand in the names that it is run among.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

import minitorch as mt
import minitorch.graph as tf
from minitorch.arrays.library import Array

# Abadi et al., OSDI 2016, Figure 1; the data comes from an iterator.
TWO_PHASES = """
# 1. Construct a graph representing the model.
x = tf.placeholder(tf.float32, [BATCH_SIZE, 784])
y = tf.placeholder(tf.float32, [BATCH_SIZE, 10])

W_1 = tf.Variable(tf.random_uniform([784, 100]))
b_1 = tf.Variable(tf.zeros([100]))
layer_1 = tf.nn.relu(tf.matmul(x, W_1) + b_1)

W_2 = tf.Variable(tf.random_uniform([100, 10]))
b_2 = tf.Variable(tf.zeros([10]))
layer_2 = tf.matmul(layer_1, W_2) + b_2

# 2. Add nodes that represent the optimization algorithm.
loss = tf.nn.softmax_cross_entropy_with_logits(layer_2, y)
train_op = tf.train.AdagradOptimizer(0.01).minimize(loss)

# 3. Execute the graph on batches of input data.
with tf.Session() as sess:
    sess.run(tf.initialize_all_variables())
    for step in range(NUM_STEPS):
        x_data, y_data = next(batches)
        sess.run(train_op, {x: x_data, y: y_data})
"""

# As lectures show define-and-compile, in the manner of Theano and MXNet.
DECLARED = """
A = Variable('A')
B = Variable('B')
C = B * A
D = C + Constant(1)
# compiles the function
f = compile(D)
d = f(A=np.ones(10), B=np.ones(10) * 2)
"""


def run_two_phases(data: Iterable[tuple[Array, Array]], steps: int) -> list[float]:
    """Return the mean loss before each step of the program in two phases on (x, y) of `data`."""
    losses = []

    def batches() -> Iterator[tuple[Array, Array]]:
        for x, y in data:
            loss = names["sess"].run(names["loss"], {names["x"]: x, names["y"]: y})
            losses.append(float(loss.mean()))
            yield x, y

    names: dict[str, Any] = {"tf": tf, "BATCH_SIZE": None, "NUM_STEPS": steps, "batches": batches()}
    exec(TWO_PHASES, names)
    return losses


def run_declared() -> Array:
    """Return the d of the program that is declared and compiled."""
    names: dict[str, Any] = {"np": np, "compile": tf.compile}
    names |= {"Variable": tf.Variable, "Constant": tf.Constant}
    exec(DECLARED, names)
    d: Array = names["d"]
    return d


def many_operators(v: Any) -> Any:
    """Return v, a tensor or a node, after 200 small operators, elementwise."""
    for _ in range(100):
        v = v * 1.01 + 0.01
    return v


def ways_to_launch(size: int, device: str) -> dict[str, Callable[[], object]]:
    """Return {name: a function that runs `many_operators` on so many elements}."""
    array = np.ones(size, np.float32)
    eager = mt.tensor(array, device=device)
    tf.reset_default_graph()
    fed = tf.placeholder(tf.float32, (None,))
    node = many_operators(fed)
    planned = tf.Session(device=device, optimize=False)
    compiled = tf.Session(device=device)
    ways: dict[str, Callable[[], object]] = {
        "200 calls": lambda: many_operators(eager),
        "a plan of 200": lambda: planned.run(node, {fed: array}),
        "one compiled call": lambda: compiled.run(node, {fed: array}),
    }
    if device == "cuda":
        ways["200 kernels, captured"] = capture_kernels(size)
    return ways


def capture_kernels(size: int) -> Callable[[], Any]:
    """Return a function that launches the 200 kernels of a GPU at once, as a CUDA graph."""
    import torch

    x = torch.ones(size, device="cuda")
    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(aside):  # kernels are loaded and memory is taken before the capture
        many_operators(x)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = many_operators(x)

    def replay() -> Any:
        graph.replay()
        torch.cuda.synchronize()
        return result

    return replay

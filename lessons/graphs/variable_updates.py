"""Ways to change a variable of a static graph, and what each of them costs."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import minitorch.graph as tf

RATE = 0.01


def ways_to_write(size: int) -> dict[str, Callable[[], object]]:
    """Return {name: a function that updates one variable of `size` weights once}."""
    array, grad = np.ones(size, np.float32), np.ones(size, np.float32)
    tf.reset_default_graph()
    w, g = tf.Variable(array.copy()), tf.Variable(grad, trainable=False)
    subtract = tf.assign_sub(w, RATE * g)
    nodes: dict[str, Any] = {
        "assign": tf.group(tf.assign(w, w - RATE * g)),
        "assign_sub": tf.group(subtract),
        "optimizer's node": tf.train.GradientDescentOptimizer(RATE).apply_gradients([(g, w)]),
        "and the old value fetched": [tf.identity(w), tf.group(subtract)],
    }
    session = tf.Session(optimize=False)  # node by node, as they were written
    session.run(tf.initialize_all_variables())

    def in_place() -> None:
        nonlocal array
        array -= np.float32(RATE) * grad

    def runs(node: object) -> Callable[[], object]:
        return lambda: session.run(node)

    return {"NumPy, in place": in_place, **{name: runs(node) for name, node in nodes.items()}}


def peak_arrays(run: Callable[[], object], size: int) -> float:
    """Return how many arrays of `size` float32 were alive at once during a run, at most."""
    run()  # the first run plans
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / (4 * size)


def adam_of_nodes(w: Any, g: Any, lr: float = 0.001) -> Any:
    """Return Adam for one variable, every operation a node."""
    shapes: tuple[Any, ...] = (w.shape, w.shape, ())
    m, s, t = (tf.Variable(np.zeros(shape, np.float32), trainable=False) for shape in shapes)
    t1 = tf.assign_add(t, np.float32(1))
    m1 = tf.assign(m, 0.9 * m + 0.1 * g)
    s1 = tf.assign(s, 0.999 * s + 0.001 * g * g)
    root = tf.sqrt(s1 / (1.0 - tf.pow(np.float32(0.999), t1))) + 1e-8
    return tf.group(tf.assign_sub(w, lr * (m1 / (1.0 - tf.pow(np.float32(0.9), t1))) / root))


def ways_of_adam(size: int) -> tuple[list[int], list[Callable[[], object]]]:
    """Return the nodes, and functions that take a step: Adam of nodes, and Adam as one node."""
    tf.reset_default_graph()
    w = tf.Variable(np.ones(size, np.float32))
    g = tf.Variable(np.ones(size, np.float32), trainable=False)
    ways = [adam_of_nodes(w, g), tf.train.AdamOptimizer(0.001).apply_gradients([(g, w)])]
    session = tf.Session(optimize=False)
    session.run(tf.initialize_all_variables())

    def runs(way: object) -> Callable[[], object]:
        return lambda: session.run(way)

    return [tf.count_nodes([way]) for way in ways], [runs(way) for way in ways]

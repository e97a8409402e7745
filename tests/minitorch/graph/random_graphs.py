"""Random graphs for judging passes: values, branches, loops, variables that are written, gradients.

All values are 4 x 4 and bounded, so that nothing overflows however deep the graph is.
"""

from typing import Any

import numpy as np

import minitorch.graph as tf

SHAPE = (4, 4)
UNARY = (
    tf.tanh, tf.square, tf.negative, tf.nn.relu, tf.abs, tf.sigmoid, tf.exp, tf.transpose,
    lambda x: x * 1.0, lambda x: tf.reshape(tf.reshape(x, (2, 8)), SHAPE),
    lambda x: x + tf.reduce_sum(x, 1, keepdims=True),
    lambda x: x * tf.reduce_mean(tf.square(x), 0),
    lambda x: x - tf.reduce_max(x * 2.0, 1, keepdims=True),
    lambda x: tf.transpose(tf.transpose(x) * 2.0),
    lambda x: tf.where(x > 0.0, x, x * 0.5),
)  # fmt: skip
BINARY = (tf.add, tf.multiply, tf.subtract, tf.maximum, tf.minimum, tf.matmul)


class RandomGraph:
    """A graph drawn from a seed.

    Attributes:
        fetches: some values, a gradient, and what was written.
        feeds: a value for each placeholder.
        start: initialises the variables.
    """

    def __init__(self, seed: int, dtype: Any = tf.float64) -> None:
        rng = self.rng = np.random.default_rng(seed)
        self.dtype = dtype
        tf.reset_default_graph()
        inputs = [tf.placeholder(dtype, SHAPE, name=f"x{i}") for i in range(2)]
        self.feeds = {x: rng.normal(size=SHAPE).astype(dtype) for x in inputs}
        self.variables = [tf.Variable(rng.normal(size=SHAPE).astype(dtype)) for _ in range(2)]
        self.values: list[Any] = [*inputs, *self.variables, *self._constants()]
        for _ in range(int(rng.integers(4, 24))):
            self.values.append(self._bounded(self._next()))
        self.fetches = [self.values[-1], self._pick(), inputs[0], *self._ends(inputs)]
        self.start = tf.initialize_all_variables()

    def _constants(self) -> list[Any]:
        rng = self.rng
        found = [tf.constant(rng.normal(size=SHAPE).astype(self.dtype)) for _ in range(2)]
        ones = [tf.constant(np.ones((), self.dtype) * c) for c in (1.0, -1.0)]
        return [*found, *(c * tf.ones(SHAPE, self.dtype) for c in ones)]

    def _pick(self) -> Any:
        return self.values[int(self.rng.integers(len(self.values)))]

    def _bounded(self, x: Any) -> Any:
        return tf.tanh(x) if self.rng.random() < 0.5 else tf.clip_by_value(x, -3.0, 3.0)

    def _next(self) -> Any:
        kind = self.rng.random()
        if kind < 0.4:
            return UNARY[int(self.rng.integers(len(UNARY)))](self._pick())
        if kind < 0.85:
            a, b = self._pick(), self._pick()
            return BINARY[int(self.rng.integers(len(BINARY)))](a, b)
        return self._branch() if kind < 0.95 else self._loop()

    def _branch(self) -> Any:
        a, b = self._pick(), self._pick()
        pred = tf.reduce_sum(self._pick()) > 0.0
        if self.rng.random() < 0.3:
            pred = tf.constant(bool(self.rng.integers(2)))
        return tf.cond(pred, lambda: tf.tanh(a) * 2.0, lambda: tf.square(b) - a)

    def _loop(self) -> Any:
        a, count = self._pick(), int(self.rng.integers(0, 4))
        return tf.while_loop(
            lambda i, x: i < count, lambda i, x: (i + 1, tf.tanh(x + a) * 0.5), [0, self._pick()]
        )[1]

    def _ends(self, inputs: list[Any]) -> list[Any]:
        """A gradient where there is one, and a write with a read that waits for it."""
        loss = tf.reduce_sum(tf.tanh(self.values[-1]))
        wanted = [*inputs, *self.variables]
        found = [g for g in tf.gradients(loss, wanted) if g is not None]
        with tf.control_dependencies([tf.assign(self.variables[0], self.values[-1] * 0.5)]):
            after = self.variables[0].read() * 1.0
        return [*found[:2], after]

    def run(self, fetches: Any) -> list[Any]:
        """Return the values, in a session of their own."""
        with tf.Session() as session:
            session.run(self.start)
            return list(session.run(fetches, self.feeds))


def largest_difference(got: list[Any], want: list[Any]) -> float:
    """The largest difference of two elements, relative above 1; infinite where shapes differ."""
    worst = 0.0
    for a, b in zip(got, want, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        gap = np.abs(np.asarray(a, np.float64) - b) / np.maximum(1.0, np.abs(b))
        worst = max(worst, float(np.max(np.where(np.isnan(gap), np.inf, gap), initial=0.0)))
    return worst

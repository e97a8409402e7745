"""Random programs with state: nested branches and loops, writes and reads in order, random numbers.

Every effect waits for the one before it, so that a program has one meaning; what passes and
executors must keep is exactly that. Values are 4 x 4 and bounded.
"""

from typing import Any

import numpy as np

import minitorch.graph as tf

SHAPE = (4, 4)
UNARY = (
    tf.tanh, tf.sigmoid, tf.negative, tf.nn.relu, tf.transpose, tf.square,
    lambda x: x * 1.0, lambda x: tf.negative(-x), lambda x: x + tf.reduce_mean(x, 0),
    lambda x: tf.reshape(tf.reshape(x, (2, 8)), SHAPE) * 0.5,
    lambda x: tf.where(x > 0.0, x, x * 0.5),
)  # fmt: skip
BINARY = (tf.add, tf.multiply, tf.subtract, tf.maximum, tf.matmul)
Last = list[Any]
"""The effect that the next one is to wait for, if there is one."""


class RandomProgram:
    """A program drawn from a seed.

    Attributes:
        fetches: a value, gradients, and the variables as they are in the end.
        feeds: a value for each placeholder.
        start: initialises the variables.
    """

    def __init__(self, seed: int, depth: int = 2, effects: bool = True) -> None:
        rng = self.rng = np.random.default_rng(seed)
        self.effects = effects
        tf.reset_default_graph()
        inputs = [tf.placeholder(tf.float64, SHAPE, name=f"x{i}") for i in range(2)]
        self.feeds = {x: rng.normal(size=SHAPE) * 0.5 for x in inputs}
        self.variables = [tf.Variable(rng.normal(size=SHAPE)) for _ in range(2)]
        fixed = tf.Variable(rng.normal(size=SHAPE) * 0.5, name="fixed")  # nobody writes it
        constants = [tf.constant(rng.normal(size=SHAPE)) for _ in range(2)]
        values, last = self._block(depth, [*inputs, fixed, *constants], [])
        loss = tf.reduce_sum(tf.tanh(values[-1]) * values[-2])
        found = [g for g in tf.gradients(loss, [*inputs, fixed]) if g is not None]
        with tf.control_dependencies(last):
            ends = [v.read() * 1.0 for v in self.variables]
        self.fetches = [values[-1], loss, *found, *ends]
        self.start = tf.initialize_all_variables()

    def _block(self, depth: int, values: list[Any], last: Last) -> tuple[list[Any], Last]:
        """Return the values, and those of a few more statements; and the last effect."""
        values = list(values)
        for _ in range(int(self.rng.integers(2, 5))):
            made, last = self._statement(depth, values, last)
            values.append(tf.tanh(made) if self.rng.random() < 0.4 else made * 0.5)
        return values, last

    def _pick(self, values: list[Any]) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def _statement(self, depth: int, values: list[Any], last: Last) -> tuple[Any, Last]:
        kind = self.rng.random()
        if depth and kind < 0.25:
            return self._branch(depth, values, last)
        if depth and kind < 0.5:
            return self._loop(depth, values, last)
        if self.effects and kind < 0.7:
            return self._effect(values, last)
        if kind < 0.85:
            return UNARY[int(self.rng.integers(len(UNARY)))](self._pick(values)), last
        operation = BINARY[int(self.rng.integers(len(BINARY)))]
        return operation(self._pick(values), self._pick(values)), last

    def _effect(self, values: list[Any], last: Last) -> tuple[Any, Last]:
        variable, kind = self.variables[int(self.rng.integers(2))], self.rng.random()
        value = tf.tanh(self._pick(values))
        with tf.control_dependencies(last):
            if kind < 0.3:
                made = tf.assign(variable, value)
            elif kind < 0.6:
                made = tf.assign_add(variable, value)
            elif kind < 0.85:
                made = variable.read() * 1.0
            else:
                seed = int(self.rng.integers(1000))
                made = tf.random_uniform(SHAPE, dtype=tf.float64, seed=seed)
        return tf.stop_gradient(made), [made]

    def _branch(self, depth: int, values: list[Any], last: Last) -> tuple[Any, Last]:
        pred = tf.reduce_sum(self._pick(values)) > float(self.rng.normal())
        if self.rng.random() < 0.2:
            pred = tf.constant(bool(self.rng.integers(2)))

        def side() -> Any:
            found, after = self._block(depth - 1, values, [])
            with tf.control_dependencies(after):
                return tf.identity(found[-1])

        with tf.control_dependencies(last):
            made = tf.cond(pred, side, side)
        return made, [made]

    def _loop(self, depth: int, values: list[Any], last: Last) -> tuple[Any, Last]:
        count, parallel = int(self.rng.integers(0, 4)), int(self.rng.integers(1, 4))
        constant, limited = self.rng.random() < 0.5, self.rng.random() < 0.3
        first, still = self._pick(values), self._pick(values)
        bound: Any = count if constant else tf.reduce_sum(values[0]) * 0.0 + float(count)

        def going(i: Any, x: Any, *_: Any) -> Any:
            more = tf.cast(i, tf.float64) < bound if not constant else i < bound
            return tf.logical_and(more, tf.reduce_sum(x) < 20.0) if limited else more

        def body(i: Any, x: Any, same: Any, unused: Any) -> Any:
            found, after = self._block(depth - 1, [*values, x, same], [])
            with tf.control_dependencies(after):
                return i + 1, tf.identity(found[-1]), same, tf.tanh(unused)

        with tf.control_dependencies(last):
            made = tf.while_loop(
                going, body, [0, first, still, first], parallel_iterations=parallel
            )[1]
        return made, [made]

    def run(self, fetches: Any, runs: int = 2, **options: Any) -> list[Any]:
        """Return the values of some runs, one after another, in a session of their own."""
        with tf.Session(**options) as session:
            session.run(self.start)
            return [v for _ in range(runs) for v in session.run(fetches, self.feeds)]

"""Cost models: from schedules that were timed to a guess at those that were not.

Both parts learn logarithms of seconds, so that a factor counts the same everywhere. Ridge
regression on derived features has the trend from a dozen trials; boosted trees on the raw knobs
learn what it leaves over. Trees can also learn only which of two schedules is the faster one.

Schedules are rows of numbers to a model: `raw` has the knobs as they are, sizes as logarithms;
`derived` adds what decides a kernel's time and what a linear model could not make of the knobs by
itself: arithmetic a load, live vectors against registers, bytes against caches, the strides of what
is not packed, work wasted at edges; on a device registers, shared memory and occupancy.

May import: errors, schedule, tasks, gpu.devices. Source: Friedman, Ann. Statist. 29(5), 2001;
Chen et al., NeurIPS 2018 (Learning to Optimize Tensor Programs), section 3.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError
from .gpu.devices import DEVICES, MOST_REGISTERS, occupancy
from .schedule import NAIVE, DeviceSchedule, registers_needed, schedule_for, shared_bytes, tiles_of
from .tasks import Task, task_of

_Array = np.ndarray[Any, Any]
Point = dict[str, Any]
Points = Sequence[Mapping[str, Any]]
USUAL = DEVICES["H100"]  # whose limits a device's features take; other devices rank alike
WHOLE = 12.0  # the logarithm that stands for a tile of the whole axis
L1, L2, LINE = 32 * 2**10, 2**19, 64  # bytes: of usual caches, and of what they fetch at once
KINDS = ("both", "ridge", "trees", "rank")


class Ridge:
    """Least squares with a penalty on the weights; columns are brought to one scale first."""

    def __init__(self, penalty: float = 1.0) -> None:
        self.penalty = penalty

    def fit(self, x_NF: _Array, y_N: _Array) -> "Ridge":
        """Solve (XᵀX + penalty · I) w = Xᵀy about the means."""
        self.mean, self.scale = x_NF.mean(0), x_NF.std(0)
        self.scale[self.scale == 0] = 1.0
        self.start = float(y_N.mean())
        x = (x_NF - self.mean) / self.scale
        square = x.T @ x + self.penalty * np.eye(x.shape[1])
        self.weights = np.linalg.solve(square, x.T @ (y_N - self.start))
        return self

    def predict(self, x_NF: _Array) -> _Array:
        """Return the guesses."""
        predicted: _Array = (x_NF - self.mean) / self.scale @ self.weights + self.start
        return predicted


Tree = float | tuple[int, "Tree", "Tree"]
"""A leaf's value; or a question, and the trees for no and yes."""


class Trees:
    """Boosted regression trees: each tree is fitted to what the sum of those before leaves over.

    Every threshold of every column is a question with a column of answers of its own, so that the
    best split of a node is two products of a vector, which BLAS does sooner than one of a thin
    matrix.

    Args:
        ranking: learn the order of the values, not their sizes.
    """

    def __init__(
        self,
        rounds: int = 60,
        depth: int = 3,
        rate: float = 0.15,
        least: int = 2,
        ranking: bool = False,
    ) -> None:
        self.rounds, self.depth, self.rate, self.least = rounds, depth, rate, least
        self.ranking = ranking

    def fit(self, x_NF: _Array, y_N: _Array) -> "Trees":
        """Grow the trees, one after another."""
        values = [np.unique(column) for column in x_NF.T]
        cuts = [(f, c) for f, v in enumerate(values) for c in (v[:-1] + v[1:]) / 2]
        self.columns = np.array([f for f, _ in cuts], int)
        self.cuts = np.array([c for _, c in cuts], float)
        self.start = float(y_N.mean())
        self.trees: list[Tree] = []
        answers, guesses = self._answers(x_NF), np.full(len(y_N), self.start)
        numbers, everywhere = answers.astype(float), np.ones(len(y_N))
        for _ in range(self.rounds if cuts else 0):
            rest = by_pairs(guesses, y_N) if self.ranking else y_N - guesses
            self.trees.append(self._grow(numbers, rest, everywhere, self.depth))
            guesses += self.rate * _values(self.trees[-1], answers)
        return self

    def predict(self, x_NF: _Array) -> _Array:
        """Return the guesses: the sum of what all trees say."""
        answers, total = self._answers(x_NF), np.full(len(x_NF), self.start)
        for tree in self.trees:
            total += self.rate * _values(tree, answers)
        return total

    def _answers(self, x_NF: _Array) -> _Array:
        return np.asfortranarray(x_NF[:, self.columns] > self.cuts)  # read by columns

    def _grow(self, answers: _Array, rest: _Array, chosen: _Array, depth: int) -> Tree:
        """Return the tree that is fitted to what is left over of the chosen rows, each 1 or 0."""
        mine = rest * chosen
        rows, total = chosen.sum(), mine.sum()
        if depth == 0 or rows < 2 * self.least:
            return float(total / rows)
        yes, sums = chosen @ answers, mine @ answers
        no = rows - yes
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = sums**2 / yes + (total - sums) ** 2 / no
        gain[(yes < self.least) | (no < self.least)] = -np.inf
        best = int(gain.argmax())
        if not gain[best] > total**2 / rows + 1e-12:
            return float(total / rows)
        says_yes = chosen * answers[:, best]
        parts = (chosen - says_yes, says_yes)
        below = [self._grow(answers, rest, part, depth - 1) for part in parts]
        return best, below[0], below[1]


def by_pairs(scores_N: _Array, y_N: _Array) -> _Array:
    """Return how scores should move for pairs of them to be in the order of `y_N`.

    The slope of Σ ln(1 + exp(-(sᵢ - sⱼ))) over the pairs with yᵢ > yⱼ, for each score.
    Source: Burges et al., ICML 2005 (RankNet); in a compiler, Chen et al., NeurIPS 2018.
    """
    order = np.sign(y_N[:, None] - y_N)
    moves: _Array = (order / (1.0 + np.exp(order * (scores_N[:, None] - scores_N)))).mean(1)
    return moves


def _values(tree: Tree, answers: _Array) -> _Array:
    """Return what a tree says to each row."""
    if isinstance(tree, float):
        return np.full(len(answers), tree)
    question, no, yes = tree
    return np.where(answers[:, question], _values(yes, answers), _values(no, answers))


class CostModel:
    """Guesses the seconds of schedules from those of others.

    Args:
        task: what the schedules are of; without it only the knobs themselves are looked at.
        kind: "ridge", "trees", or "both": trees on what ridge leaves over; "rank": trees that learn
            the order alone, and seconds from that by a straight line through the logarithms.
        device: "cpu" or "cuda", where the schedules run.
    Raises:
        ArgumentError: no such kind, task or device.
    """

    def __init__(
        self, task: Task | Sequence[Any] | None = None, kind: str = "both", device: str = "cpu"
    ) -> None:
        if kind not in KINDS:
            raise ArgumentError(f"CostModel: got kind {kind!r}, expected one of {KINDS}.")
        self.task, self.kind = None if task is None else task_of(task), kind
        self.features = _of_device if schedule_for(device) is DeviceSchedule else _of
        self._knobs: list[str] = []

    def fit(self, points: Points, seconds: Sequence[float], prepared: Any = None) -> "CostModel":
        """Learn from points that took so many seconds; return self.

        Args:
            prepared: the features of the points, as `prepare` gives them.
        Raises:
            ArgumentError: no points, not as many seconds, or seconds that are not above zero.
        """
        y = np.asarray(seconds, float)
        if y.shape != (len(points),) or not len(points):
            raise ArgumentError(f"fit: got {len(points)} points and {y.size} seconds.")
        if not (np.isfinite(y).all() and (y > 0).all()):
            raise ArgumentError("fit: seconds have to be finite and above zero.")
        self._points = [dict(point) for point in points]
        self._knobs = sorted({knob for point in points for knob in point})
        self._fit(prepared or self.prepare(points), np.log(y))
        return self

    def prepare(self, points: Points, tasks: Sequence[Task] = ()) -> tuple[_Array, _Array]:
        """Return the features of points, which `fit` and `predict` take in place of making them.

        Args:
            tasks: what each point computes, where not the model's task.
        """
        knobs = self._knobs or sorted({knob for point in points for knob in point})
        plain = raw(points, knobs)
        if self.task is None:
            return plain, plain
        pairs = zip(tasks or [self.task] * len(points), points, strict=True)
        derived = np.array([self.features(task, dict(point)) for task, point in pairs], float)
        return plain, np.hstack([plain, derived.reshape(len(points), -1)])

    def _fit(self, features: tuple[_Array, _Array], y: _Array) -> None:
        plain, derived = features
        self._ridge = Ridge().fit(derived, y) if self.kind in ("both", "ridge") else None
        left = y - self._ridge.predict(derived) if self._ridge else y
        trees = Trees(ranking=self.kind == "rank")
        self._trees = trees.fit(plain, left) if self.kind != "ridge" else None
        self._line = (1.0, 0.0)
        if self.kind == "rank" and np.ptp(scores := trees.predict(plain)) > 0:
            slope, start = np.polyfit(scores, y, 1)
            self._line = float(slope), float(start)
        self._logs = y

    def predict(self, points: Points, prepared: Any = None) -> _Array:
        """Return the seconds that it expects of each point.

        Raises:
            ArgumentError: nothing has been fitted.
        """
        if not self._knobs:
            raise ArgumentError("predict: the model has not been fitted. Call fit first.")
        plain, derived = prepared or self.prepare(points)
        total = np.zeros(len(plain))
        if self._ridge:
            total += self._ridge.predict(derived)
        if self._trees:
            total += self._trees.predict(plain)
        slope, start = self._line
        return np.asarray(np.exp(slope * total + start))

    def explain(self) -> dict[str, float]:
        """Return each knob's weight: how much worse the model gets when its values are shuffled.

        Weights are shares of one, the largest first.
        Source: Breiman, Machine Learning 45, 2001 (permutation importance).
        """
        weights = {}
        for knob in self._knobs:
            worse = 0.0
            for seed in range(3):
                order = np.random.default_rng(seed).permutation(len(self._points))
                mixed = [
                    point | {knob: self._points[j][knob]} if knob in self._points[j] else point
                    for point, j in zip(self._points, order, strict=True)
                ]
                worse += self._error(mixed)
            weights[knob] = max(0.0, worse / 3 - self._error(self._points))
        total = sum(weights.values()) or 1.0
        ranked = sorted(weights.items(), key=lambda item: -item[1])
        return {knob: weight / total for knob, weight in ranked}

    def _error(self, points: Sequence[Mapping[str, object]]) -> float:
        away = np.log(self.predict(points)) - self._logs
        return float((away**2).mean())


# Features


def raw(points: Points, knobs: Sequence[str]) -> _Array:
    """Return a row for each point; what is text has a column for each of its values."""
    columns: list[list[float]] = []
    for knob in knobs:
        values = [point.get(knob, NAIVE.get(knob)) for point in points]
        if not any(isinstance(v, str) for v in values):
            columns.append([_number(v) for v in values])
        elif knob == "order":  # which axis is outermost, and which innermost
            columns += [[v[at] == axis for v in values] for at in (0, 2) for axis in "mnk"]
        else:
            columns += [[v == kind for v in values] for kind in sorted({*map(str, values)})]
    return np.array(columns, float).T.reshape(len(points), len(columns))


def _number(value: float | None) -> float:
    if value is None:
        return WHOLE
    if isinstance(value, bool):
        return float(value)
    return math.log2(value) if value > 0 else float(value)


def _of(task: Task, point: Point) -> list[float]:
    """Return what decides on a processor."""
    s = NAIVE | point
    m, n, k = task.axes
    rows, vectors, lanes, item = s["rows"], s["vectors"], s["lanes"], task.item_bytes
    high, wide, depth = tiles_of(task, s)
    columns, block = vectors * lanes, rows * vectors
    width = min(lanes * item, LINE)
    spilled = max(0.0, block + vectors + 1 - 32)
    panels = (rows * depth * item, columns * depth * item, high * depth * item)
    waste = (-(-m // rows) * rows / m) * (-(-n // columns) * columns / n)
    return [
        math.log2(block),
        math.log2(min(block, 10)),  # sums that are under way at once hide the latency of one
        block / (rows + vectors),  # multiply-adds a load
        math.log2(rows * columns / (rows + columns)),
        math.log2(width),
        math.log2(block * lanes * s["unroll"]),
        spilled,
        float(spilled > 0),
        *(max(0.0, math.log2(p / L1)) for p in panels),
        max(0.0, math.log2(depth * wide * item / L2)),
        1.0 / depth + 1.0 / max(1, k),  # how often C goes through the caches
        float(not s["pack_a"]) * max(0.0, math.log2(k * item / LINE)),
        float(not s["pack_b"])
        * max(0.0, math.log2(n * item / LINE))
        / max(1, columns * item / LINE),
        float(s["pack_a"]) * (n / columns) ** -0.5,
        float(s["pack_b"]) * (m / rows) ** -0.5,
        math.log2(waste),
    ]


def _of_device(task: Task, point: Point) -> list[float]:
    """Return what decides on a device: what a block takes of it, and how well blocks fill it."""
    s: Mapping[str, Any] = DeviceSchedule.complete(point)
    m, n, k = task.axes
    rows, columns = s["rows"], s["vectors"] * s["lanes"]
    high, wide, depth = tiles_of(task, s)
    threads, blocks = high // rows * (wide // columns), -(-m // high) * -(-n // wide)
    registers, shared = registers_needed(task, s), sum(shared_bytes(task, s))
    fits = occupancy(USUAL, threads, min(registers, MOST_REGISTERS), shared)
    rounds = -(-blocks // (USUAL.multiprocessors * max(1, fits.blocks)))
    return [
        math.log2(registers),
        math.log2(shared),
        math.log2(threads),
        fits.share,
        math.log2(rows * columns / (rows + columns)),  # multiply-adds a number from shared memory
        math.log2(high * wide / (high + wide)),  # and from the device's memory
        math.log2(s["lanes"] * task.item_bytes),
        math.log2(rows * columns * s["unroll"]),
        math.log2(-(-k // depth)),  # rounds, with two barriers each
        math.log2(blocks),
        blocks / (rounds * USUAL.multiprocessors * max(1, fits.blocks)),
        math.log2(blocks * high * wide / (m * n)),  # work wasted at edges
    ]

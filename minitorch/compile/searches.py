"""Searches: which points to try next, of those that were tried and what they took.

A search is a function of the state; it returns so many points that nobody has tried. All draw from
one generator, so that a seed gives the same search again.

    random      any points
    genetic     children of the best: knob by knob from one parent or the other, some changed
    annealing   walks on the model's guesses that go uphill less and less often
    learned     the best by the model's guesses of all points, and some at random

May import: cost_model, spaces. Source: Chen et al., NeurIPS 2018, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .cost_model import CostModel
from .spaces import Point, Space

SURPRISES = 0.1  # the share of points drawn at random, so that the model learns where it is wrong
PARENTS = 12
CHANGED = 0.15  # the share of a child's knobs that are drawn anew
WALKS, STEPS = 32, 60
OWN, OTHER = 3, 1  # how often a trial counts: of this shape, of another
FIRST = 6  # trials without a model


class State:
    """What a search knows.

    Attributes:
        space: with all legal points.
        history: the points tried so far with their seconds.
        before: the same of other shapes, their seconds brought to this shape's scale.
        rng: where all chance comes from.
    """

    def __init__(self, space: Space, seed: int, before: Sequence[tuple[Point, float]] = ()) -> None:
        self.space, self.rng = space, np.random.default_rng(seed)
        self.points, self.before = space.points(), list(before)
        self.history: list[tuple[Point, float]] = []
        self._open = np.ones(len(self.points), bool)
        self._features: Any = None

    def add(self, point: Point, seconds: float) -> None:
        """Remember a trial."""
        self.history.append((point, seconds))
        number = self.space.number_of(point)
        if number is not None:
            self._open[number] = False

    def fresh(self, point: Point) -> int | None:
        """Return the number of a legal point that nobody has tried; None of any other."""
        number = self.space.number_of(point)
        return number if number is not None and self._open[number] else None

    def untried(self) -> Any:
        """Return the numbers of all points that nobody has tried."""
        return np.flatnonzero(self._open)

    def guesses(self) -> Any:
        """Return the model's guess for every point; None while there is nothing to fit."""
        timed = [(p, s) for p, s in self.history if math.isfinite(s)]
        if len(timed) < FIRST and not self.before:
            return None
        model = CostModel(self.space.task, device=self.space.device)
        data = timed * OWN + self.before * OTHER if self.before else timed
        model.fit([p for p, _ in data], [s for _, s in data])
        if self._features is None:
            self._features = model.prepare(self.points)
        return model.predict(self.points, self._features)


def random(state: State, count: int) -> list[int]:
    """Return points drawn at random."""
    untried = state.untried()
    return [int(i) for i in state.rng.permutation(untried)[:count]]


def genetic(state: State, count: int) -> list[int]:
    """Return children of the best points so far."""
    if len(state.history) < FIRST:
        return random(state, count)
    ranked = sorted(state.history, key=lambda trial: trial[1])[:PARENTS]
    weights = 1.0 / np.arange(1, len(ranked) + 1)
    found: list[int] = []
    for _ in range(50 * count):
        pair = state.rng.choice(len(ranked), 2, p=weights / weights.sum())
        child = _child(state, ranked[pair[0]][0], ranked[pair[1]][0])
        number = state.fresh(child)
        if number is not None and number not in found:
            found.append(number)
        if len(found) == count:
            return found
    return _filled(state, found, count)


def _child(state: State, mother: Point, father: Point) -> Point:
    child = {}
    for knob, values in state.space.knobs.items():
        parent = mother if state.rng.random() < 0.5 else father
        child[knob] = parent.get(knob, values[0])
        if state.rng.random() < CHANGED:
            child[knob] = values[state.rng.integers(len(values))]
    return child


def annealing(state: State, count: int) -> list[int]:
    """Return where walks on the model's guesses end."""
    guesses = state.guesses()
    if guesses is None:
        return random(state, count)
    at = state.rng.integers(len(state.points), size=WALKS)
    seen = set(map(int, at))
    logs = np.log(guesses)
    for step in range(STEPS):
        heat = max(1e-3, 1.0 - step / STEPS)
        for walk in range(WALKS):
            to = _neighbour(state, int(at[walk]))
            uphill = logs[to] - logs[at[walk]]
            if uphill <= 0 or state.rng.random() < math.exp(-uphill / (0.3 * heat)):
                at[walk] = to
                seen.add(to)
    tried = set(map(int, state.untried()))
    ranked = sorted(seen & tried, key=lambda i: (guesses[i], i))
    return _filled(state, ranked[: count - _surprises(state, count)], count)


def _neighbour(state: State, number: int) -> int:
    """Return a point that differs in one knob; the same one where that is not legal."""
    point = dict(state.points[number])
    knobs = list(state.space.knobs)
    knob = knobs[state.rng.integers(len(knobs))]
    values = state.space.knobs[knob]
    point[knob] = values[state.rng.integers(len(values))]
    found = state.space.number_of(point)
    return number if found is None else found


def learned(state: State, count: int) -> list[int]:
    """Return the points of which the model expects most, and some at random."""
    guesses = state.guesses()
    if guesses is None:
        return random(state, count)
    untried = state.untried()
    ranked = untried[np.argsort(guesses[untried], kind="stable")]
    return _filled(state, [int(i) for i in ranked[: count - _surprises(state, count)]], count)


def _surprises(state: State, count: int) -> int:
    return int(state.rng.binomial(count, SURPRISES))


def _filled(state: State, found: list[int], count: int) -> list[int]:
    """Return the points with random ones for what is missing."""
    others = (int(i) for i in state.rng.permutation(state.untried()) if int(i) not in set(found))
    return found + [i for i, _ in zip(others, range(count - len(found)), strict=False)]


SEARCHES: dict[str, Callable[[State, int], list[int]]] = {
    "learned": learned,
    "genetic": genetic,
    "annealing": annealing,
    "random": random,
}

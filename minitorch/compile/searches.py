"""Searches: which points to try next, of those that were tried and what they took.

A search is a function of the state; it returns so many points that nobody has tried. All draw from
one generator, so that a seed gives the same search again.

    random      any points
    genetic     children of the best: knob by knob from one parent or the other, some changed
    annealing   walks on the model's guesses that go uphill less and less often
    learned     the best by the model's guesses of all points, and some at random

May import: cost_model, spaces. Source: Chen et al., NeurIPS 2018, section 4.
"""

import math
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from .cost_model import CostModel
from .spaces import Point, Space, Trial

Numbers = npt.NDArray[np.float64]

SURPRISES = 0.1  # the share of points drawn at random, so that the model learns where it is wrong
PARENTS = 12
CHANGED = 0.15  # the share of a child's knobs that are drawn anew
WALKS, STEPS = 32, 60
OWN = 8  # times that a trial of this shape counts beside one of another
FIRST = 6  # trials without a model


class State:
    """What a search knows.

    Attributes:
        space: with all legal points.
        history: the points tried so far with their seconds.
        before: trials of other shapes: task, point, and seconds by the mean of their task's.
        rng: where all chance comes from.
    """

    def __init__(self, space: Space, seed: int, before: Sequence[Trial] = ()) -> None:
        self.space, self.rng = space, np.random.default_rng(seed)
        self.points, self.before = space.points(), before
        self.history: list[tuple[Point, float]] = []
        self._open = np.ones(len(self.points), bool)

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

    def list_untried(self) -> npt.NDArray[np.intp]:
        """Return the numbers of all points that nobody has tried."""
        return np.flatnonzero(self._open)

    def guesses(self) -> Numbers | None:
        """Return the model's guess for every point; None while there is nothing to fit."""
        tried = ((self.space.number_of(point), s) for point, s in self.history)
        timed = [(n, s) for n, s in tried if n is not None and math.isfinite(s)]
        if not self.before and len(timed) < FIRST:
            return None
        numbers = [number for number, _ in timed]
        seconds = np.array([s for _, s in timed])
        if not self.before:
            return self._fit_and_guess(numbers, seconds)
        if timed:  # brought to where a model of the others alone sees these points
            seconds /= np.exp(np.log(seconds / self._of_others[numbers]).mean())
        return self._fit_and_guess(numbers * OWN, np.tile(seconds, OWN))

    @cached_property
    def _of_others(self) -> Numbers:
        """What a model of other shapes alone guesses for every point."""
        return self._fit_and_guess([], np.empty(0))

    def _fit_and_guess(self, numbers: list[int], seconds: Numbers) -> Numbers:
        """Return the guesses of a model of other shapes' trials and of these points."""
        count = len(self.before)
        rows = [*range(count), *(count + number for number in numbers)]
        points = [*(t.point for t in self.before), *(self.points[number] for number in numbers)]
        plain, derived = self._features
        taken = np.concatenate([[t.seconds for t in self.before], seconds])
        model = CostModel(self.space.task, device=self.space.device)
        model.fit(points, taken.tolist(), (plain[rows], derived[rows]))
        return model.predict(self.points, (plain[count:], derived[count:]))

    @cached_property
    def _features(self) -> tuple[Numbers, Numbers]:
        """The features of the other shapes' trials, then of all points."""
        tasks = [*(t.task for t in self.before), *[self.space.task] * len(self.points)]
        model = CostModel(self.space.task, device=self.space.device)
        return model.prepare([*(t.point for t in self.before), *self.points], tasks)


def random(state: State, count: int) -> list[int]:
    """Return points drawn at random."""
    untried = state.list_untried()
    return [int(i) for i in state.rng.permutation(untried)[:count]]


def genetic(state: State, count: int) -> list[int]:
    """Return children of the best points so far."""
    if len(state.history) < FIRST:
        return random(state, count)
    ranked = sorted(state.history, key=lambda trial: trial[1])[:PARENTS]
    weights = 1.0 / np.arange(1, len(ranked) + 1)
    children: list[int] = []
    for _ in range(50 * count):
        pair = state.rng.choice(len(ranked), 2, p=weights / weights.sum())
        child = _child(state, ranked[pair[0]][0], ranked[pair[1]][0])
        number = state.fresh(child)
        if number is not None and number not in children:
            children.append(number)
        if len(children) == count:
            return children
    return _fill_at_random(state, children, count)


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
    untried = set(map(int, state.list_untried()))
    ranked = sorted(seen & untried, key=lambda i: (guesses[i], i))
    return _fill_at_random(state, ranked[: count - _surprises(state, count)], count)


def _neighbour(state: State, number: int) -> int:
    """Return a point that differs in one knob; the same one where that is not legal."""
    point = dict(state.points[number])
    knobs = list(state.space.knobs)
    knob = knobs[state.rng.integers(len(knobs))]
    values = state.space.knobs[knob]
    point[knob] = values[state.rng.integers(len(values))]
    neighbour = state.space.number_of(point)
    return number if neighbour is None else neighbour


def search_by_model(state: State, count: int) -> list[int]:
    """Return the points of which the model expects most, and some at random."""
    guesses = state.guesses()
    if guesses is None:
        return random(state, count)
    untried = state.list_untried()
    ranked = untried[np.argsort(guesses[untried], kind="stable")]
    return _fill_at_random(
        state, [int(i) for i in ranked[: count - _surprises(state, count)]], count
    )


def _surprises(state: State, count: int) -> int:
    return int(state.rng.binomial(count, SURPRISES))


def _fill_at_random(state: State, chosen: list[int], count: int) -> list[int]:
    """Return the points with random ones for what is missing."""
    others = (
        int(i) for i in state.rng.permutation(state.list_untried()) if int(i) not in set(chosen)
    )
    return chosen + [i for i, _ in zip(others, range(count - len(chosen)), strict=False)]


SEARCHES: dict[str, Callable[[State, int], list[int]]] = {
    "learned": search_by_model,
    "genetic": genetic,
    "annealing": annealing,
    "random": random,
}

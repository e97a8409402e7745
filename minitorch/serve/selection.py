"""Which model answers, and how several answers become one: selection policies.

A policy is three functions of the weights that it keeps for each context, which sum to 1: whom to
ask and with what chance, what to make of the answers, and what to learn from a label.

May import: NumPy.
Source: Auer, Cesa-Bianchi, Freund, Schapire, SIAM J. Comput. 32(1), 2002 (Exp3 and Exp4), with
losses as in Crankshaw et al., "Clipper", NSDI 2017, section 5.
"""

import math
from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np

Weights = dict[str, float]
Asked = Mapping[str, float]  # name: the chance that it was asked
Answers = Mapping[str, Any]


class Policy:
    """How an application chooses among its models; this one asks the first, always."""

    learns = False
    eta, floor = 0.0, 1e-3

    def ask(self, weights: Weights, rng: Random) -> Asked:
        """Return the models to ask, each with the chance that it had."""
        return {next(iter(weights)): 1.0}

    def combine(self, weights: Weights, asked: Asked, values: Answers) -> tuple[object, float]:
        """Return one answer of those that have arrived, and the share of the asked that agree."""
        return next(iter(values.values())), 1.0

    def learn(self, weights: Weights, asked: Asked, values: Answers, label: object) -> None:
        """Charge each model that was asked its loss, divided by the chance that it had."""
        for name, chance in asked.items():
            weights[name] *= math.exp(-self.eta * loss(values.get(name), label) / chance)
        for least in (self.floor, self.floor, 0.0):
            total = sum(weights.values())
            for name, weight in weights.items():
                weights[name] = max(weight / total, least)


class Exp3(Policy):
    """One model at a time, drawn by its weight; only its loss is seen.

    The loss is divided by the chance that the model had when it was asked, so that on average each
    is charged what it would have lost, however late feedback comes. A share of all draws explores,
    and no weight falls below a floor: a model that recovers is found again.
    """

    learns = True
    eta, explore = 0.05, 0.05

    def ask(self, weights: Weights, rng: Random) -> Asked:
        even = self.explore / len(weights)
        chances = {name: (1 - self.explore) * weight + even for name, weight in weights.items()}
        (name,) = rng.choices(list(chances), list(chances.values()))
        return {name: chances[name]}


class Ensemble(Policy):
    """All models; each has one vote."""

    def ask(self, weights: Weights, rng: Random) -> Asked:
        return dict.fromkeys(weights, 1.0)

    def combine(self, weights: Weights, asked: Asked, values: Answers) -> tuple[object, float]:
        """Vote on labels, average what is real, by weight."""
        total = sum(weights[name] for name in values)
        shares = {name: weights[name] / total for name in values}
        if _are_real(values):
            value = sum(share * values[name] for name, share in shares.items())
        else:
            value = vote(values, shares)
        return value, sum(agree(value, own) for own in values.values()) / len(asked)


class Exp4(Ensemble):
    """All models, by a vote with weights; a wrong model's weight shrinks by a factor."""

    learns = True
    eta = 0.3


POLICIES = {"first": Policy, "exp3": Exp3, "exp4": Exp4, "ensemble": Ensemble}


def loss(value: object, label: object) -> float:
    """Return how wrong an answer is, from 0 to 1; none at all is wrong.

    Scores of classes are held against a label by their largest; real numbers by their distance.
    """
    if value is None:
        return 1.0
    try:
        right = np.asarray(label, float)
        if isinstance(value, np.ndarray) and value.size > 1 and not right.ndim:
            value = int(value.argmax())
        answer = np.asarray(value, float)
        distances = np.abs(answer - right)
        off = float(distances.mean() if distances.size else answer.shape != right.shape)
    except (TypeError, ValueError, OverflowError):
        return float(not agree(value, label))
    is_label = not right.ndim and float(right).is_integer()
    return 1.0 if is_label and off >= 0.5 else min(1.0, off)


def agree(left: Any, right: Any) -> bool:
    """Tell whether two answers say the same: equal labels, the same largest score, near numbers."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        if left.shape == right.shape and left.size > 1 and left.dtype.kind == "f":
            return bool(left.argmax() == right.argmax())
        return bool(np.array_equal(left, right))
    try:
        if _is_real(left) and _is_real(right):
            return math.isclose(left, right, rel_tol=0.05, abs_tol=1e-9)
        return bool(np.all(left == right))
    except (ValueError, OverflowError):  # arrays of other shapes, integers beyond all floats
        return False


def vote(values: Answers, shares: Weights) -> Any:
    """Return the answer with most weight behind it; of equals the one that came first."""
    backing = {
        name: sum(shares[other] for other, own in values.items() if agree(value, own))
        for name, value in values.items()
    }
    return values[max(backing, key=lambda name: round(backing[name], 12))]


def _are_real(values: Answers) -> bool:
    """Tell whether answers are real numbers, or arrays of them in one shape, not labels."""
    answers = list(values.values())
    if all(isinstance(value, np.ndarray) and value.dtype.kind == "f" for value in answers):
        return len({value.shape for value in answers}) == 1
    return all(map(_is_real, answers)) and not all(float(value).is_integer() for value in answers)


def _is_real(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

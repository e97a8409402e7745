"""Losses over very many classes from a few drawn ones: NCE and the sampled softmax.

Sources: Gutmann & Hyvärinen, AISTATS 2010; Mnih & Teh, ICML 2012; Jean et al., ACL 2015.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..arrays import CPU, Array, asarray, int64
from ..errors import GraphError
from ..op import Spec
from ..ops import joining, logic, movement
from ..ops.casting import cast_to
from .gradients import StopGradient
from .node import Node, build, convert
from .operators.elementwise import exp, log, log1p
from .operators.making import zeros_like
from .operators.math import cast, matmul, reduce_sum
from .operators.random import seed_of
from .operators.shaping import gather
from .state import State, StateOp


class Sampled(NamedTuple):
    """Classes drawn, and how often each true and each drawn class is expected among them."""

    sampled_candidates: Node
    true_expected_count: Node
    sampled_expected_count: Node


class Draw(StateOp):
    """Classes of a distribution that falls as 1 / class, or of the even one, and last the tries."""

    def __init__(self, count: int, unique: bool, range_max: int, even: bool, seed: Any) -> None:
        self.count, self.unique, self.range_max, self.even = count, unique, range_max, even
        self.seed = seed

    def run(self, state: State, *arrays: Array) -> Array:
        """Return the classes, and after them how many were drawn to get so many."""
        draw = state.generator(self, self.seed)
        found: dict[int, None] = {}
        drawn: list[int] = []
        tries = 0
        while len(found if self.unique else drawn) < self.count:
            tries += 1
            one = self._one(draw)
            found[one] = None
            drawn.append(one)
        array = np.array([*(found if self.unique else drawn), tries], np.int64)
        return array if state.device == CPU else asarray(array, None, state.device)

    def _one(self, draw: np.random.Generator) -> int:
        if self.even:
            return int(draw.integers(self.range_max))
        one = math.floor(math.exp(draw.random() * math.log(self.range_max + 1))) - 1
        return min(one, self.range_max - 1)

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of a vector of integers."""
        return Spec((self.count + 1,), int64)


def log_uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Sampled:
    """Return classes drawn with P(c) = log((c + 2) / (c + 1)) / log(range_max + 1)."""
    return _sampled(true_classes, num_sampled, unique, range_max, even=False, seed=seed)


def uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Sampled:
    """Return classes drawn with equal chances."""
    return _sampled(true_classes, num_sampled, unique, range_max, even=True, seed=seed)


learned_unigram_candidate_sampler = log_uniform_candidate_sampler


def _sampled(
    true_classes: Any, count: int, unique: bool, range_max: int, even: bool, seed: int | None
) -> Sampled:
    if count < 1 or (unique and count > range_max):
        raise GraphError(
            f"candidate sampler: got {count} to draw of {range_max} classes, expected 1 or more, "
            "and no more than there are if they are to be unique."
        )
    drawn = build(Draw(count, unique, range_max, even, seed_of(seed)), ())
    classes, tries = drawn[:count], cast(drawn[count], "float32")

    def expected(of: Any) -> Node:
        places = cast(of, "float32")
        if even:
            chance: Any = zeros_like(places) + 1.0 / range_max
        else:
            chance = log1p(1.0 / (places + 1.0)) / math.log(range_max + 1)
        if not unique:
            return chance * float(count)  # type: ignore[no-any-return]
        return 1.0 - exp(tries * log1p(chance * -1.0))  # type: ignore[no-any-return]

    return Sampled(classes, expected(convert(true_classes)), expected(classes))


def _logits(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int,
    sampled_values: Any,
    remove_accidental_hits: bool,
) -> tuple[Node, Node]:
    """Return logits (batch, num_true + num_sampled), and labels that are 1 / num_true or 0."""
    wanted = cast(labels, "int64")
    if not isinstance(wanted.shape.ndims, int) or wanted.shape.ndims != 2:
        raise GraphError(
            f"sampled loss: got labels of shape {wanted.shape}, expected (batch, {num_true}) (node "
            f"{wanted.name!r} built at {wanted.location}). Use expand_dims."
        )
    values = sampled_values or log_uniform_candidate_sampler(
        wanted, num_true, num_sampled, True, num_classes
    )
    drawn, true_count, drawn_count = (build(StopGradient(), (convert(v),)) for v in values)
    drawn = cast(drawn, "int64")
    x, table, starts = convert(inputs), convert(weights), convert(biases)
    own = gather(table, wanted)
    true = reduce_sum(movement.unsqueeze(x, 1) * own, -1) + gather(starts, wanted)
    others = matmul(x, gather(table, drawn), transpose_b=True) + gather(starts, drawn)
    true = true - log(movement.reshape(true_count, (-1, num_true)))
    others = others - log(drawn_count)
    if remove_accidental_hits:
        same = logic.eq(movement.unsqueeze(wanted, 2), drawn)
        hits = reduce_sum(cast_to(same, x.dtype), 1)
        others = others - hits * 1e37
    ones = zeros_like(true) + 1.0 / num_true
    return joining.cat([true, others], 1), joining.cat([ones, zeros_like(others)], 1)


def nce_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = False,
    partition_strategy: str = "mod",
    name: str = "nce_loss",
) -> Node:
    """Return, for each row, the loss of telling its classes from drawn ones.

    Args:
        weights: (num_classes, features). biases: (num_classes,).
        labels: the true classes (batch, num_true), integers.
        inputs: (batch, features).
        sampled_values: what a candidate sampler gave; drawn log-uniformly unless given.
    """
    from .nn import sigmoid_cross_entropy_with_logits

    logits, truth = _logits(
        weights,
        biases,
        labels,
        inputs,
        num_sampled,
        num_classes,
        num_true,
        sampled_values,
        remove_accidental_hits,
    )
    return reduce_sum(sigmoid_cross_entropy_with_logits(labels=truth, logits=logits), 1)


def sampled_softmax_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = True,
    partition_strategy: str = "mod",
    name: str = "sampled_softmax_loss",
) -> Node:
    """Return, for each row, the cross-entropy of a softmax over its classes and drawn ones."""
    from .nn import softmax_cross_entropy_with_logits

    logits, truth = _logits(
        weights,
        biases,
        labels,
        inputs,
        num_sampled,
        num_classes,
        num_true,
        sampled_values,
        remove_accidental_hits,
    )
    return softmax_cross_entropy_with_logits(labels=truth, logits=logits)

"""Losses over very many classes from a few drawn ones: NCE and the sampled softmax.

Sources: Gutmann & Hyvärinen, AISTATS 2010; Mnih & Teh, ICML 2012; Jean et al., ACL 2015.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arrays import CPU, Array, asarray, int64
from ..errors import GraphError
from ..op import Spec
from ..ops import joining, logic, movement
from ..ops.casting import cast_to
from .gradients import StopGradient
from .lined import lined
from .nn import (
    embedding_lookup,
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
)
from .node import Node, build, convert
from .operators.elementwise import exp, log, log1p
from .operators.making import zeros_like
from .operators.math import cast, matmul, reduce_sum
from .operators.random import seed_of
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
    draw = Draw(num_sampled, unique, range_max, even=False, seed=seed_of(seed))
    return _sampled(true_classes, num_true, draw)


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
    draw = Draw(num_sampled, unique, range_max, even=True, seed=seed_of(seed))
    return _sampled(true_classes, num_true, draw)


def _sampled(true_classes: Any, num_true: int, draw: Draw) -> Sampled:
    """Return what `draw` draws, and what it expects of these and of the true classes."""
    if draw.count < 1 or (draw.unique and draw.count > draw.range_max):
        raise GraphError(
            f"candidate sampler: got {draw.count} to draw of {draw.range_max} classes, expected 1 "
            "or more, and no more than there are if they are to be unique."
        )
    true = convert(true_classes)
    if true.shape.ndims == 2 and true.shape[1] not in (None, num_true):
        raise GraphError(
            f"candidate sampler: got true classes of shape {true.shape}, expected {num_true} a "
            f"row, as num_true says (node {true.name!r} built at {true.location})."
        )
    drawn = build(draw, ())
    classes, tries = drawn[: draw.count], cast(drawn[draw.count], "float32")
    return Sampled(classes, _expected(draw, true, tries), _expected(draw, classes, tries))


def _expected(draw: Draw, of: Node, tries: Node) -> Node:
    """Return how often each class is expected among those drawn."""
    places = cast(of, "float32")
    if draw.even:
        chance: Any = zeros_like(places) + 1.0 / draw.range_max
    else:
        chance = log1p(1.0 / (places + 1.0)) / math.log(draw.range_max + 1)
    if not draw.unique:
        return chance * float(draw.count)  # type: ignore[no-any-return]
    return 1.0 - exp(tries * log1p(chance * -1.0))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Contest:
    """What both losses are given.

    Attributes:
        weights, biases: of all classes, (classes, features) and (classes,); each a node or a list
            of parts, in which `partition_strategy` finds the rows.
        labels: the true classes (batch, num_true).
        inputs: (batch, features).
        sampled_values: what a candidate sampler gave; None to draw log-uniformly.
    """

    weights: Any
    biases: Any
    labels: Any
    inputs: Any
    num_sampled: int
    num_classes: int
    num_true: int
    sampled_values: Any
    remove_accidental_hits: bool
    partition_strategy: str

    def rows(self, table: Any, classes: Node) -> Node:
        """Return the rows of a table, or of its parts, that belong to classes."""
        return embedding_lookup(table, classes, self.partition_strategy)

    def wanted(self) -> Node:
        """Return the true classes.

        Raises:
            GraphError: they are no matrix.
        """
        found = cast(self.labels, "int64")
        if found.shape.ndims != 2 or found.shape[1] not in (None, self.num_true):
            raise GraphError(
                f"sampled loss: got labels of shape {found.shape}, expected (batch, "
                f"{self.num_true}) (node {found.name!r} built at {found.location}). Use "
                "expand_dims."
            )
        return found

    def logits(self) -> tuple[Node, Node]:
        """Return logits (batch, num_true + num_sampled), and labels that are 1 / num_true or 0."""
        wanted, x = self.wanted(), convert(self.inputs)
        values = self.sampled_values or log_uniform_candidate_sampler(
            wanted, self.num_true, self.num_sampled, True, self.num_classes
        )
        drawn, true_count, drawn_count = (build(StopGradient(), (convert(v),)) for v in values)
        drawn = cast(drawn, "int64")
        own = self.rows(self.weights, wanted)
        true = reduce_sum(movement.unsqueeze(x, 1) * own, -1) + self.rows(self.biases, wanted)
        others = matmul(x, self.rows(self.weights, drawn), transpose_b=True)
        others = others + self.rows(self.biases, drawn)
        true = true - log(movement.reshape(true_count, (-1, self.num_true)))
        others = others - log(drawn_count)
        if self.remove_accidental_hits:
            same = logic.eq(movement.unsqueeze(wanted, 2), drawn)
            others = others - reduce_sum(cast_to(same, x.dtype), 1) * 1e37
        truth = zeros_like(true) + 1.0 / self.num_true
        return joining.cat([true, others], 1), joining.cat([truth, zeros_like(others)], 1)


@lined
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
    name: str | None = None,
) -> Node:
    """Return, for each row, the loss of telling its classes from drawn ones.

    Args:
        weights: (num_classes, features), or a list of parts of it. biases: (num_classes,), or a
            list of parts.
        labels: the true classes (batch, num_true), integers.
        inputs: (batch, features).
        sampled_values: what a candidate sampler gave; drawn log-uniformly unless given.
        partition_strategy: how classes lie in the parts, "mod" or "div"; see `embedding_lookup`.
    """
    given = (weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values)
    logits, truth = Contest(*given, remove_accidental_hits, partition_strategy).logits()
    each = sigmoid_cross_entropy_with_logits(labels=truth, logits=logits)
    return reduce_sum(each, 1, name=name)


@lined
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
    name: str | None = None,
) -> Node:
    """Return, for each row, the cross-entropy of a softmax over its classes and drawn ones.

    The arguments are those of `nce_loss`.
    """
    given = (weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values)
    logits, truth = Contest(*given, remove_accidental_hits, partition_strategy).logits()
    return softmax_cross_entropy_with_logits(labels=truth, logits=logits, name=name)

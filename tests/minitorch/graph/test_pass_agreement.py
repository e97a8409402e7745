"""Random graphs agree before and after each pass; after a wrong pass they do not."""

from collections.abc import Collection, Sequence
from typing import Any

import pytest

import minitorch.graph as tf
from minitorch.graph.core.node import Node
from minitorch.graph.costs.machine import Fixed, use
from minitorch.graph.passes.algebra import algebra, simplifying
from minitorch.graph.passes.cse import cse, sharing
from minitorch.graph.passes.fold import fold, folding
from minitorch.graph.passes.loops import Pass, inside
from minitorch.graph.passes.optimize import PASSES, run_pass, same_nodes, simplify, verify_pass
from minitorch.graph.passes.rematerialize import rematerialize
from minitorch.graph.passes.rewrite import rebuild, rewrite, simple
from minitorch.ops.elementwise import binary
from tests.minitorch.graph import random_graphs as graphs

pytestmark = [pytest.mark.as_built, pytest.mark.usefixtures("without_kernels")]


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=pytest.mark.wide if n % 2 else ()) for n in range(200)]
)
def test_a_random_graph_agrees_before_and_after_each_pass(seed: int) -> None:
    graph = graphs.RandomGraph(seed)
    want = graph.run(graph.fetches)
    leaves = list(graph.fetches)
    for name in PASSES:
        leaves = run_pass(name, leaves, set(graph.feeds))
        assert graphs.largest_difference(graph.run(leaves), want) <= 1e-9, name


def test_random_graphs_agree_when_all_that_is_cheap_is_computed_again() -> None:
    changed = 0
    for seed in range(80):
        graph = graphs.RandomGraph(seed)
        want = graph.run(graph.fetches)
        before = tf.optimize(list(graph.fetches))
        after = rematerialize(before, set(graph.feeds), beyond_bytes=0)
        verify_pass(after, before, set(graph.feeds), "rematerialize")
        changed += operators(after) > operators(before)
        assert graphs.largest_difference(graph.run(after), want) <= 1e-9, seed
    assert changed >= 5


def left_by(walk: Pass) -> int:
    """How many of 40 random graphs a walk leaves with something to do for its rules."""
    unfinished = 0
    for seed in range(40):
        graph = graphs.RandomGraph(seed)
        fed = set(graph.feeds)
        after = walk(list(graph.fetches), fed)
        assert graphs.largest_difference(graph.run(after), graph.run(graph.fetches)) <= 1e-9, seed
        unfinished += any(not same_nodes(p(after, fed), after) for p in (fold, algebra, cse))
    return unfinished


def test_one_walk_leaves_nothing_to_do() -> None:
    assert left_by(inside(simplify)) == 0


def test_a_walk_that_does_not_ask_again_is_found_out() -> None:
    def once(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
        rules = (folding(fed), simplifying(fetches, fed), sharing(fed))

        def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
            answers = (each(node, inputs) for each in rules)
            return next((answer for answer in answers if answer is not None), None)

        return rewrite(fetches, rule, fed)

    assert left_by(inside(once)) > 0


def operators(fetches: list[Node]) -> int:
    return sum(node.op is not None for node in _all(fetches))


@pytest.mark.parametrize("seed", range(400, 415))
def test_a_random_graph_agrees_when_kernels_compute_all_they_can(seed: int) -> None:
    graph = graphs.RandomGraph(seed)
    want = graph.run(graph.fetches)
    with use(_Eager()):
        leaves = run_pass("fuse", list(graph.fetches), set(graph.feeds))
    assert graphs.largest_difference(graph.run(leaves), want) <= 1e-9


class _Eager(Fixed):
    """A machine on which a kernel costs nothing, so that every group becomes one."""

    smallest = 0

    def _kernel(self, row: str) -> tuple[float, float, float]:
        return 0.0, 0.0, 0.0


def _wrong(fetches: Any, fed: Any = ()) -> list[Node]:
    """A pass that takes a - b for b - a."""

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        if simple(node) and node.op is binary.sub.op and inputs[0].shape == inputs[1].shape:
            return rebuild(node.op, inputs[1], inputs[0])
        return None

    return rewrite(fetches, rule, fed)


def test_a_wrong_pass_is_found_out_by_its_values_though_its_types_are_right() -> None:
    found = 0
    for seed in range(20):
        graph = graphs.RandomGraph(seed)
        want = graph.run(graph.fetches)
        before = list(graph.fetches)
        after = verify_pass(_wrong(before), before, set(graph.feeds), "wrong")
        found += graphs.largest_difference(graph.run(after), want) > 1e-9
    assert found >= 5


def test_the_graphs_hold_what_passes_must_survive() -> None:
    kinds: set[str] = set()
    for seed in range(60):
        graph = graphs.RandomGraph(seed)
        for node in _all(graph.fetches):
            kinds.add(type(node.op).__name__ if node.op is not None else type(node).__name__)
    assert kinds >= {"Switch", "Merge", "While", "Assign", "Read", "MatMul", "Permute", "Variable"}


def _all(fetches: list[Node]) -> list[Node]:
    from minitorch.graph.core.order import list_needed

    return list_needed(fetches, ())

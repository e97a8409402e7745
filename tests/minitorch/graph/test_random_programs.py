"""Random programs with loops, branches and effects: passes and executors keep what they do."""

from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.graph.control.while_op import While
from minitorch.graph.core.order import list_needed
from minitorch.graph.passes.optimize import PASSES, run_pass
from tests.minitorch.graph import random_programs as programs

pytestmark = [pytest.mark.as_built, pytest.mark.usefixtures("without_kernels")]


OPTIONS: list[dict[str, Any]] = [
    {}, {"executor": "interpreter"}, {"executor": "tokens", "shuffle": 3},
    {"optimize": True},
    {"executor": "tokens", "shuffle": 4, "optimize": True}, {"executor": "arena", "poison": True},
    {"executor": "arena", "poison": True, "optimize": True},
]  # fmt: skip


def agree(got: list[Any], want: list[Any]) -> None:
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


def passes_agree(seed: int, effects: bool, depth: int = 1) -> None:
    program = programs.RandomProgram(seed, depth, effects)
    want = program.run(program.fetches, 1 + effects, executor="interpreter")
    leaves = list(program.fetches)
    for i, name in enumerate(PASSES):
        before, leaves = leaves, run_pass(name, leaves, set(program.feeds))
        if all(a is b for a, b in zip(before, leaves, strict=True)):
            continue
        try:
            agree(program.run(leaves, 1 + effects, **OPTIONS[(seed + i) % 4]), want)
        except AssertionError as error:
            error.add_note(f"after {name}")
            raise


def executors_agree(seed: int, depth: int = 1) -> None:
    program = programs.RandomProgram(seed, depth)
    want = program.run(program.fetches, executor="interpreter")
    for options in OPTIONS:
        agree(program.run(program.fetches, **options), want)


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=pytest.mark.wide if n % 3 else ()) for n in range(200)]
)
def test_a_program_of_loops_and_branches_agrees_before_and_after_each_pass(seed: int) -> None:
    passes_agree(seed, effects=False, depth=1 + (seed % 20 == 0))


@pytest.mark.parametrize("seed", range(200, 225))
def test_a_program_with_effects_agrees_before_and_after_each_pass(seed: int) -> None:
    passes_agree(seed, effects=True, depth=1 + (seed % 20 == 0))


@pytest.mark.parametrize("seed", range(300, 315))
def test_a_program_with_effects_is_the_same_on_every_executor(seed: int) -> None:
    executors_agree(seed)


@pytest.mark.wide
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_many_more_programs(seed: int) -> None:
    passes_agree(seed, effects=True, depth=2)
    executors_agree(seed, depth=2)


def test_the_programs_hold_what_passes_must_survive() -> None:
    kinds: set[str] = set()
    for seed in range(30):
        kinds |= kinds_in(programs.RandomProgram(seed).fetches, ())
    assert kinds >= {"Switch", "Merge", "While", "Assign", "Read", "MatMul", "Random"}
    assert "While inside" in kinds


def test_optimizing_twice_is_optimizing_once() -> None:
    for seed in range(20):
        program = programs.RandomProgram(seed)
        once = tf.optimize(program.fetches, set(program.feeds))
        twice = tf.optimize(once, set(program.feeds))
        assert all(a is b for a, b in zip(once, twice, strict=True))
        assert count_all(once) <= count_all(program.fetches)


def count_all(fetches: Any, fed: Any = ()) -> int:
    """Return the number of nodes, those inside loops included, each once."""
    nodes = list_needed(fetches, set(fed))
    loops = [node.op for node in nodes if isinstance(node.op, While) and node not in fed]
    return len(nodes) + sum(count_all([p.test, *p.body, *p.saved], p.placeholders) for p in loops)


def kinds_in(ends: Any, fed: Any, inside: str = "") -> set[str]:
    found: set[str] = set()
    for node in list_needed(ends, fed):
        found.add(type(node.op).__name__)
        if isinstance(node.op, While):
            loop = node.op
            found |= {f"While{inside}"} | kinds_in(
                [loop.test, *loop.body], {*loop.variables, *loop.entrances}, " inside"
            )
    return found

"""Constants that a run feeds, brought into the loops that have them inside.

A loop captures what it uses from outside, but for constants, which stay as they are within. One
that is fed is no constant in that run, so it is captured like anything else.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..control.loop_stacks import Slot, placeholder_like
from ..control.while_op import While
from ..core.copying import copied
from ..core.graph import outside
from ..core.node import Constant, Node
from ..core.order import needed
from .loops import Remade, each_loop, kept_places, with_loops
from .rewrite import like


def fed_constants(fetches: Sequence[Node], fed: Collection[Node]) -> list[Node]:
    """Return nodes of the same values whose loops take the constants among `fed` from outside."""
    constants = [node for node in fed if isinstance(node, Constant)]

    def run(nodes: Sequence[Node], given: Collection[Node]) -> list[Node]:
        return with_loops(each_loop(nodes, given, run), given, remade)

    def remade(node: Node, inputs: tuple[Node, ...], asked: Collection[Slot]) -> Remade | None:
        return _capturing(node, inputs, asked, constants)

    return run(fetches, set(fed)) if constants else list(fetches)


def _capturing(
    node: Node, inputs: tuple[Node, ...], asked: Collection[Slot], constants: Sequence[Node]
) -> Remade | None:
    """Return the loop with those of `constants` captured that are inside; None if none is."""
    loop: While = node.op
    places, saved = kept_places(loop, asked)
    ends = [loop.test, *loop.body, *saved]
    there = set(needed(ends, {*loop.variables, *loop.entrances}))
    found = [constant for constant in constants if constant in there]
    if not found:
        return None
    with like(node), outside():
        entrances = [placeholder_like(constant, "captured") for constant in found]
    new: dict[Node, Node] = {p: p for p in (*loop.variables, *loop.entrances)}
    new.update(zip(found, entrances, strict=True))
    test, *after = copied(ends, new)
    body, kept = after[: len(loop.body)], after[len(loop.body) :]
    every = [*loop.entrances, *entrances]
    made = While.over(test, body, loop.variables, every, kept, loop.parallel_iterations)
    return Remade(made, (*inputs, *found), places)

"""What of a lowered graph is drawn, and which tokens an operator took.

Constants are left out: they are written into the operators that use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitorch.graph.core.node import Constant, Node
from minitorch.graph.executors.tokens.lower import lower
from minitorch.graph.executors.tokens.program import TokenEvent
from minitorch.graph.executors.tokens.ring import Enter
from minitorch.show.numbers import brief

Tokens = list[list[tuple[int, TokenEvent]]]
"""For each operator drawn, (position, token) of everything that it sent."""


class Shown:
    """What of the lowered graph is drawn: no constants, and no Switch that only carries control.

    Attributes:
        nodes: in order.
        place: their numbers, by name.
        sources: for each the numbers of the nodes whose tokens it takes.
        constants: for each the constants that it uses, by the place among its inputs.
    """

    def __init__(self, leaves: Sequence[Node], fed: Sequence[Node]) -> None:
        lowered = lower(leaves, set(fed))
        hidden = {node for node in lowered.nodes if _is_constant(node)}
        used = {source for node in lowered.nodes for source in node.inputs}
        kept = {*lowered.fetches}
        hidden |= {
            node
            for node in lowered.nodes
            if node not in used and node not in kept and getattr(node.op, "name", "") == "Switch"
        }
        self.nodes = [node for node in lowered.nodes if node not in hidden]
        self.place = {node.name: i for i, node in enumerate(self.nodes)}
        at = {node: i for i, node in enumerate(self.nodes)}
        self.sources = [[at[s] for s in node.inputs if s in at] for node in self.nodes]
        self.constants = [
            [brief(_constant(s).value, 10) for s in node.inputs if s in hidden and _is_constant(s)]
            for node in self.nodes
        ]


def _is_constant(node: Node) -> bool:
    """Tell whether a node is a constant, or brings one into a loop for every iteration."""
    entered = isinstance(node.op, Enter) and node.op.constant
    return isinstance(node, Constant) or (entered and isinstance(node.inputs[0], Constant))


def _constant(node: Node) -> Any:
    return node if isinstance(node, Constant) else node.inputs[0]


def taken(shown: Shown, i: int, at: int, tokens: Tokens) -> list[tuple[int, TokenEvent]]:
    """Return (source, token) of what operator `i` took at a position.

    Of a Merge's tokens it is the one that counted.
    """
    sent = [(source, last(tokens[source], at)) for source in dict.fromkeys(shown.sources[i])]
    found = [(source, token) for source, token in sent if token is not None]
    op = shown.nodes[i].op
    if op is not None and op.name == "Merge":
        return sorted(found, key=lambda pair: (not pair[1].dead, pair[1].step))[-1:]
    return found


def last(tokens: list[tuple[int, TokenEvent]], before: int) -> TokenEvent | None:
    """Return the last token sent before a position."""
    found = [event for at, event in tokens if at < before]
    return found[-1] if found else None

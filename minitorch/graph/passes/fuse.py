"""Elementwise fusion: a tree of elementwise operators runs as one, block by block.

The blocks are small enough for every temporary to stay in the cache, so memory is read once and
written once however many operators there are; and the tree is one Python function, so a small one
costs one call. It is NumPy all the way: no code is generated but that function's few lines.

A node joins the operator that uses it when it is elementwise, used only there, and of the same
shape; `reasons` says for every elementwise edge that was not fused why not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ...arrays import Array
from ...op import Op, Spec
from ...ops.pointwise import Power
from ...ops.rows import Elementwise
from ..node import Node, UnknownShape
from ..order import schedule
from .rewrite import rebuilt, rewrite, simple, users_of

BLOCK = 65_536  # elements: 256 KiB of float32, so a few temporaries fit a level-2 cache
LARGE = 2**22  # elements: below this the whole arrays fit the last cache, and blocks gain nothing


class Fused(Op):
    """Several elementwise operators as one.

    Attributes:
        parts: the operators, inputs first; an integer operand is an input of the whole, a negative
            one the result of part -1 - operand.
    """

    reads_output = False

    def __init__(self, parts: Sequence[tuple[Op, tuple[int, ...]]]) -> None:
        self.parts = tuple(parts)
        self._function = _expression(self.parts)

    @property
    def name(self) -> str:
        """The operators' names, last first."""
        return "fused_" + "_".join(op.name for op, _ in reversed(self.parts))

    def compute(self, xp: Any, *arrays: Array) -> Array:
        """Return the last part's result; large NumPy arrays go block by block."""
        blocks = _blocks(arrays) if xp is np else None
        if blocks is None:
            return self._function(xp, *arrays)
        flat, shape, count = blocks
        first = np.asarray(self._function(xp, *[a[:BLOCK] if a.ndim else a for a in flat]))
        out = np.empty(count, first.dtype)
        out[:BLOCK] = first
        for start in range(BLOCK, count, BLOCK):
            piece = slice(start, start + BLOCK)
            out[piece] = self._function(xp, *[a[piece] if a.ndim else a for a in flat])
        return out.reshape(shape)

    def infer(self, *specs: Spec) -> Spec:
        """Return what the parts infer, one after another."""
        found: list[Spec] = []
        for op, operands in self.parts:
            found.append(op.infer(*[found[-1 - i] if i < 0 else specs[i] for i in operands]))
        return found[-1]

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Differentiate the parts as they were, rebuilt over the same inputs."""
        from ..gradients import gradients

        values: list[Any] = []
        for op, operands in self.parts:
            sources = [values[-1 - i] if i < 0 else node.inputs[i] for i in operands]
            values.append(op(*sources))
        return tuple(gradients(values[-1], list(node.inputs), out_grad))

    def attributes(self) -> dict[str, Any]:
        """Return the parts."""
        return {"parts": self.parts}


def fuse(
    fetches: Sequence[Node],
    fed: Collection[Node] = (),
    reasons: list[str] | None = None,
) -> list[Node]:
    """Return the fetches with trees of elementwise operators fused.

    Args:
        reasons: a list that gets a line for each elementwise edge that was left.
    """
    order = schedule(fetches, fed)
    uses = users_of(order, fetches)
    joins: set[Node] = set()
    for node in order:
        if not _fusible(node, fed):
            continue
        for source in node.inputs:
            if _fusible(source, fed):
                why = _why_not(source, node, uses)
                if not why:
                    joins.add(source)
                elif reasons is not None:
                    reasons.append(f"{source.name} -> {node.name}: {why}")

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        if node in joins or not any(source in joins for source in node.inputs):
            return None
        parts: list[tuple[Op, tuple[int, ...]]] = []
        leaves: list[Node] = []
        _collect(node, inputs, joins, parts, leaves)
        return rebuilt(Fused(parts), *leaves)

    return rewrite(fetches, rule, fed)


def _collect(
    node: Node,
    inputs: Sequence[Node],
    joins: Collection[Node],
    parts: list[tuple[Op, tuple[int, ...]]],
    leaves: list[Node],
) -> int:
    """Add `node` and what joins it to `parts`; return its number as an operand."""
    operands = []
    for old, new in zip(node.inputs, inputs, strict=True):
        if old in joins:
            operands.append(_collect(old, new.inputs, joins, parts, leaves))
            continue
        place = next((i for i, leaf in enumerate(leaves) if leaf is new), len(leaves))
        if place == len(leaves):
            leaves.append(new)
        operands.append(place)
    parts.append((node.op, tuple(operands)))
    return -len(parts)


def _fusible(node: Node, fed: Collection[Node]) -> bool:
    return (
        node not in fed
        and simple(node)
        and isinstance(node.op, Elementwise | Power)
        and not isinstance(node.shape, UnknownShape)
    )


def _why_not(source: Node, node: Node, uses: dict[Node, int]) -> str:
    """Return why `source` is not computed inside `node`; empty when it is."""
    if uses[source] != 1:
        return f"used {uses[source]} times"
    if tuple(source.shape) != tuple(node.shape):
        return f"shape {tuple(source.shape)} is not {tuple(node.shape)}"
    return ""


def _expression(parts: Sequence[tuple[Op, tuple[int, ...]]]) -> Callable[..., Array]:
    """Return a Python function that computes the parts as one nested expression."""
    names: dict[str, Any] = {f"f{i}": op.compute for i, (op, _) in enumerate(parts)}
    texts: list[str] = []
    count = 0
    for i, (_, operands) in enumerate(parts):
        arguments = ", ".join(texts[-1 - o] if o < 0 else f"x{o}" for o in operands)
        count = max([count, *(o + 1 for o in operands)])
        texts.append(f"f{i}(xp, {arguments})")
    inputs = "".join(f", x{i}" for i in range(count))
    exec(f"def function(xp{inputs}):\n    return {texts[-1]}", names)
    function: Callable[..., Array] = names["function"]
    return function


def _blocks(arrays: Sequence[Array]) -> tuple[list[Array], tuple[int, ...], int] | None:
    """Return the arrays flat, their shape and size; None where blocks are not possible or wise."""
    shape = max((a.shape for a in arrays), key=len, default=())
    count = int(np.prod(shape, dtype=np.int64))
    if count < LARGE:
        return None
    flat = []
    for array in arrays:
        if array.shape == shape and array.flags.c_contiguous:
            flat.append(array.reshape(-1))
        elif array.size == 1:
            flat.append(array.reshape(()))
        else:
            return None
    return flat, shape, count

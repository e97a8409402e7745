"""From a value to a drawing: the operators behind it, with shapes, numbers and gradients.

Works on any kind of value by what all have (`op`, `inputs`, `shape`, `dtype`) and asks for the rest
(`array` and `grad` of a tensor; `name` and `control_inputs` of a graph's node).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from minitorch.arrays import Array, to_numpy
from minitorch.op import Value
from minitorch.show.drawing import Arrow, Box, Drawing

FEW = 4  # elements that fit into a box


def draw(roots: Iterable[Value], names: Mapping[int, str], limit: int) -> Drawing:
    """Return the drawing of everything that `roots` are computed from.

    Args:
        roots: tensors or nodes.
        names: what to call a value, by its id.
        limit: draw at most so many boxes, the nearest to the roots; the rest is counted.
    """
    wanted = list(roots)
    kept, hidden = _nearest(wanted, limit)
    order = _inputs_first(kept)
    ends = {id(value) for value in wanted}
    drawing = Drawing(hidden=hidden)
    for value in order:
        drawing.boxes.append(_box(value, names, id(value) in ends))
        for source in value.inputs if value.op is not None else ():
            if id(source) in kept:
                drawing.arrows.append(Arrow(id(source), id(value)))
        for source in getattr(value, "control_inputs", ()):
            if id(source) in kept:
                drawing.arrows.append(Arrow(id(source), id(value), dashed=True))
    return drawing


def text(drawing: Drawing) -> str:
    """Return a drawing as lines of text, one a box, inputs first."""
    place = {box.key: f"%{i}" for i, box in enumerate(drawing.boxes)}
    lines = []
    for box in drawing.boxes:
        inputs = [place[a.source] for a in drawing.arrows if a.target == box.key and not a.dashed]
        after = [place[a.source] for a in drawing.arrows if a.target == box.key and a.dashed]
        call = f"{box.title}({', '.join(inputs)})" if inputs else box.title
        wait = f" after {', '.join(after)}" if after else ""
        lines.append(f"{place[box.key]} = {call}{wait}  {', '.join(box.lines)}".rstrip())
    if drawing.hidden:
        lines.append(f"{drawing.hidden} more not shown")
    return "\n".join(lines)


def _before(value: Value) -> tuple[Value, ...]:
    sources = tuple(value.inputs) if value.op is not None else ()
    return (*sources, *getattr(value, "control_inputs", ()))


def _nearest(roots: list[Any], limit: int) -> tuple[dict[int, Any], int]:
    """Return the `limit` values nearest to the roots by id, and how many more there are."""
    found: dict[int, Any] = {id(value): value for value in roots}
    level = list(found.values())
    while level:
        following = []
        for value in level:
            for source in _before(value):
                if id(source) not in found:
                    found[id(source)] = source
                    following.append(source)
        level = following
    kept = dict(list(found.items())[:limit])
    return kept, len(found) - len(kept)


def _inputs_first(kept: Mapping[int, Any]) -> list[Any]:
    """Return the values so that each stands behind what it is computed from."""
    order: list[Any] = []
    state: dict[int, int] = {}
    for start in kept.values():
        stack = [start]
        while stack:
            value = stack[-1]
            if state.get(id(value)) == 2:
                stack.pop()
                continue
            waiting = [s for s in _before(value) if id(s) in kept and id(s) not in state]
            if waiting and id(value) not in state:
                state[id(value)] = 1
                stack += reversed(waiting)
                continue
            state[id(value)] = 2
            order.append(value)
            stack.pop()
    return order


def _box(value: Value, names: Mapping[int, str], is_root: bool) -> Box:
    op = value.op
    given = names.get(id(value)) or getattr(value, "name", None)
    title = given or (op.name if op is not None else "input")
    lines = [_type(value)]
    if op is not None and given and given != op.name:
        lines.insert(0, op.name)
    if hasattr(value, "array"):
        lines += _numbers(value)
    elif isinstance(constant := getattr(value, "value", None), np.ndarray):
        lines += _summary(constant, "")
    return Box(id(value), str(title), tuple(lines), _kind(value, is_root))


def _type(value: Value) -> str:
    if getattr(value.shape, "ndims", 0) is None:
        return str(value.dtype)
    return f"{tuple(value.shape)} {value.dtype}"


def _numbers(tensor: Any) -> list[str]:
    lines = _summary(to_numpy(tensor.array), "")
    grad = tensor._grad
    return lines + (_summary(to_numpy(grad.array), "grad ") if grad is not None else [])


def _summary(array: Array, what: str) -> list[str]:
    """Return the numbers themselves when few, else their mean and spread."""
    if not array.size:
        return []
    if array.size <= FEW:
        numbers = ", ".join(f"{x:.4g}" for x in array.reshape(-1).astype(float))
        return [what + (numbers if array.size == 1 else f"[{numbers}]")]
    flat = array.astype(np.float64)
    return [f"{what}{flat.mean():.3g} ± {flat.std():.3g}"]


def _kind(value: Value, is_root: bool) -> str:
    kind = type(value).__name__
    if is_root and value.op is not None:
        return "output"
    if value.op is None:
        if kind == "Variable":
            return "state"
        return "parameter" if getattr(value, "requires_grad", False) else "input"
    return "state" if getattr(value.op, "writes", ()) else "operator"

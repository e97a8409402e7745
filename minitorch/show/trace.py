"""From a value to a drawing: the operators behind it, with shapes, numbers and gradients.

Works on any kind of value by what all have (`op`, `inputs`, `shape`, `dtype`) and asks for the rest
(`array` and `grad` of a tensor; `name` and `control_inputs` of a graph's node).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitorch.arrays import Array, to_numpy
from minitorch.op import Value
from minitorch.show.diagram import Boxed, Line, Wire

FEW = 4  # elements that fit into a box
DASHED = "wire dashed"  # an order alone: a control dependency


@dataclass
class Drawing:
    """Boxes in an order in which every arrow points forward, where there is such an order."""

    boxes: list[Boxed] = field(default_factory=list)
    arrows: list[Wire] = field(default_factory=list)
    hidden: int = 0  # boxes left out because there were too many


def draw(roots: Iterable[Value], names: Mapping[int, str], limit: int) -> Drawing:
    """Return the drawing of everything that `roots` are computed from.

    Args:
        roots: tensors or nodes.
        names: what to call a value, by its id.
        limit: draw at most so many boxes, the nearest to the roots; the rest is counted.
    """
    wanted = list(roots)
    order, hidden = nearest(wanted, limit)
    kept = {id(value) for value in order}
    ends = {id(value) for value in wanted}
    drawing = Drawing(hidden=hidden)
    for value in order:
        drawing.boxes.append(_box(value, names, id(value) in ends))
        for sources, classes in ((inputs_of(value), "wire"), (controls_of(value), DASHED)):
            drawing.arrows += [
                Wire(id(source), id(value), classes) for source in sources if id(source) in kept
            ]
    return drawing


def text(drawing: Drawing) -> str:
    """Return a drawing as lines of text, one a box, inputs first."""
    place = {box.key: f"%{i}" for i, box in enumerate(drawing.boxes)}
    inputs: dict[Hashable, list[str]] = {key: [] for key in place}
    after: dict[Hashable, list[str]] = {key: [] for key in place}
    for arrow in drawing.arrows:
        (after if arrow.when == DASHED else inputs)[arrow.target].append(place[arrow.source])
    lines = []
    for box in drawing.boxes:
        title, *rest = (line.text for line in box.lines)
        call = f"{title}({', '.join(inputs[box.key])})" if inputs[box.key] else title
        wait = f" after {', '.join(after[box.key])}" if after[box.key] else ""
        lines.append(f"{place[box.key]} = {call}{wait}  {', '.join(rest)}".rstrip())
    if drawing.hidden:
        lines.append(f"{drawing.hidden} more not shown")
    return "\n".join(lines)


def inputs_of(value: Value) -> tuple[Value, ...]:
    """Return what a value was computed from; nothing for a leaf."""
    return tuple(value.inputs) if value.op is not None else ()


def controls_of(value: Value) -> tuple[Value, ...]:
    """Return what a node only runs after."""
    return tuple(getattr(value, "control_inputs", ()))


def _before(value: Value) -> tuple[Value, ...]:
    return inputs_of(value) + controls_of(value)


def nearest(roots: list[Any], limit: int) -> tuple[list[Any], int]:
    """Return the `limit` values nearest to the roots, inputs first, and how many more there are."""
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
    order = inputs_first(
        list(kept.values()), lambda value: [s for s in _before(value) if id(s) in kept]
    )
    return order, len(found) - len(kept)


def inputs_first(
    roots: Sequence[Any], before: Callable[[Any], Sequence[Any]], seen: set[int] | None = None
) -> list[Any]:
    """Return the roots and all before them, but those `seen`, each behind what it comes from."""
    order: list[Any] = []
    seen = set() if seen is None else seen
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        value, ready = stack.pop()
        if ready:
            order.append(value)
        elif id(value) not in seen:
            seen.add(id(value))
            stack.append((value, True))
            stack += [(source, False) for source in reversed(before(value))]
    return order


def _box(value: Value, names: Mapping[int, str], is_root: bool) -> Boxed:
    op = value.op
    given = names.get(id(value)) or getattr(value, "name", None)
    title = given or (op.name if op is not None else "input")
    lines = [Line(str(title), "bold")]
    if op is not None and given and given != op.name:
        lines.append(Line(op.name, "small muted"))
    lines.append(Line(type_of(value), "small muted"))
    if hasattr(value, "array"):
        lines += _numbers(value)
    elif isinstance(constant := getattr(value, "value", None), np.ndarray):
        lines += _summary(constant, "value")
    return Boxed(id(value), tuple(lines), _kind(value, is_root), round=op is None)


def type_of(value: Value) -> str:
    """Return the shape, where it is known, and the dtype."""
    if getattr(value.shape, "ndims", 0) is None:
        return str(value.dtype)
    return f"{tuple(value.shape)} {value.dtype}"


def _numbers(tensor: Any) -> list[Line]:
    grad = tensor._grad
    lines = _summary(to_numpy(tensor.array), "value")
    return lines + (_summary(to_numpy(grad.array), "grad") if grad is not None else [])


def _summary(array: Array, kind: str) -> list[Line]:
    """Return the numbers themselves when few, else their mean and spread."""
    if not array.size:
        return []
    flat = array.reshape(-1).astype(np.float64)
    said = f"{flat.mean():.3g} ± {flat.std():.3g}"
    if array.size <= FEW:
        numbers = ", ".join(f"{x:.4g}" for x in flat)
        said = numbers if array.size == 1 else f"[{numbers}]"
    return [Line("grad " * (kind == "grad") + said, f"code {kind}")]


def _kind(value: Value, is_root: bool) -> str:
    if value.op is None:
        is_state = type(value).__name__ == "Variable" or getattr(value, "requires_grad", False)
        return "box good" if is_state else "box value"
    if is_root:
        return "box grad"
    return "box good" if getattr(value.op, "writes", ()) else "box"

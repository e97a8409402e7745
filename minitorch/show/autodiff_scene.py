"""The autodiff stepper: a computation forward and backward, an operator a step, with values."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any

from minitorch.errors import ArgumentError
from minitorch.op import Value
from minitorch.show.asked import names_by_id
from minitorch.show.diagram import Boxed, Line, Paths, Wire, draw
from minitorch.show.numbers import brief, listing, plural
from minitorch.show.record import Record, Visit, record
from minitorch.show.scene import (
    ALWAYS,
    Canvas,
    Drag,
    Scene,
    Step,
    Travel,
    forever,
    light_up,
    phases,
)

if TYPE_CHECKING:
    from minitorch.graph.core.node import Node
    from minitorch.graph.core.session import Session


HINT = "A box is a value. Step with the arrow keys."
LEGEND = (
    ("box idle", "not yet computed"),
    ("box value", "its numbers are known"),
    ("box grad", "its gradient is complete"),
)


def step_through(
    value: Value,
    *,
    names: object = None,
    feed_dict: "Mapping[Node, object] | None" = None,
    session: "Session | None" = None,
    title: str = "Forward, then backward",
) -> Scene:
    """Return how `value` was computed and differentiated, to be stepped through.

    Of a large computation the part nearest to `value` is shown.

    Args:
        value: a tensor, or a node of a dataflow graph, which is run.
        names: what to call leaves: a module, whose parameters have names, or a dict by name.
        feed_dict, session: for a node of a dataflow graph: how to run it.
    Raises:
        ArgumentError: `value` is neither.
    """
    return scene_of(record(value, names_by_id(names), feed_dict, session), title)


def draggable(make: Callable[[float], Scene], name: str, values: Sequence[float]) -> Scene:
    """Return a scene in which the value called `name` can be dragged.

    Args:
        make: what returns the scene for a value.
        values: those to stop at, in order; the scene opens at the middle one.
    Raises:
        ArgumentError: there is no value, or no box is called `name`.
    """
    if not values:
        raise ArgumentError("draggable: got no values, expected one or more.")
    scenes = tuple(make(value) for value in values)
    for scene in scenes:
        _add_handle(scene, name)
    at = len(values) // 2
    hint = f"{scenes[at].hint} Drag the value of {name}."
    return replace(scenes[at], hint=hint, drag=Drag(name, tuple(values), scenes, at))


def _add_handle(scene: Scene, name: str) -> None:
    """Mark the box called `name`, and what is written in it, as what is dragged."""
    named = next((i for i, mark in enumerate(scene.marks) if mark.text == name), None)
    if named is None:
        raise ArgumentError(f"draggable: got the name {name!r}, expected that of a box.")
    drawn = takewhile(lambda mark: mark.shape == "rect", reversed(scene.marks[:named]))
    written = takewhile(lambda mark: mark.shape == "text", scene.marks[named:])
    for mark in (*drawn, *written):
        mark.attrs["data-handle"] = name


def scene_of(record: Record, title: str = "Forward, then backward") -> Scene:
    """Return the scene of a recorded computation."""
    work = [i for i, op in enumerate(record.ops) if op]
    computed = {i: k + 1 for k, i in enumerate(work)}
    first_back = len(work) + 1
    visited = {visit.place: first_back + k for k, visit in enumerate(record.visits)}
    sums = _sums(record, first_back)
    canvas = Canvas()
    boxes = [_box(record, i, computed, visited, sums) for i in range(len(record.names))]
    drawn = draw(canvas, boxes, _wires(record, computed, first_back))
    steps = [Step(_opening(record))]
    steps += [_forward(record, i, k, work, drawn.paths) for i, k in computed.items()]
    steps += [_backward(record, v, k, drawn.paths) for k, v in enumerate(record.visits)]
    if record.problem:
        steps.append(Step("Backward stops here.", (record.problem,)))
    return Scene(
        title, HINT, "Forward and backward", _summary(record), drawn.width, drawn.height,
        tuple(canvas.marks), tuple(steps), len(steps) - 1, LEGEND,
    )  # fmt: skip


# ── the picture ─────────────────────────────────────────────────────────────────────────────────

Sums = dict[int, list[tuple[int, Any, int]]]
"""For each value: (position, sum of the shares so far, how many they are)."""


def _sums(record: Record, first_back: int) -> Sums:
    sums: Sums = {}
    for k, visit in enumerate(record.visits):
        if visit.place not in sums:
            uses = max(record.uses.get(visit.place, 0), 1)
            sums[visit.place] = [(first_back + k, visit.grad, uses)]
        for source, share in visit.shares:
            before = sums.setdefault(source, [])
            total = share if not before else before[-1][1] + share
            before.append((first_back + k, total, len(before) + 1))
    return sums


def _box(
    record: Record, i: int, computed: dict[int, int], visited: dict[int, int], sums: Sums
) -> Boxed:
    begin = computed.get(i, 0)
    lines = heading(record, i)
    if record.numbers[i] is not None:
        lines.append(Line(brief(record.numbers[i]), forever(begin, "code value")))
    row = len(lines)
    so_far, uses = {}, record.uses.get(i, 0)
    for at, total, count in sums.get(i, []):  # the last at a position
        so_far[at] = f"grad {brief(total)}" + f"  ({count} of {uses})" * (uses > 1)
    lines += [
        Line(so_far[at], ((at, later, "code grad"),), row)
        for at, later in pairwise([*sorted(so_far), ALWAYS])
    ]
    base = "box" if record.numbers[i] is None else "box value"
    changes: list[tuple[int, str | None]] = [(0, "box idle" if begin else base), (begin, base)]
    if i in visited:
        changes.append((visited[i], "box grad"))
    rings = tuple(at for at in (begin, visited.get(i, 0)) if at)
    return Boxed(i, tuple(lines), phases(sorted(changes, key=lambda c: c[0])), rings,
                 round=not record.ops[i])  # fmt: skip


def heading(record: Record, i: int) -> list[Line]:
    """Return the lines of a box that say what it is: its name, its operator and its type."""
    head = record.names[i]
    kind = " · ".join(part for part in (record.ops[i], record.types[i]) if part and part != head)
    return [Line(head, "bold"), *([Line(kind, "small muted")] if kind else [])]


def _wires(record: Record, computed: dict[int, int], first_back: int) -> list[Wire]:
    back = {visit.place: (first_back + k, visit) for k, visit in enumerate(record.visits)}
    wires = []
    for i, sources in enumerate(record.inputs):
        for source in sources:
            moments = {computed[i]: "wire value"}
            at, visit = back.get(i, (0, None))
            if visit is not None and any(place == source for place, _ in visit.shares):
                moments[at] = "wire grad"
            wires.append(Wire(source, i, light_up("wire", moments)))
    return wires + control_wires(record)


def control_wires(record: Record) -> list[Wire]:
    """Return the arrows that are an order alone."""
    ordered = enumerate(record.controls)
    return [Wire(before, i, "wire dashed") for i, all_ in ordered for before in all_]


# ── the words ───────────────────────────────────────────────────────────────────────────────────


def _opening(record: Record) -> str:
    leaves = [name for name, op in zip(record.names, record.ops, strict=True) if not op]
    some = listing(leaves[:4]) + (f" and {len(leaves) - 4} more" if len(leaves) > 4 else "")
    return f"Before the first step: {some or 'nothing'} given, nothing computed."


def _forward(record: Record, i: int, k: int, work: list[int], paths: Paths) -> Step:
    names = [record.names[s] for s in record.inputs[i]]
    inputs = f" from {listing(names)}" if names else ""
    result = record.numbers[i]
    gives = f": {brief(result)}" if result is not None else ""
    text = f"Forward {k} of {len(work)}: {_describe(record, i)}{inputs}{gives}."
    rows = [
        f"{record.names[s]} = {brief(record.numbers[s], 90)}"
        for s in dict.fromkeys(record.inputs[i])
        if record.numbers[s] is not None
    ]
    ways = _ways(record.inputs[i], i, paths)
    return Step(text, tuple(rows), tuple(Travel(d) for d in ways))


def _describe(record: Record, i: int) -> str:
    name, op = record.names[i], record.ops[i]
    return op if name == op or name.startswith(f"{op} ") else f"{name} by {op}"


def _ways(sources: Iterable[int], target: int, paths: Paths) -> list[str]:
    """Return the paths from these to `target`; of several from one the first comes first."""
    left = {key: iter(drawn) for key, drawn in paths.items()}
    return [next(left[source, target]) for source in sources]


def _backward(record: Record, visit: Visit, k: int, paths: Paths) -> Step:
    i, count = visit.place, len(record.visits)
    name = record.names[i]
    whole = f"the gradient of {name} is complete, {brief(visit.grad)}"
    if i in record.roots:
        whole = f"the gradient of {name} with respect to itself is {brief(visit.grad)}"
    hands = ""
    if visit.shares:
        targets = list(dict.fromkeys(record.names[s] for s, _ in visit.shares))
        hands = f"; {record.ops[i]} hands {'a share' if len(targets) == 1 else 'shares'} to "
        hands += listing(targets)
    rows = [_share(record, visit, n, k) for n in range(len(visit.shares))]
    ways = _ways([source for source, _ in visit.shares], i, paths)
    travels = tuple(Travel(d, "grad", back=True) for d in ways)
    return Step(f"Backward {k + 1} of {count}: {whole}{hands}.", tuple(rows), travels)


def _share(record: Record, visit: Visit, n: int, k: int) -> str:
    """Say what the n-th share of the k-th visit is, and whether others are still to come."""
    source, share = visit.shares[n]
    uses = record.uses.get(source, 0)
    text = f"{record.names[source]} gets {brief(share, 90)}"
    if uses < 2:
        return text
    before = [s for earlier in record.visits[:k] for s, _ in earlier.shares]
    so_far = [*before, *(s for s, _ in visit.shares[: n + 1])].count(source)
    outlook = (
        "all are here: their sum is its gradient" if so_far == uses else "the sum waits for more"
    )
    return f"{text}; it was used {uses} times and has {plural(so_far, 'share')}: {outlook}"


def _summary(record: Record) -> str:
    ops = sum(map(bool, record.ops))
    inputs = plural(len(record.ops) - ops, "input")
    text = f"A computation of {plural(ops, 'operator')} over {inputs}"
    if record.visits:
        text += f", and the {plural(len(record.visits), 'step')} of its reverse sweep"
    result = record.numbers[record.roots[0]]
    if result is not None:
        text += f". It gives {brief(result)}"
    if record.hidden:
        text += f". {plural(record.hidden, 'value')} farther away not shown"
    return text + "."

"""One model, two ways: imperative code and symbolic code side by side, a statement a step."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from minitorch.arrays.library import Array, to_numpy
from minitorch.graph.core.node import Constant, Node
from minitorch.show.diagram import CHAR_W, Boxed, Line, Wire, draw
from minitorch.show.listings import Statement, run_imperative, run_symbolic
from minitorch.show.numbers import brief, plural
from minitorch.show.record import inputs_of
from minitorch.show.scene import ALWAYS, Canvas, Scene, Step, forever, phases

HINT = (
    "Left: each line computes at once. Right: a line only builds; nothing has a number until the "
    "session runs. The same picture grows on both sides."
)
LEGEND = (
    ("box idle", "built: no number"),
    ("box value", "has a number"),
    ("box grad", "has its gradient"),
)
LINE, TOP, COLUMN, GAP = 17.0, 30.0, 430.0, 40.0


def both_ways(imperative: str, symbolic: str, *, title: str = "Imperative and symbolic") -> Scene:
    """Return two listings of the same model, run side by side.

    Args:
        imperative: code over `mt`, which is minitorch.
        symbolic: code over `tf`, which is minitorch.graph; it should run a session.
    """
    left, right = run_imperative(imperative), run_symbolic(symbolic)
    moments = _moments(left, right)
    canvas = Canvas()
    code = max(_listing(canvas, left, 0.0, _first(moments, "left")),
               _listing(canvas, right, COLUMN + GAP, _first(moments, "right")))  # fmt: skip
    for x, text in ((10.0, "imperative: it computes"), (COLUMN + GAP + 10, "symbolic: it builds")):
        canvas.text(x, 16, text, "bold")
    top = code + 8
    width, height = 0.0, 0.0
    for side, statements in enumerate((left, right)):
        boxes, wires = _graph(statements, moments, bool(side))
        x = side * (COLUMN + GAP)
        drawn = draw(canvas, boxes, wires, x, top, COLUMN)
        width = max(width, x + max(drawn.width, COLUMN))
        height = max(height, top + drawn.height)
    middle = COLUMN + GAP / 2
    canvas.line(middle, 4, middle, height - 6, "rule")
    steps = [Step("Before the first line.")]
    pairs = pairwise([_Moment(-1, -1), *moments])
    steps += [_step(left, right, now, before) for before, now in pairs]
    return Scene(
        title, HINT, "Both ways", _summary(left, right), width, height, tuple(canvas.marks),
        tuple(steps), len(steps) - 1, LEGEND, (("Code", 0, top), ("Graph", top, height)),
    )  # fmt: skip


# ── the picture ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Moment:
    """A position: the statement that each side has just run, and perhaps a node of the right."""

    left: int
    right: int
    node: int = -1


def _moments(left: list[Statement], right: list[Statement]) -> list[_Moment]:
    """Return the positions after the first: in step while both have lines, then node by node."""
    moments: list[_Moment] = []
    for k in range(max(len(left), len(right))):
        at = _Moment(min(k, len(left) - 1), min(k, len(right) - 1))
        work = right[k].computed if k < len(right) else []
        moments += [_Moment(at.left, at.right, n) for n in range(len(work))]
        if not work:
            moments.append(at)
    return moments


def _first(moments: list[_Moment], side: str) -> dict[int, tuple[int, int]]:
    """Return for each statement of a side its first position, and the one after its last."""
    first: dict[int, tuple[int, int]] = {}
    for k, moment in enumerate(moments):
        number = getattr(moment, side)
        start = first.get(number, (k + 1, 0))[0]
        first[number] = (start, k + 2)
    return first


def _listing(
    canvas: Canvas, statements: list[Statement], x: float, spans: dict[int, tuple[int, int]]
) -> float:
    """Add the code, with what each line gave under it; return where it ends."""
    y = TOP
    for i, statement in enumerate(statements):
        start, end = spans[i]
        height = LINE * (len(statement.lines) + 1)
        canvas.rect(x + 4, y, COLUMN - 8, height, ((start, end, "panel"),))
        canvas.rect(x + 4, y, 4, height, ((start, end, "bar grad"),), rx=1)
        for n, line in enumerate(statement.lines):
            canvas.text(x + 16, y + LINE * n + 13, line, "code")
        if statement.outcome:
            room = int((COLUMN - 50) / CHAR_W)
            text = statement.outcome
            text = text if len(text) <= room else f"{text[: room - 1]}…"
            kind = "code muted" if "no number" in text or "<" in text else "code value"
            shown_at = end - 1 if statement.computed else start
            canvas.text(
                x + 32, y + LINE * len(statement.lines) + 10, text, forever(shown_at, kind),
                statement.outcome,
            )  # fmt: skip
        y += height
    return y


def _graph(
    statements: list[Statement], moments: list[_Moment], symbolic: bool
) -> tuple[list[Boxed], list[Wire]]:
    spans = _first(moments, "right" if symbolic else "left")
    values = [(v, spans[i][0]) for i, s in enumerate(statements) for v in s.new]
    place = {id(v): k for k, (v, _) in enumerate(values)}
    numbers = (
        _numbers(statements, moments)
        if symbolic
        else {id(v): [(at, to_numpy(v.array))] for v, at in values}
    )
    grads = {key: (spans[i][0], g) for i, s in enumerate(statements) for key, g in s.grads.items()}
    called = {key: name for s in reversed(statements) for key, name in s.names.items()}
    boxes = [
        _box(v, k, at, called.get(id(v), "leaf"), numbers.get(id(v), []), grads.get(id(v)))
        for k, (v, at) in enumerate(values)
    ]
    wires = [
        Wire(place[id(source)], k, forever(at, "wire"))
        for k, (v, at) in enumerate(values)
        for source in inputs_of(v)
        if id(source) in place
    ]
    return boxes, wires


Numbers = list[tuple[int, Any]]
"""(position, value) of every time that a node got a number."""


def _numbers(statements: list[Statement], moments: list[_Moment]) -> dict[int, Numbers]:
    """Return for each node when it gets a number, and which."""
    numbers: dict[int, Numbers] = {}
    for k, moment in enumerate(moments):
        if moment.node >= 0:
            node, value = statements[moment.right].computed[moment.node]
            if hasattr(value, "dtype"):
                numbers.setdefault(id(node), []).append((k + 1, value))
    return numbers


def _box(
    value: Any, key: int, at: int, called: str, numbers: Numbers, grad: tuple[int, Array] | None
) -> Boxed:
    op = value.op.name if value.op is not None else ""
    leaf = value.name if isinstance(value, Node) else called
    name = op or (brief(value.value) if isinstance(value, Constant) else leaf)
    lines = [Line(name, forever(at, "bold"))]
    changes: list[tuple[int, str | None]] = [(at, "box idle")]
    ends = [start for start, _ in numbers[1:]]
    for (start, number), until in zip(numbers, [*ends, ALWAYS], strict=False):
        lines.append(Line(brief(number, 26), ((max(start, at), until, "code value"),), 1))
        changes.append((max(start, at), "box value"))
    if grad is not None:
        lines.append(Line(f"grad {brief(grad[1], 22)}", forever(grad[0], "code grad"), 2))
        changes.append((grad[0], "box grad"))
    rings = tuple({change for change, _ in changes})
    return Boxed(key, tuple(lines), phases(changes), rings, round=not op)


# ── the words ───────────────────────────────────────────────────────────────────────────────────


def _step(left: list[Statement], right: list[Statement], now: _Moment, before: _Moment) -> Step:
    goes_left, goes_right = now.left != before.left, now.right != before.right
    rows = [f"imperative: {_line(left[now.left])}"] if goes_left else []
    if goes_right or now.node >= 0:
        rows.append(f"symbolic: {_line(right[now.right], now.node)}")
    if now.node >= 0:
        node, value = right[now.right].computed[now.node]
        work = right[now.right].computed
        name = node.op.name if node.op is not None else node.name
        outcome = brief(value, 60) if hasattr(value, "dtype") else "done"
        text = f"The session runs, node {now.node + 1} of {len(work)}: {name} is {outcome}."
        return Step(text, tuple(rows))
    fresh = right[now.right].new if goes_right else []
    built = f" Symbolic: {plural(len(fresh), 'node')} built, nothing computed." if fresh else ""
    outcome = left[now.left].outcome if goes_left else ""
    done = f"Imperative: {outcome}." if outcome else ""
    return Step(f"{done}{built}".strip() or "The next line.", tuple(rows))


def _line(statement: Statement, node: int = -1) -> str:
    text = " ".join(line.strip() for line in statement.lines)
    shown = statement.outcome if node in (-1, len(statement.computed) - 1) else ""
    return f"{text}  gives  {shown}" if shown else text


def _summary(left: list[Statement], right: list[Statement]) -> str:
    tensors = sum(len(s.new) for s in left)
    nodes = sum(len(s.new) for s in right)
    runs = sum(bool(s.computed) for s in right)
    return (
        f"The same model twice: {plural(len(left), 'imperative line')} make "
        f"{plural(tensors, 'tensor')}, each computed at once; "
        f"{plural(len(right), 'symbolic line')} build {plural(nodes, 'node')}, which have numbers "
        f"after {plural(runs, 'run')} of a session."
    )

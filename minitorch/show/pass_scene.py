"""Graph passes: the graph before and after each, side by side, and how many nodes are left."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from minitorch.graph.core.node import Constant, Node, UnknownShape
from minitorch.graph.core.order import keep_orders, schedule
from minitorch.graph.costs.prediction import predict_s
from minitorch.graph.passes.optimize import PASSES, run_pass
from minitorch.op import Value
from minitorch.show.asked import MOST, nodes_in
from minitorch.show.diagram import Boxed, Drawn, Line, Wire, draw
from minitorch.show.numbers import brief, file_and_line, in_seconds, listing, plural
from minitorch.show.record import controls_of, inputs_of
from minitorch.show.scene import Canvas, Mark, Scene, Step, light_up

HINT = (
    "Left: the graph before the pass. Right: after it. "
    "Above: how many nodes are left, and how long the cost model expects a run to take."
)
LEGEND = (
    ("box value", "input or constant"),
    ("box", "operator"),
    ("box bad", "will be gone"),
    ("box good", "new"),
)
HEAD, STRIP, BAR, PITCH, GAP = 28.0, 160.0, 64.0, 93.0, 40.0


@dataclass(frozen=True)
class Stage:
    """The graph after a pass ("as built" for the first), and what the cost model says of a run."""

    name: str
    nodes: tuple[Node, ...]
    predicted_s: float

    @cached_property
    def names(self) -> dict[Node, str]:
        """What says that a node is the same before and after: its name and its operator."""
        return {node: f"{node.name}|{node.op.name if node.op else ''}" for node in self.nodes}


def stages(fetches: object, passes: Sequence[str] | None = None) -> list[Stage]:
    """Return the graph as built and after each pass, as `optimize` runs them."""
    leaves = nodes_in("compare_passes", fetches)
    with keep_orders():
        stages = [Stage("as built", tuple(schedule(leaves, ())), predict_s(leaves, set()))]
        for name in PASSES if passes is None else passes:
            leaves = run_pass(name, leaves, set())
            stages.append(Stage(name, tuple(schedule(leaves, ())), predict_s(leaves, set())))
    return stages


def compare_passes(
    fetches: object,
    *,
    passes: Sequence[str] | None = None,
    title: str = "Graph passes, before and after",
) -> Scene:
    """Return what each pass of `optimize` does to the graph of `fetches`, pass by pass.

    Args:
        passes: names of passes, in order; those of `optimize` that find something to do unless
            given.
    Raises:
        GraphError: no such pass.
        ArgumentError: no nodes.
    """
    every = stages(fetches, passes)
    useful = [b for a, b in pairwise(every) if _differ(a, b)]
    shown = [every[0], *useful] if useful and passes is None else every
    strip = len(shown) * PITCH + 20
    pairs = [_pair(shown, k, strip) for k in range(len(shown))]
    width = max([strip, *(w for _, w, _ in pairs)])
    height = STRIP + max(h for _, _, h in pairs)
    canvas = Canvas()
    _strip(canvas, shown)
    canvas.marks += [mark for marks, _, _ in pairs for mark in marks]
    steps = [Step(f"As built: {plural(len(shown[0].nodes), 'node')}.")]
    steps += [_step(shown[k - 1], shown[k], k, len(shown) - 1) for k in range(1, len(shown))]
    changed = [k for k in range(1, len(shown)) if _differ(shown[k - 1], shown[k])]
    still = max(changed, key=lambda k: shown[k - 1].predicted_s - shown[k].predicted_s, default=0)
    summary = _summary(every, [stage.name for stage in useful])
    return Scene(
        title, HINT, "Passes", summary, width, height, tuple(canvas.marks), tuple(steps), still,
        LEGEND,
    )  # fmt: skip


# ── the picture ─────────────────────────────────────────────────────────────────────────────────


def _strip(canvas: Canvas, stages: Sequence[Stage]) -> None:
    """Add a bar for each stage: how many nodes its graph has."""
    most = max(len(stage.nodes) for stage in stages)
    for k, stage in enumerate(stages):
        count, x = len(stage.nodes), 10 + k * PITCH
        h = max(BAR * count / most, 2.0)
        top = HEAD + BAR - h
        canvas.rect(x + 14, top, PITCH - 40, h, light_up("bar faded", {k: "bar"}), rx=2)
        middle, muted = x + PITCH / 2 - 6, "small muted middle"
        canvas.text(middle, top - 5, str(count), "middle bold")
        seen = light_up(muted, {k: "small now bold middle"})
        canvas.text(middle, HEAD + BAR + 16, stage.name, seen)
        canvas.text(middle, HEAD + BAR + 35, in_seconds(stage.predicted_s), muted)


def _pair(stages: Sequence[Stage], k: int, room: float) -> tuple[list[Mark], float, float]:
    """Return the marks of position k, seen only there, and their width and height."""
    canvas = Canvas()
    top = STRIP - 6
    if k == 0:
        drawn = _graph(canvas, stages[0], set(), "", 0.0, top, room)
        return _only_at(canvas, k), drawn.width, drawn.height
    before, after = stages[k - 1], stages[k]
    old, new = {*before.names.values()}, {*after.names.values()}
    canvas.text(12, top, f"before {after.name}", "bold")
    left = _graph(canvas, before, old - new, "box bad", 0.0, top)
    x = max(left.width + GAP, room / 2)
    canvas.text(x + 12, top, f"after {after.name}", "bold")
    right = _graph(canvas, after, new - old, "box good", x, top)
    middle = x - GAP / 2
    height = max(left.height, right.height)
    canvas.line(middle, top - 8, middle, top + height - 8, "rule")
    return _only_at(canvas, k), x + max(right.width, 130.0), height


def _only_at(canvas: Canvas, k: int) -> list[Mark]:
    return [replace(mark, when=((k, k + 1, mark.when[0][2]),)) for mark in canvas.marks]


def _graph(
    canvas: Canvas, stage: Stage, marked: set[str], kind: str, x: float, y: float, room: float = 0.0
) -> Drawn:
    nodes = stage.nodes[-MOST:]
    places: dict[Value, int] = {node: i for i, node in enumerate(nodes)}
    boxes = [
        Boxed(
            places[node],
            tuple(_lines(node)),
            kind if stage.names[node] in marked else ("box value" if node.op is None else "box"),
            tip=f"{node.name}, built at {file_and_line(node.location)}",
            round=node.op is None,
        )
        for node in nodes
    ]
    wires = [
        Wire(places[source], places[node], classes)
        for before, classes in ((inputs_of, "wire"), (controls_of, "wire dashed"))
        for node in nodes
        for source in before(node)
        if source in places
    ]
    return draw(canvas, boxes, wires, x, y + 4, room)


def _lines(node: Node) -> list[Line]:
    if isinstance(node, Constant):
        return [Line(brief(node.value, 18), "code value")]
    label = node.op.name if node.op is not None else node.name
    unknown = isinstance(node.shape, UnknownShape)
    return [Line(label, "bold"), Line("" if unknown else str(tuple(node.shape)), "small muted")]


# ── what changed ────────────────────────────────────────────────────────────────────────────────


def _differ(before: Stage, after: Stage) -> bool:
    return {*before.names.values()} != {*after.names.values()}


def _step(before: Stage, after: Stage, k: int, count: int) -> Step:
    head = f"Pass {k} of {count}, {after.name}: "
    if not _differ(before, after):
        return Step(f"{head}nothing to do here; {plural(len(after.nodes), 'node')}.")
    old, new = before.names, after.names
    left, before_nodes = set(new.values()), set(old.values())
    removed = [_describe(n) for n in before.nodes if old[n] not in left]
    new_words = [_describe(n) for n in after.nodes if new[n] not in before_nodes]
    text = (
        f"{head}{plural(len(before.nodes), 'node')} become {len(after.nodes)}, and a predicted "
        f"{in_seconds(before.predicted_s)} become {in_seconds(after.predicted_s)}."
    )
    rows = [f"gone: {_shorten(removed)}"] if removed else []
    rows += [f"new: {_shorten(new_words)}"] if new_words else []
    return Step(text, tuple(rows))


def _describe(node: Node) -> str:
    if isinstance(node, Constant):
        return f"the constant {brief(node.value, 18)}"
    is_plain = node.op is None or node.op.name == node.name
    return node.name if is_plain else f"{node.name} ({node.op.name})"


def _shorten(names: list[str], most: int = 8) -> str:
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return listing(names[:most] + more)


def _summary(stages: Sequence[Stage], useful: list[str]) -> str:
    count, first, last = len(stages) - 1, len(stages[0].nodes), len(stages[-1].nodes)
    passes = "1 pass" if count == 1 else f"{count} passes"
    effect = "None changes anything"
    if useful:
        others = "" if len(useful) == count else "; the others find nothing to do"
        effect = f"It is changed by {listing(useful)}{others}"
    return f"{passes} over a graph of {plural(first, 'node')} leave {last}. {effect}."

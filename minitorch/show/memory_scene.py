"""The memory plan: which buffer stands where in the arena and from when to when, as a map."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

import numpy as np

from minitorch.errors import ArgumentError, GraphError, MinitorchError
from minitorch.graph.core.node import Node
from minitorch.graph.core.order import schedule
from minitorch.graph.memory.plan import Buffer, MemoryPlan, memory_plan, sizes_of
from minitorch.show.asked import nodes_in
from minitorch.show.numbers import in_bytes, listing, plural
from minitorch.show.scene import Canvas, Scene, Step, light_up, phases

MOST = 2000  # operators to go through
LEFT, TOP, WIDTH, HEIGHT = 96.0, 26.0, 740.0, 300.0
CURVE_TOP, CURVE = 44.0, 84.0  # the live bytes below the map, and the gap above them
HINT = (
    "Across: the nodes in the order in which they run. Up: bytes of the arena. A block is a "
    "buffer, as long as it is needed; a later one may stand where an earlier one stood."
)
LEGEND = (
    ("bar", "activation, alive"),
    ("bar grad", "gradient, alive"),
    ("bar faded", "planned: before or after its life"),
    ("rule now", "now"),
)


def map_memory(
    fetches: object,
    feed_dict: Mapping[Node, object] | None = None,
    *,
    title: str = "The memory plan",
) -> Scene:
    """Return the memory plan of a run of `fetches`, to be gone through node by node.

    Args:
        feed_dict: what the run is fed, nodes and values: their sizes count.
    Raises:
        GraphError: a size is not known before the run; names the node. Or nothing is computed.
        ArgumentError: no nodes, or more than 2,000 operators.
    """
    nodes = nodes_in("map_memory", fetches)
    shapes = {node: np.asarray(value).shape for node, value in (feed_dict or {}).items()}
    plan = memory_plan(nodes, set(shapes), _sizes(nodes, shapes))
    if not plan.buffers:
        raise GraphError("map_memory: got a graph that computes nothing, expected an operator.")
    times = [i for i, node in enumerate(plan.order) if node.op is not None]
    if (count := len(times)) > MOST:
        raise ArgumentError(
            f"map_memory: got a graph of {count} operators, expected at most {MOST}. Fetch less."
        )
    view = _View(plan, times)
    canvas = Canvas()
    view.axes(canvas)
    for buffer in sorted(plan.buffers, key=lambda b: b.first):
        view.block(canvas, buffer)
    view.limits(canvas)
    view.curve(canvas)
    arena = f"its place in an arena of {in_bytes(plan.peak_bytes)}"
    steps = [Step(f"Before the run: every buffer has {arena}; none is in use yet.")]
    tell = _Teller(plan, len(times))
    steps += [tell.step(plan.order[time], k, time) for k, time in enumerate(times)]
    bottom = TOP + HEIGHT + CURVE_TOP + CURVE + 30
    return Scene(
        title, HINT, "Memory", _summary(plan), LEFT + WIDTH + 130, bottom,
        tuple(canvas.marks), tuple(steps), 1 + int(np.argmax(view.live)), LEGEND,
    )  # fmt: skip


def _sizes(nodes: list[Node], fed: dict[Node, tuple[int, ...]]) -> dict[Node, tuple[int, ...]]:
    """Return the shapes that follow from those of the feeds; none where that is not enough."""
    if not fed:
        return {}
    try:
        return sizes_of(schedule(nodes, set(fed)), fed)
    except MinitorchError:
        return {}


class _View:
    """Where steps and bytes are on the canvas."""

    def __init__(self, plan: MemoryPlan, times: list[int]) -> None:
        self.plan, self.times = plan, times
        self.pitch = WIDTH / max(len(times), 1)
        self.full = max(plan.peak_bytes, 1)
        self.live = _sums(((*self.spans(b), b.n_bytes) for b in plan.buffers), len(times))
        """The bytes of the buffers that live in each computing step."""

    def spans(self, buffer: Buffer) -> tuple[int, int]:
        """Return the first and the last computing step in which a buffer lives."""
        first = min(bisect_left(self.times, buffer.first), len(self.times) - 1)
        return first, max(first, bisect_right(self.times, buffer.last) - 1)

    def y(self, n_bytes: float) -> float:
        """Return the height at which so many bytes of the arena end."""
        return TOP + HEIGHT * (1 - n_bytes / self.full)

    def axes(self, canvas: Canvas) -> None:
        canvas.rect(LEFT, TOP, WIDTH, HEIGHT, "panel")
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            at = self.y(share * self.full)
            canvas.line(LEFT - 5, at, LEFT, at, "rule")
            canvas.text(LEFT - 9, at + 4, in_bytes(round(share * self.full)), "small muted end")
        canvas.text(LEFT, TOP - 10, "arena", "small muted")

    def block(self, canvas: Canvas, buffer: Buffer) -> None:
        first, last = self.spans(buffer)
        name = buffer.node.name
        kind = "grad " if "gradients" in name else ""
        x, w = LEFT + first * self.pitch, (last - first + 1) * self.pitch
        y = self.y(buffer.offset + buffer.n_bytes)
        h = max(self.y(buffer.offset) - y, 1.0)
        faded, alive = f"bar {kind}faded", f"bar {kind}".strip()
        when = phases([(0, faded), (first + 1, alive), (last + 2, faded)])
        tip = f"{name}: {in_bytes(buffer.n_bytes)} at byte {buffer.offset:,}"
        canvas.rect(x + 1, y + 0.5, max(w - 2, 2), max(h - 1, 1), when, rx=2, tip=tip)
        label = name.removeprefix("gradients/")
        if h >= 13 and w >= len(label) * 6.6 + 8:
            words = kind.strip() or "value"
            seen = [(0, f"small {words}"), (first + 1, "small over"), (last + 2, f"small {words}")]
            canvas.text(x + 6, y + h / 2 + 4, label, phases(seen), tip)

    def limits(self, canvas: Canvas) -> None:
        top = self.y(self.plan.peak_bytes)
        canvas.line(LEFT, top, LEFT + WIDTH + 8, top, "rule bad")
        canvas.text(LEFT + WIDTH + 12, top + 4, "planned peak", "bad bold")
        canvas.text(LEFT + WIDTH + 12, top + 24, in_bytes(self.plan.peak_bytes), "bad")
        total = self.plan.total_bytes
        saved = 1 - self.plan.peak_bytes / max(total, 1)
        for row, line in enumerate(["without a plan", in_bytes(total), f"saved {saved:.0%}"]):
            y = top + 56 + 20 * row
            canvas.text(LEFT + WIDTH + 12, y, line, "muted" if row < 2 else "good")

    def curve(self, canvas: Canvas) -> None:
        base = TOP + HEIGHT + CURVE_TOP + CURVE
        canvas.text(LEFT, base - CURVE - 10, "bytes of buffers that are alive", "small muted")
        for k in range(len(self.times)):
            live = self.live[k]
            h = CURVE * live / self.full
            x, w = LEFT + k * self.pitch + 1, max(self.pitch - 2, 1)
            shade = light_up("bar faded", {k + 1: "bar"})
            canvas.rect(x, base - h, w, h, shade, tip=in_bytes(live))
        canvas.line(LEFT, base, LEFT + WIDTH, base, "rule")
        canvas.text(LEFT, base + 18, "first node", "small muted")
        canvas.text(LEFT + WIDTH, base + 18, "last node", "small muted end")
        for k in range(len(self.times)):
            x = LEFT + (k + 0.5) * self.pitch
            canvas.line(x, TOP - 6, x, base, ((k + 1, k + 2, "rule now"),))


def _sums(spans: Iterable[tuple[int, int, int]], count: int) -> list[int]:
    """Return what (first, last, amount) add up to at each of `count` places, in one sweep."""
    changes = np.zeros(count + 2, int)  # what is fetched lives beyond the last
    for first, last, amount in spans:
        changes[first] += amount
        changes[last + 1] -= amount
    return [int(total) for total in np.cumsum(changes[:count])]


class _Teller:
    """Says what happens at each step of a plan."""

    def __init__(self, plan: MemoryPlan, count: int) -> None:
        self.plan, self.count = plan, count
        self.own = {b.node: b for b in plan.buffers}
        self.in_place = set(plan.in_place)
        lives = [(b.first, b.last, b.n_bytes) for b in plan.buffers]
        self.bytes = _sums(lives, len(plan.order))
        self.alive = _sums(((first, last, 1) for first, last, _ in lives), len(plan.order))
        self.freed: dict[int, list[str]] = {}
        for buffer in plan.buffers:
            self.freed.setdefault(buffer.last, []).append(buffer.node.name)

    def step(self, node: Node, k: int, time: int) -> Step:
        """Return the step of `node`, the k-th that computes, at a place in the order."""
        own, live = self.own.get(node), in_bytes(self.bytes[time])
        text = (
            f"Node {k + 1} of {self.count}: {node.name} {self._describe_memory(node)}. "
            f"{plural(self.alive[time], 'buffer')} alive, {live} of "
            f"{in_bytes(self.plan.peak_bytes)}."
        )
        freed = self.freed.get(time)
        born = [f"{node.name}: {in_bytes(own.n_bytes)} at byte {own.offset:,}"] if own else []
        freeing = [f"after it nobody needs {listing(freed)}"] if freed else []
        return Step(text, (*born, *freeing))

    def _describe_memory(self, node: Node) -> str:
        own, home = self.own.get(node), self.plan.home.get(node, node)
        if own is not None:
            return f"gets {in_bytes(own.n_bytes)} at byte {own.offset:,}"
        if node in self.in_place:
            return f"takes over the memory of {home.name}"
        if home is not node:
            return f"looks into the memory of {home.name}"
        return "needs no buffer"


def _summary(plan: MemoryPlan) -> str:
    return (
        f"A plan of {plural(len(plan.buffers), 'buffer')}: all results one after another are "
        f"{in_bytes(plan.total_bytes)}, the arena is {in_bytes(plan.peak_bytes)}. "
        f"{plural(len(plan.in_place), 'result')} overwrite an input that nobody needs any more."
    )

"""The timeline of a run: a bar for each node on the thread that ran it, node by node."""

from __future__ import annotations

from minitorch.errors import ArgumentError
from minitorch.graph.costs.timeline import Span, Timeline
from minitorch.show.numbers import file_and_line, in_bytes, in_seconds, plural
from minitorch.show.scene import ALWAYS, Canvas, Scene, Step, When

LEFT, TOP, WIDTH, LANE, CURVE = 84.0, 24.0, 820.0, 46.0, 70.0
HINT = (
    "Across: time. A bar is a node at work, on the thread that ran it; what is not covered is the "
    "executor's own work, or waiting. Orange: gradients."
)


def see_timeline(
    timeline: Timeline, *, title: str = "A run, node by node", limit: int = 300
) -> Scene:
    """Return the timeline of a run, to be gone through node by node.

    Args:
        timeline: what `graph.profile` gives.
        limit: the most spans to show, the longest ones.
    Raises:
        ArgumentError: nothing ran, or `limit` is below 1.
    """
    if not isinstance(timeline, Timeline):
        raise ArgumentError(
            f"see_timeline: got {type(timeline).__name__}, expected what graph.profile gives as "
            "its second result."
        )
    if not timeline.spans or limit < 1:
        raise ArgumentError(
            f"see_timeline: got {len(timeline.spans)} spans and limit {limit}, expected 1 or more."
        )
    longest = sorted(timeline.spans, key=lambda span: -span.duration_ns)[:limit]
    spans = sorted(longest, key=lambda span: span.start_ns)
    lanes = {thread: i for i, thread in enumerate(sorted({span.thread for span in spans}))}
    canvas = Canvas()
    bottom = TOP + LANE * len(lanes)
    _axis(canvas, timeline.total_ns, lanes, bottom)
    for k, span in enumerate(spans):
        _bar(canvas, span, k + 1, TOP + LANE * lanes[span.thread], timeline.total_ns)
    if any(span.live_bytes for span in spans):
        _live(canvas, timeline, spans, bottom + 40)
        bottom += 40 + CURVE
    steps = [Step(f"Before the run, which took {in_seconds(timeline.total_ns / 1e9)}.")]
    steps += [_step(span, k + 1, len(spans), timeline.total_ns) for k, span in enumerate(spans)]
    return Scene(
        title, HINT, "Timeline", _summary(timeline), LEFT + WIDTH + 16, bottom + 30,
        tuple(canvas.marks), tuple(steps), len(steps) - 1,
    )  # fmt: skip


def _axis(canvas: Canvas, total_ns: int, lanes: dict[int, int], bottom: float) -> None:
    for thread, lane in lanes.items():
        y = TOP + LANE * lane
        canvas.rect(LEFT, y, WIDTH, LANE - 6, "panel")
        canvas.text(LEFT - 8, y + LANE / 2, f"worker {thread}", "small muted end")
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = LEFT + WIDTH * share
        canvas.line(x, bottom - 4, x, bottom + 2, "rule")
        place = "middle" if 0 < share < 1 else "end" if share else ""
        canvas.text(x, bottom + 15, in_seconds(total_ns * share / 1e9), f"small muted {place}")


def _bar(canvas: Canvas, span: Span, at: int, y: float, total_ns: int) -> None:
    x = LEFT + WIDTH * span.start_ns / max(total_ns, 1)
    w = max(WIDTH * span.duration_ns / max(total_ns, 1), 1.2)
    kind = "grad " if "gradients" in span.name else ""
    when: When = (
        (0, at, f"bar {kind}faded"), (at, at + 1, f"bar {kind}".strip()),
        (at + 1, ALWAYS, f"bar {kind}faded"),
    )  # fmt: skip
    tip = f"{span.name}: {in_seconds(span.duration_ns / 1e9)}"
    canvas.rect(x, y + 4, w, LANE - 14, when, rx=2, tip=tip)
    canvas.rect(x - 3, y + 1, w + 6, LANE - 8, ((at, at + 1, "ring"),), rx=4)
    label = span.op or span.name
    if w >= len(label) * 6.6 + 8:
        words = kind.strip() or "value"
        seen: When = ((0, at, f"small {words}"), (at, at + 1, "small over"),
                      (at + 1, ALWAYS, f"small {words}"))  # fmt: skip
        canvas.text(x + 5, y + LANE / 2 + 2, label, seen, tip)


def _live(canvas: Canvas, timeline: Timeline, spans: list[Span], top: float) -> None:
    """Add the bytes that are alive over time, as bars under the lanes."""
    most = max(timeline.peak_bytes, 1)
    peak = in_bytes(timeline.peak_bytes)
    canvas.text(LEFT, top - 6, f"bytes that are alive, at most {peak}", "small muted")
    for k, span in enumerate(spans):
        live = span.live_bytes or 0
        h = CURVE * live / most
        x = LEFT + WIDTH * span.start_ns / max(timeline.total_ns, 1)
        w = max(WIDTH * span.duration_ns / max(timeline.total_ns, 1), 1.2)
        when: When = ((0, k + 1, "bar faded"), (k + 1, k + 2, "bar"), (k + 2, ALWAYS, "bar faded"))
        canvas.rect(x, top + CURVE - h, w, h, when, rx=0, tip=in_bytes(live))
    canvas.line(LEFT, top + CURVE, LEFT + WIDTH, top + CURVE, "rule")


def _step(span: Span, k: int, count: int, total_ns: int) -> Step:
    what = f"{span.name} by {span.op}" if span.op and span.op not in span.name else span.name
    text = (
        f"Node {k} of {count}: {what} takes {in_seconds(span.duration_ns / 1e9)}, "
        f"{span.duration_ns / max(total_ns, 1):.1%} of the run."
    )
    rows = [f"gives {in_bytes(span.n_bytes)} of shape {span.shape}"] if span.n_bytes else []
    return Step(
        text, (*rows, f"built at {file_and_line(span.where)}") if span.where else tuple(rows)
    )


def _summary(timeline: Timeline) -> str:
    op, count, spent = timeline.by_op()[0]
    total = sum(span.duration_ns for span in timeline.spans) or 1
    return (
        f"A run of {plural(len(timeline.spans), 'node')} in "
        f"{in_seconds(timeline.total_ns / 1e9)}. The costliest operator is {op or 'a source'}: "
        f"{plural(count, 'node')}, {spent / total:.0%} of the time."
    )

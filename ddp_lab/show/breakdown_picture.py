"""A typical training step as a picture: what computes, what travels, and what waits for it.

May import: the standard library, step_times, svg_text.
"""

from collections.abc import Callable, Iterator, Sequence

from ddp_lab.data_parallel.measurement.step_times import (
    NS_PER_MS,
    Span,
    StepTimes,
    intersection,
    union,
)
from ddp_lab.show.svg_text import box, line, picture, text, ticks

WIDTH, LEFT, RIGHT = 760, 118, 16  # pixels
TOP, ROW, BAR = 48, 24, 20
MOST_ROWS = 8  # of messages under way at a time; the rest share the last row
CHAR = 6.6  # pixels of a character, about
KINDS = {
    "forward": "forward",
    "backward compute": "backward",
    "exposed communication": "exposed",
    "hidden communication": "hidden",
    "optimizer": "optimizer",
}
MEANINGS = {
    "exposed communication": "compute waits for it",
    "hidden communication": "beside compute",
}

Scale = Callable[[int], float]


def breakdown_picture(
    step: StepTimes, medians_ms: dict[str, float], rank: int, iterations: int
) -> str:
    """Return one step drawn to scale as SVG, and below it the medians of all iterations."""
    rows = _rows(step.communication)
    length_ms = (step.end_ns - step.start_ns) / NS_PER_MS
    per_ns = (WIDTH - LEFT - RIGHT) / max(step.end_ns - step.start_ns, 1)

    def x(ns: int) -> float:
        return LEFT + (ns - step.start_ns) * per_ns

    foot = TOP + (1 + max(len(rows), 1)) * ROW
    marks = [
        text(10, 20, f"A typical step of rank {rank}: {length_ms:.3g} ms"),
        text(LEFT - 10, TOP + 15, "compute", "end"),
        text(LEFT - 10, TOP + ROW + 15, "communication", "end"),
        *_compute(step, x),
        *_communication(step, rows, x),
        *_axis(length_ms, foot, x, step.start_ns),
        *_legend(medians_ms, iterations, foot + 44),
    ]
    height = foot + 44 + 20 * (len(KINDS) + 1)
    return picture(WIDTH, height, _words(medians_ms, rank), marks)


def _rows(spans: Sequence[Span]) -> list[list[Span]]:
    """Return the spans in rows, none of which holds two that overlap (save the last)."""
    rows: list[list[Span]] = []
    for span in sorted(spans, key=lambda s: s.start_ns):
        free = next((row for row in rows if row[-1].end_ns <= span.start_ns), None)
        if free is not None:
            free.append(span)
        elif len(rows) < MOST_ROWS:
            rows.append([span])
        else:
            rows[-1].append(span)
    return rows


def _compute(step: StepTimes, x: Scale) -> Iterator[str]:
    parts = [
        ("forward", "forward", step.start_ns, step.forward_end_ns),
        ("backward", "backward", step.forward_end_ns, step.backward_end_ns),
        *(("waits", "exposed", start, end) for start, end in union(step.blocked)),
        ("optimizer", "optimizer", step.backward_end_ns, step.end_ns),
    ]
    for name, kind, start, end in parts:
        yield box(x(start), TOP, x(end) - x(start), BAR, kind, f"{name}, {_ms(end - start)}")
    busy_from = step.forward_end_ns
    for start, end in [*union(step.blocked), (step.backward_end_ns, step.backward_end_ns)]:
        yield from _label("backward", x(busy_from), x(start), TOP)
        busy_from = max(end, busy_from)
    for name, _, start, end in parts:
        if name != "backward":
            yield from _label(name, x(start), x(end), TOP)


def _communication(step: StepTimes, rows: Sequence[Sequence[Span]], x: Scale) -> Iterator[str]:
    waiting = union(step.blocked)
    for number, row in enumerate(rows):
        y = TOP + ROW * (1 + number)
        for span in row:
            words = f"{span.name}, {span.ms:.3g} ms"
            yield box(x(span.start_ns), y, x(span.end_ns) - x(span.start_ns), BAR, "hidden", words)
            for start, end in intersection([(span.start_ns, span.end_ns)], waiting):
                yield box(x(start), y, x(end) - x(start), BAR, "exposed", words)
            yield from _label(span.name, x(span.start_ns), x(span.end_ns), y)
    if not rows:
        yield text(LEFT, TOP + ROW + 15, "none")


def _label(words: str, left: float, right: float, y: float) -> Iterator[str]:
    """Yield words in the middle of a bar: all, the last, or none, as it is wide enough."""
    for shown in (words, words.split()[-1]):
        if right - left > CHAR * len(shown) + 6:
            yield text((left + right) / 2, y + 14.5, shown, "middle", "inside")
            return


def _axis(length_ms: float, foot: float, x: Scale, start_ns: int) -> Iterator[str]:
    yield line([(LEFT, foot + 3), (WIDTH - RIGHT, foot + 3)], "faint")
    for tick in ticks(length_ms):
        at = x(start_ns + int(tick * NS_PER_MS))
        yield line([(at, foot + 3), (at, foot + 8)], "faint")
        yield text(at, foot + 21, f"{tick:g}", "middle")
    yield text(LEFT - 10, foot + 21, "ms", "end")


def _legend(medians_ms: dict[str, float], iterations: int, top: float) -> Iterator[str]:
    times = "one iteration" if iterations == 1 else f"medians of {iterations} iterations"
    yield text(300, top, "ms", "end")
    yield text(370, top, "share", "end")
    yield text(390, top, f"({times})")
    for number, (name, kind) in enumerate(KINDS.items(), 1):
        y = top + 20 * number
        yield box(10, y - 11, 12, 12, kind)
        yield text(30, y, name)
        yield text(300, y, f"{medians_ms[name]:.3f}", "end")
        yield text(370, y, f"{medians_ms[name] / medians_ms['step']:.1%}", "end")
        yield text(390, y, MEANINGS.get(name, ""))


def _words(medians_ms: dict[str, float], rank: int) -> str:
    parts = ", ".join(f"{name} {medians_ms[name]:.3g} ms" for name in KINDS)
    return f"A step of rank {rank} takes {medians_ms['step']:.3g} ms: {parts}."


def _ms(ns: int) -> str:
    return f"{ns / NS_PER_MS:.3g} ms"

"""A race of searches: the best schedule found so far against the trials made, trial by trial."""

import math
from collections.abc import Mapping, Sequence

from minitorch.errors import ArgumentError
from minitorch.show.numbers import listing, plural
from minitorch.show.scene import ALWAYS, Canvas, Scene, Step

LEFT, TOP, WIDTH, HEIGHT = 64.0, 30.0, 620.0, 280.0
HIGHEST = 8.0  # times the best: a curve above is drawn at the upper edge
GOAL = 1.1
KINDS = ("wide value", "grad", "thin control")  # of the searches that lose: one inside another
MOST = 1 + len(KINDS)
HINT = (
    "Across: schedules tried. Up: the best so far over the best of all, on a logarithmic scale. "
    "The lowest curve is in front; the heavy one wins."
)
LEGEND = (("rule bad", "1.10: within a tenth of the best"),)


def race_searches(
    curves: Mapping[str, Sequence[float]], *, title: str = "The race", tab: str = "Race"
) -> Scene:
    """Return a race, to be gone through trial by trial.

    Args:
        curves: for each search the best after each trial, over the best of all.
    Raises:
        ArgumentError: no curves or more than four, curves of different lengths, or below 1.
    """
    lengths = {len(curve) for curve in curves.values()}
    if not 1 <= len(curves) <= MOST or len(lengths) != 1 or 0 in lengths:
        raise ArgumentError(
            f"race_searches: got {len(curves)} curves of lengths {sorted(lengths)}, expected one "
            f"to {MOST} of one length."
        )
    if any(not value >= 1 for curve in curves.values() for value in curve):
        raise ArgumentError("race_searches: a curve is below 1, the best of all.")
    (count,) = lengths
    canvas = Canvas()
    _axes(canvas, count)
    kinds = _kinds(curves)
    for name in kinds:
        _curve(canvas, curves[name], kinds[name])
    _legend(canvas, curves, kinds)
    steps = [Step("Nobody has tried anything.")]
    steps += [_step(curves, at) for at in range(1, count + 1)]
    return Scene(
        title, HINT, tab, _summary(curves), LEFT + WIDTH + 150, TOP + HEIGHT + 44,
        tuple(canvas.marks), tuple(steps), count, LEGEND,
    )  # fmt: skip


def _kinds(curves: Mapping[str, Sequence[float]]) -> dict[str, str]:
    """Return the classes of each curve, the winner first: heaviest, and under all others."""
    winner = min(curves, key=lambda name: (curves[name][-1], sum(curves[name])))
    losers = zip((name for name in curves if name != winner), KINDS, strict=False)
    return {winner: "front", **dict(losers)}


def _y(value: float) -> float:
    return TOP + HEIGHT * (1 - math.log(min(value, HIGHEST)) / math.log(HIGHEST))


def _x(at: float, count: int) -> float:
    return LEFT + WIDTH * at / count


def _axes(canvas: Canvas, count: int) -> None:
    canvas.rect(LEFT, TOP, WIDTH, HEIGHT, "panel", rx=0)
    for value in (1.0, 1.5, 2.0, 4.0, 8.0):
        canvas.line(LEFT - 5, _y(value), LEFT, _y(value), "rule")
        canvas.text(LEFT - 9, _y(value) + 4, f"{value:g}", "small muted end")
    canvas.line(LEFT, _y(GOAL), LEFT + WIDTH, _y(GOAL), "rule bad")
    canvas.text(LEFT, TOP - 12, "best so far over the best of all", "small muted")
    for share in range(5):
        at = round(count * share / 4)
        canvas.text(_x(at, count), TOP + HEIGHT + 16, str(at), "small muted middle")
    canvas.text(LEFT + WIDTH / 2, TOP + HEIGHT + 36, "schedules tried", "small muted middle")


def _curve(canvas: Canvas, curve: Sequence[float], kind: str) -> None:
    """Add a curve as a step down or along for each trial, seen from that trial on."""
    before = HIGHEST
    for at, value in enumerate(curve, 1):
        x0, x1 = _x(at - 1, len(curve)), _x(at, len(curve))
        d = f"M {x0:.1f} {_y(before):.1f} V {_y(value):.1f} H {x1:.1f}"
        canvas.path(d, ((at, ALWAYS, f"wire {kind}"),))
        before = value


def _arrival(curve: Sequence[float]) -> int | None:
    """Return the trial after which a search is within a tenth of the best."""
    return next((at for at, value in enumerate(curve, 1) if value <= GOAL), None)


def _legend(
    canvas: Canvas, curves: Mapping[str, Sequence[float]], kinds: Mapping[str, str]
) -> None:
    for row, (name, curve) in enumerate(curves.items()):
        y = TOP + 14 + 42 * row
        canvas.path(f"M {LEFT + WIDTH + 14:.1f} {y - 4:.1f} h 24", f"wire {kinds[name]}")
        canvas.text(LEFT + WIDTH + 44, y, name, "bold")
        reached = _arrival(curve)
        label = f"1.10 after {reached}" if reached else f"{curve[-1]:.2f} at the end"
        end = reached or len(curve)
        canvas.text(LEFT + WIDTH + 44, y + 16, label, ((end, ALWAYS, "small muted"),))


def _step(curves: Mapping[str, Sequence[float]], at: int) -> Step:
    values = {name: f"{curve[at - 1]:.2f}" for name, curve in curves.items()}
    least = min(values.values(), key=float)
    level = [name for name, value in values.items() if value == least]
    front = f"{level[0]} is in front" if len(level) == 1 else f"{listing(level)} are level in front"
    rows = [f"{name}: {value} times the best of all" for name, value in values.items()]
    return Step(f"After {plural(at, 'trial')} {front}.", tuple(rows))


def _summary(curves: Mapping[str, Sequence[float]]) -> str:
    parts = []
    for name, curve in curves.items():
        reached = _arrival(curve)
        after = f"after {reached} trials" if reached else "never"
        parts.append(f"{name} is within 1.10 of the best {after}")
    return f"A race of {len(curves)} searches over {len(curve)} trials: " + "; ".join(parts) + "."

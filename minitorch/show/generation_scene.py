"""Requests that generate tokens: as they wait, are in a slot, and share iterations with others."""

from __future__ import annotations

from collections.abc import Sequence

from minitorch.errors import ArgumentError
from minitorch.serve.generation import GenerationSimulation, Iteration
from minitorch.show.scene import Canvas, Scene, Step, since

MOST = 24  # requests to show
LEFT, TOP, WIDTH, ROW, LANE = 92.0, 22.0, 780.0, 15.0, 22.0
HINT = (
    "Across: time. Above, a line for each request. Below, slots: a box is an iteration, with the "
    "number of the request that is in the slot."
)
LEGEND = (
    ("bar grad", "waits"),
    ("bar", "has a token"),
    ("bar faded", "still to come"),
)


def see_generation(
    requests: Sequence[tuple[float, int, int]], simulation: GenerationSimulation, *,
    until_ms: float | None = None, title: str = "Requests in slots", tab: str = "Generation",
) -> Scene:  # fmt: skip
    """Return a run of a generator, to be gone through iteration by iteration.

    Args:
        requests: (arrival_ms, prompt_tokens, new_tokens) of each.
        simulation: what `serve.simulate_generation` gave for them.
        until_ms: where the axis ends; two runs with one end can be compared.

    Raises:
        ArgumentError: there is no request, or more than can be shown, or of another run.
    """
    if not 1 <= len(requests) <= MOST or len(simulation.done_ms) != len(requests):
        raise ArgumentError(
            f"see_generation: got {len(requests)} requests and a run of {len(simulation.done_ms)}, "
            f"expected as many, 1 to {MOST}."
        )
    end_ms = max(simulation.iterations[-1].ended_ms, until_ms or 0.0)
    scale = WIDTH / end_ms
    canvas = Canvas()
    bottom = TOP + ROW * len(requests) + 12
    slots = 1 + max(slot for iteration in simulation.iterations for slot in iteration.slots)
    for request in range(len(requests)):
        y = TOP + ROW * request
        canvas.text(LEFT - 8, y + 11, f"request {request}", "small muted end")
    for slot in range(slots):
        y = bottom + LANE * slot
        canvas.rect(LEFT, y, WIDTH, LANE - 4, "panel")
        canvas.text(LEFT - 8, y + LANE / 2 + 2, f"slot {slot}", "small muted end")
    begun: set[int] = set()
    for k, iteration in enumerate(simulation.iterations):
        for request, slot in zip(iteration.starts + iteration.steps, iteration.slots, strict=True):
            if request not in begun:
                begun.add(request)
                came = LEFT + requests[request][0] * scale
                width = max(LEFT + iteration.began_ms * scale - came, 0.6)
                seen = since(k + 1, "bar grad faded", "bar grad")
                canvas.rect(came, TOP + ROW * request + 3, width, ROW - 6, seen, rx=1)
            _iteration(canvas, k, iteration, request, bottom + LANE * slot, scale)
    foot = bottom + LANE * slots
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = LEFT + WIDTH * share
        canvas.line(x, TOP - 4, x, foot, "rule")
        canvas.text(x, foot + 14, f"{end_ms * share:.0f} ms", "small muted middle")
    steps = [Step(f"Before the first request of {len(requests)}, with {slots} slots.")]
    steps += [
        _step(k, iteration, requests, simulation)
        for k, iteration in enumerate(simulation.iterations)
    ]
    return Scene(
        title, HINT, tab, _summary(requests, simulation), LEFT + WIDTH + 20, foot + 24,
        tuple(canvas.marks), tuple(steps), max(1, len(steps) * 2 // 3), LEGEND,
    )  # fmt: skip


def _iteration(
    canvas: Canvas, k: int, iteration: Iteration, request: int, lane_y: float, scale: float
) -> None:
    x, width = LEFT + iteration.began_ms * scale, (iteration.ended_ms - iteration.began_ms) * scale
    seen = since(k + 1, "bar faded", "bar")
    what = "its prompt" if iteration.starts else "a token"
    tip = f"request {request}: {what}, iteration {k + 1}"
    canvas.rect(x, TOP + ROW * request + 2, max(width - 0.6, 0.6), ROW - 4, seen, rx=1, tip=tip)
    canvas.rect(x, lane_y, max(width - 0.6, 0.6), LANE - 4, seen, rx=2, tip=tip)
    canvas.rect(x - 1, lane_y - 2, width + 1, LANE, ((k + 1, k + 2, "ring"),), rx=3)
    if width > 8 * len(str(request)) + 2:
        when = since(k + 1, "small middle value", "small middle over")
        canvas.text(x + width / 2, lane_y + LANE / 2 + 2, str(request), when, tip)


def _step(
    k: int, iteration: Iteration, requests: Sequence[tuple[float, int, int]],
    simulation: GenerationSimulation,
) -> Step:  # fmt: skip
    inside = iteration.starts or iteration.steps
    waiting = sum(
        came <= iteration.began_ms < came + simulation.first_token_ms[at] and at not in inside
        for at, (came, *_) in enumerate(requests)
    )
    ends = [
        at
        for at in inside
        if abs(requests[at][0] + simulation.done_ms[at] - iteration.ended_ms) < 1e-6
    ]
    rows = [f"{waiting} wait for a slot"]
    if ends:
        rows.append(f"{', '.join(map(str, ends))} end")
    who = f"request{'s' * (len(inside) > 1)} {', '.join(map(str, inside))}"
    what = "the prompt and first token" if iteration.starts else "one token more"
    return Step(f"Iteration {k + 1}: {what} of {who}.", tuple(rows))


def _summary(requests: Sequence[tuple[float, int, int]], simulation: GenerationSimulation) -> str:
    first = sum(simulation.first_token_ms) / len(requests)
    return (
        f"{len(requests)} requests in {len(simulation.iterations)} iterations, "
        f"{simulation.tokens_per_s:.0f} tokens a second. A first token comes after {first:.0f} ms "
        "on average."
    )

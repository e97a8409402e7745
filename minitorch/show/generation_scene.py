"""Requests that generate tokens: as they wait, are in a slot, and share iterations with others."""

from collections.abc import Sequence

from minitorch.errors import ArgumentError
from minitorch.serve.generation import GenerationSimulation, Iteration
from minitorch.show.numbers import listing
from minitorch.show.scene import Canvas, Scene, Step, since
from minitorch.show.time_axis import LEFT, TOP, WIDTH, draw_lane, draw_time_axis

MOST = 24  # requests to show
ROW, LANE = 15.0, 22.0
HINT = (
    "Across: time. Above, a line for each request. Below, slots: a box is an iteration, with the "
    "number of the request that is in the slot."
)
LEGEND = (("bar grad", "waits"), ("bar", "has a token"), ("bar faded", "still to come"))


def see_generation(
    requests: Sequence[tuple[float, int, int]], run: GenerationSimulation, *,
    until_ms: float | None = None, load: float | None = None, title: str = "Requests in slots",
    tab: str = "Generation",
) -> Scene:  # fmt: skip
    """Return a run of a generator, to be gone through iteration by iteration.

    Args:
        requests: (arrival_ms, prompt_tokens, new_tokens) of each.
        run: what `serve.simulate_generation` gave for them, or a record in the same form.
        until_ms: where the axis ends; two runs with one end can be compared.
        load: requests a second, in a box called `load` that can be made `draggable`.
    Raises:
        ArgumentError: there is no request, or more than can be shown, or of another run.
    """
    if not 1 <= len(requests) <= MOST or len(run.done_ms) != len(requests):
        raise ArgumentError(
            f"see_generation: got {len(requests)} requests and a run of {len(run.done_ms)}, "
            f"expected as many, 1 to {MOST}."
        )
    end_ms = max(run.iterations[-1].ended_ms, until_ms or 0.0)
    scale = WIDTH / end_ms
    canvas = Canvas()
    bottom = TOP + ROW * len(requests) + 12
    slots = 1 + max(slot for iteration in run.iterations for slot in iteration.slots)
    for request in range(len(requests)):
        canvas.text(LEFT - 8, TOP + ROW * request + 11, f"request {request}", "small muted end")
    for slot in range(slots):
        draw_lane(canvas, bottom + LANE * slot, LANE, f"slot {slot}")
    first, last = _first_and_last(run.iterations)
    for k, iteration in enumerate(run.iterations):
        for request, slot in zip(iteration.starts + iteration.steps, iteration.slots, strict=True):
            if first[request] == k:
                _wait(canvas, k, request, requests[request][0], iteration.began_ms, scale)
            _iteration(canvas, k, iteration, request, bottom + LANE * slot, scale)
    foot = bottom + LANE * slots
    draw_time_axis(canvas, foot, end_ms)
    if load is not None:
        _load(canvas, load)
    steps = [Step(f"Before the first request of {len(requests)}, with {slots} slots.")]
    steps += [_step(k, i, requests, first, last) for k, i in enumerate(run.iterations)]
    return Scene(
        title, HINT, tab, _summary(requests, run), LEFT + WIDTH + 34, foot + 24,
        tuple(canvas.marks), tuple(steps), max(1, len(steps) * 2 // 3), LEGEND,
    )  # fmt: skip


def _first_and_last(iterations: Sequence[Iteration]) -> tuple[dict[int, int], dict[int, int]]:
    """Return the places of each request's first and last iteration."""
    first, last = dict[int, int](), dict[int, int]()
    for k, iteration in enumerate(iterations):
        for request in iteration.starts + iteration.steps:
            first.setdefault(request, k)
            last[request] = k
    return first, last


def _load(canvas: Canvas, load: float) -> None:
    x, y = LEFT + WIDTH - 104.0, TOP + 4
    canvas.rect(x, y, 100, 40, "box")
    canvas.text(x + 50, y + 16, "load", "middle")
    canvas.text(x + 50, y + 33, f"{load:g} a second", "middle bold")


def _wait(
    canvas: Canvas, k: int, request: int, came_ms: float, began_ms: float, scale: float
) -> None:
    x = LEFT + came_ms * scale
    width = max(LEFT + began_ms * scale - x, 0.6)
    shown = since(k + 1, "bar grad faded", "bar grad")
    canvas.rect(x, TOP + ROW * request + 3, width, ROW - 6, shown, rx=1)


def _iteration(
    canvas: Canvas, k: int, iteration: Iteration, request: int, lane_y: float, scale: float
) -> None:
    x, width = LEFT + iteration.began_ms * scale, (iteration.ended_ms - iteration.began_ms) * scale
    seen = since(k + 1, "bar faded", "bar")
    tokens = "its prompt" if iteration.starts else "a token"
    tip = f"request {request}: {tokens}, iteration {k + 1}"
    canvas.rect(x, TOP + ROW * request + 2, max(width - 0.6, 0.6), ROW - 4, seen, rx=1, tip=tip)
    canvas.rect(x, lane_y, max(width - 0.6, 0.6), LANE - 4, seen, rx=2, tip=tip)
    canvas.rect(x - 1, lane_y - 2, width + 1, LANE, ((k + 1, k + 2, "ring"),), rx=3)
    if width > 8 * len(str(request)) + 2:
        when = since(k + 1, "small middle value", "small middle over")
        canvas.text(x + width / 2, lane_y + LANE / 2 + 2, str(request), when, tip)


def _step(
    k: int, iteration: Iteration, requests: Sequence[tuple[float, int, int]],
    first: dict[int, int], last: dict[int, int],
) -> Step:  # fmt: skip
    inside = iteration.starts or iteration.steps
    waiting = sum(
        came <= iteration.began_ms and first[request] > k
        for request, (came, *_) in enumerate(requests)
    )
    ends = [request for request in inside if last[request] == k]
    rows = [f"waiting for a slot: {waiting}"]
    if ends:
        rows.append(f"at its end: {_name(ends)}")
    tokens = "the prompt and first token" if iteration.starts else "one token more"
    return Step(f"Iteration {k + 1}: {tokens} of {_name(inside)}.", tuple(rows))


def _name(requests: Sequence[int]) -> str:
    return f"request{'s' * (len(requests) > 1)} {listing([*map(str, requests)])}"


def _summary(requests: Sequence[tuple[float, int, int]], run: GenerationSimulation) -> str:
    mean = sum(run.first_token_ms) / len(requests)
    return (
        f"{len(requests)} requests in {len(run.iterations)} iterations, {run.tokens_per_s:.0f} "
        f"tokens a second. A first token comes after {mean:.0f} ms on average."
    )

"""Queries as they wait, are computed in batches, and meet their deadlines or miss them."""

from collections.abc import Sequence

from minitorch.errors import ArgumentError
from minitorch.serve.simulation import Batch, Simulation
from minitorch.show.scene import Canvas, Scene, Step, since
from minitorch.show.time_axis import LEFT, TOP, WIDTH, draw_lane, draw_time_axis

MOST = 60  # queries to show, the first ones
ROW, LANE = 8.0, 26.0
HINT = (
    "Across: time. Above, a line for each query. Below, containers: a batch is a bar, with its "
    "size."
)
LEGEND = (
    ("bar grad", "waits"),
    ("bar", "is computed"),
    ("bar faded", "still to come"),
    ("rule bad", "deadline"),
)


def see_serving(
    arrivals_ms: Sequence[float], simulation: Simulation, slo_ms: float, *,
    title: str = "Queue, batches and deadlines", tab: str = "Serving",
) -> Scene:  # fmt: skip
    """Return a run of a prediction server, to be gone through batch by batch.

    Args:
        arrivals_ms: when each query came, in order.
        simulation: what `serve.simulate` gave for them, or the same of a real run.
    Raises:
        ArgumentError: there is no query, or not as many latencies.
    """
    shown = min(len(arrivals_ms), MOST)
    latencies = len(simulation.latency_ms)
    if shown < 1 or latencies != len(arrivals_ms):
        got = f"{len(arrivals_ms)} arrivals and {latencies} latencies"
        raise ArgumentError(f"see_serving: got {got}, expected as many, 1 or more.")
    runs = [run for run in simulation.runs if min(run.queries) < shown]
    start = arrivals_ms[0]
    last = max([run.ended_ms for run in runs] + [arrivals_ms[shown - 1] + slo_ms])
    scale = WIDTH / (last - start)
    canvas = Canvas()
    bottom = TOP + ROW * shown + 12
    at = {query: (k, run) for k, run in enumerate(runs) for query in run.queries}
    for query in range(shown):
        place = at.get(query)
        _query(canvas, TOP + ROW * query, arrivals_ms[query] - start, slo_ms, scale, place, start)
    lanes = sorted({run.container for run in runs})
    for lane in lanes:
        draw_lane(canvas, bottom + LANE * lane, LANE, f"container {lane}")
    for k, run in enumerate(runs):
        _batch(canvas, k, run, bottom + LANE * run.container, start, scale)
    foot = bottom + LANE * len(lanes)
    draw_time_axis(canvas, foot, last - start)
    canvas.text(LEFT - 8, TOP + 8, f"{shown} queries", "small muted end")
    steps = [Step(f"Before the first query. Each is to be answered within {slo_ms:g} ms.")]
    steps += [_step(k, run, arrivals_ms, simulation, slo_ms) for k, run in enumerate(runs)]
    return Scene(
        title, HINT, tab, _summary(arrivals_ms, simulation, slo_ms), LEFT + WIDTH + 20, foot + 24,
        tuple(canvas.marks), tuple(steps), max(1, len(steps) * 2 // 3), LEGEND,
    )  # fmt: skip


def _query(
    canvas: Canvas, y: float, came: float, slo_ms: float, scale: float,
    place: tuple[int, Batch] | None, start: float,
) -> None:  # fmt: skip
    x, due = LEFT + came * scale, LEFT + (came + slo_ms) * scale
    if place is None:
        canvas.rect(x, y + 2, slo_ms * scale, ROW - 4, "box bad", rx=1, tip="dropped")
    else:
        k, run = place
        began, ended = (LEFT + (t - start) * scale for t in (run.began_ms, run.ended_ms))
        seen = since(k + 1, "bar grad faded", "bar grad")
        canvas.rect(x, y + 2, max(began - x, 0.6), ROW - 4, seen, rx=1)
        done = since(k + 1, "bar faded", "bar")
        canvas.rect(began, y + 1, ended - began, ROW - 2, done, rx=1)
    canvas.line(due, y, due, y + ROW, "rule bad")


def _batch(canvas: Canvas, k: int, run: Batch, y: float, start: float, scale: float) -> None:
    x, w = LEFT + (run.began_ms - start) * scale, (run.ended_ms - run.began_ms) * scale
    tip = f"{len(run.queries)} in {run.ended_ms - run.began_ms:.1f} ms"
    seen = since(k + 1, "bar faded", "bar")
    canvas.rect(x, y, max(w - 1, 1), LANE - 4, seen, rx=2, tip=tip)
    canvas.rect(x - 2, y - 2, w + 3, LANE, ((k + 1, k + 2, "ring"),), rx=3)
    label = str(len(run.queries))
    if w > 8 * len(label) + 2:
        when = since(k + 1, "small middle value", "small middle over")
        canvas.text(x + w / 2, y + LANE / 2 + 2, label, when, tip)


def _step(
    k: int, run: Batch, arrivals_ms: Sequence[float], simulation: Simulation, slo_ms: float
) -> Step:
    waiting = sum(
        came <= run.began_ms < came + latency and query not in run.queries
        for query, (came, latency) in enumerate(
            zip(arrivals_ms, simulation.latency_ms, strict=True)
        )
    )
    late = sum(simulation.latency_ms[query] > slo_ms for query in run.queries)
    first = run.began_ms - min(arrivals_ms[query] for query in run.queries)
    text = (
        f"Batch {k + 1}, on container {run.container}: {len(run.queries)} computed in "
        f"{run.ended_ms - run.began_ms:.1f} ms."
    )
    rows = [f"the first of them had waited {first:.1f} ms", f"under way besides: {waiting}"]
    return Step(text, (*rows, f"answered too late: {late}") if late else tuple(rows))


def _summary(arrivals_ms: Sequence[float], simulation: Simulation, slo_ms: float) -> str:
    count, sizes = len(arrivals_ms), simulation.batches
    late = sum(latency > slo_ms for latency in simulation.latency_ms)
    return (
        f"{count} queries in batches of {sum(sizes) / max(len(sizes), 1):.1f} on average, the "
        f"largest of {max(sizes, default=0)}. {late} of {count} not within {slo_ms:g} ms."
    )

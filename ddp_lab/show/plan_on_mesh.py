"""The best plan of a model on a mesh of devices, and how it changes with the links.

    PlanOnMesh(model="wide", gbytes=3.0, microbatches=16)

Each position of the controls has its plan, searched for when the chart is made, so that its page
needs no kernel. May import: traitlets, chart, errors, simulate, svg_text.
"""

from functools import cache
from typing import Any

import traitlets

from ddp_lab.errors import InvalidArgument
from ddp_lab.show.chart import Chart, module
from ddp_lab.show.svg_text import box, picture, text
from ddp_lab.simulate import LayerCost, best_plan, cluster
from ddp_lab.simulate.cluster import Cluster
from ddp_lab.simulate.planner import Plan, plan_of

MODELS = {
    "wide": ("many parameters, small outputs", LayerCost(3e11, 2e8, 1e6)),
    "long": ("few parameters, large outputs", LayerCost(3e11, 2e7, 1e8)),
}
LAYERS, HOSTS, DEVICES, FLOPS = 8, 2, 4, 1e14
INSIDE = (1e-6, 1 / 3e11)
SPEEDS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)  # 10^9 bytes a second between hosts
MICROBATCHES = (1, 4, 16, 64)
PURE = {
    "data parallel only": [(0, LAYERS, HOSTS, DEVICES, 8, 1)],
    "shared layers only": [(0, LAYERS, HOSTS, DEVICES, 1, 8)],
    "pipeline only": [(n, n + 1, 1, 1, 1, 1) for n in range(LAYERS)],
}
KINDS = ("forward", "backward", "exposed", "hidden")  # a poster's colours, by stage
SIDE, GAP, TOP = 92, 8, 48


@cache
def make_plan(model: str, gbytes: float, microbatches: int) -> Plan:
    """Return the best plan of a model with that link between hosts."""
    return best_plan(*_case(model, gbytes), microbatches)


def row(model: str, gbytes: float, microbatches: int) -> dict[str, Any]:
    """Return as plain data the best plan, and what it and the pure ones cost, term by term."""
    best = make_plan(model, gbytes, microbatches)
    case = _case(model, gbytes)
    plans = {"best": best} | {name: plan_of(p, *case, microbatches) for name, p in PURE.items()}
    return {
        "stages": [list(stage) for stage in best],
        "costs": {name: [plan.cost, dict(plan.breakdown)] for name, plan in plans.items()},
        "why": best.why(),
    }


def _case(model: str, gbytes: float) -> tuple[list[LayerCost], Cluster]:
    where = cluster(HOSTS, DEVICES, FLOPS, INSIDE, (1e-5, 1e-9 / gbytes))
    return [MODELS[model][1]] * LAYERS, where


class PlanOnMesh(Chart):
    """Which device has which layers, in the best plan; all traits but title and table are controls.

    Args:
        model: `"wide"` or `"long"`.
        gbytes: 10^9 bytes a second between hosts, one of `SPEEDS`.
        microbatches: of a step, one of `MICROBATCHES`.
        title: what stands above.
    Raises:
        InvalidArgument: another model, speed or number.
    """

    _esm = module("plan_on_mesh.js")
    title = traitlets.Unicode("The best plan on two hosts of four").tag(sync=True)
    table = traitlets.Dict().tag(sync=True)
    speeds = traitlets.List(list(SPEEDS)).tag(sync=True)
    counts = traitlets.List(list(MICROBATCHES)).tag(sync=True)
    model_name = traitlets.Unicode("wide").tag(sync=True)
    gbytes = traitlets.Float(3.0).tag(sync=True)
    microbatches = traitlets.Int(16).tag(sync=True)

    def __init__(self, model: str = "wide", **at: object) -> None:
        super().__init__(model_name=model, **at)
        choices_fit = (
            self.model_name in MODELS,
            self.gbytes in SPEEDS,
            self.microbatches in MICROBATCHES,
        )
        if not all(choices_fit):
            raise InvalidArgument(
                f"PlanOnMesh: no plan for that: got {self.model_name!r}, {self.gbytes} GB/s and "
                f"{self.microbatches} micro-batches, expected one of {', '.join(MODELS)}, one of "
                f"{SPEEDS} and one of {MICROBATCHES}."
            )
        self.table = {
            f"{name} {speed:g} {count}": row(name, speed, count)
            for name in MODELS
            for speed in SPEEDS
            for count in MICROBATCHES
        }

    def summary(self) -> str:
        kind = MODELS[self.model_name][0]
        why = make_plan(self.model_name, self.gbytes, self.microbatches).why()
        return (
            f"{self.heading()}: {LAYERS} layers with {kind}, {self.gbytes:g} GB/s between hosts, "
            f"{self.microbatches} micro-batch{'es' * (self.microbatches > 1)}. {why}"
        )

    def poster(self) -> str:
        marks = [text(10, 22, self.heading())]
        plan = make_plan(self.model_name, self.gbytes, self.microbatches)
        for device, (stage, words) in enumerate(_devices(plan)):
            host, place = divmod(device, DEVICES)
            x, y = 16 + place * (SIDE + GAP), TOP + host * (SIDE + 3 * GAP)
            kind = "optimizer" if stage is None else KINDS[stage % len(KINDS)]
            marks.append(box(x, y, SIDE, SIDE, kind, words))
            marks.append(text(x + SIDE / 2, y + SIDE / 2, words, "middle", "inside"))
        width, height = 16 + DEVICES * (SIDE + GAP), TOP + HOSTS * (SIDE + 3 * GAP)
        return picture(width, height, self.summary(), marks)


def _devices(plan: Plan) -> list[tuple[int | None, str]]:
    """Return the stage of each device and its layers in words; None where it is left over."""
    stages: list[tuple[int | None, str]] = []
    for number, (first, last, hosts, devices, _, _) in enumerate(plan):
        words = f"layers {first} to {last - 1}" if last - first > 1 else f"layer {first}"
        stages += [(number, words)] * (hosts * devices)
    return stages + [(None, "idle")] * (HOSTS * DEVICES - len(stages))

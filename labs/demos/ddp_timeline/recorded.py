"""A real step of data-parallel training, for the timeline: two hosts of a rank, a small network.

    python labs/demos/ddp_timeline/recorded.py     records a step anew into recorded.json

The link between the hosts is a pretended one, and so is the device of each rank, which a layer keeps
busy for 3 ms forward and 6 ms backward: a rank that waits for either sleeps, in real seconds. So
the step is the same on a laptop, and while others use its cores.
"""

import json
from dataclasses import asdict
from pathlib import Path
from time import sleep
from typing import Any

import minitorch
from ddp_lab import Communicator, DistributedDataParallel, Link, launch
from ddp_lab.data_parallel import measure, typical
from ddp_lab.data_parallel.measurement.backward_profile import BackwardProfile, profile_backward
from ddp_lab.data_parallel.measurement.step_times import Span, StepTimes
from ddp_lab.show import DdpTimeline

KEPT = Path(__file__).with_name("recorded.json")
RANKS, BUCKET_MIB = 2, 0.5
LAYERS, FORWARD_S = 8, 3e-3
LINK = Link(1e-3, 2 * FORWARD_S / (4 * 256 * 256))  # a layer's gradients as long as its backward


def loss(model: Any) -> minitorch.Tensor:
    return (model(minitorch.ones(8, 256)) ** 2).mean()


class Busy(minitorch.Op):
    """A layer's time on the device: x as it came, and twice as long on the way back."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def compute(self, xp: Any, x: Any) -> Any:
        sleep(self.seconds)
        return x

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return Busy(2 * self.seconds)(out_grad)


class Layer(minitorch.nn.Linear):
    def forward(self, x: Any) -> Any:
        return Busy(FORWARD_S)(super().forward(x))


def network() -> Any:
    return minitorch.nn.Sequential(*(Layer(256, 256) for _ in range(LAYERS)))


def run(comm: Communicator) -> dict[str, Any]:
    """Return one step of this rank, what its layers take, and where the sliders belong."""
    net = network()
    layers = profile_backward(net, loss)
    ddp = DistributedDataParallel(net, process_group=comm, bucket_cap_mb=BUCKET_MIB)
    steps = measure(ddp, loss, minitorch.optim.SGD(net.parameters(), lr=1e-3))
    at = {
        "bucket_mib": BUCKET_MIB,
        "latency_us": LINK.alpha / 2 * 1e6,  # the timeline's ring pays two, two ranks need one
        "bandwidth_gb_s": 1e-9 / LINK.beta,
        "contention": 0.0,
    }
    return {"profile": asdict(layers), "step": asdict(typical(steps)), "at": at}


def record() -> dict[str, Any]:
    """Return a step of rank 0, as plain data."""
    facts: dict[str, Any] = launch(run, RANKS, hosts=RANKS, link=LINK)[0]
    return facts


def duration(facts: dict[str, Any]) -> float:
    """Return the nanoseconds of a recorded step."""
    return float(facts["step"]["end_ns"] - facts["step"]["start_ns"])


def timeline(facts: dict[str, Any], title: str) -> DdpTimeline:
    """Return the timeline of a step, predicted above and recorded below, on its own link."""
    step = dict(facts["step"])
    for name in ("communication", "blocked"):
        step[name] = tuple(Span(**span) for span in step[name])
    return DdpTimeline.of(
        BackwardProfile(**facts["profile"]),
        RANKS,
        StepTimes(**step),
        title,
        facts["at"],
        **facts["at"],
    )


if __name__ == "__main__":
    best = min((record() for _ in range(5)), key=duration)
    KEPT.write_text(json.dumps(best, indent=1) + "\n", encoding="utf-8")
    print(KEPT)

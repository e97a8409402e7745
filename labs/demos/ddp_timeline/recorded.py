"""A real step of data-parallel training, for the timeline: two ranks, a small network.

    python labs/demos/ddp_timeline/recorded.py     records a step anew into recorded.json

The machine should have nothing else to do meanwhile.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import minitorch
from ddp_lab import Communicator, DistributedDataParallel, launch
from ddp_lab.data_parallel import measure
from ddp_lab.data_parallel.measurement.link_profile import profile_link
from ddp_lab.data_parallel.measurement.step_times import Span, StepTimes
from ddp_lab.data_parallel.measurement.sweep import BackwardProfile, profile_backward
from ddp_lab.show import DdpTimeline

KEPT = Path(__file__).with_name("recorded.json")
MIB = 1 << 20
RANKS, BUCKET_MIB = 2, 0.5


def loss(model: Any) -> minitorch.Tensor:
    return (model(minitorch.ones(64, 256)) ** 2).mean()


def run(comm: Communicator) -> dict[str, Any]:
    """Return one step of this rank, what its layers take, and where the sliders belong."""
    nn = minitorch.nn
    net = nn.Sequential(*(nn.Linear(256, 256) for _ in range(8)))
    link = profile_link(comm, [MIB // 8, MIB, 2 * MIB], rounds=5)
    profile = profile_backward(net, loss)
    ddp = DistributedDataParallel(net, process_group=comm, bucket_cap_mb=BUCKET_MIB)
    steps = measure(ddp, loss, minitorch.optim.SGD(net.parameters(), lr=1e-3))
    slope = (link.all_reduce(2 * MIB) - link.all_reduce(MIB)) / MIB
    latency = max(link.all_reduce(MIB // 8) - slope * MIB / 8, 1e-6) / 2
    at = {
        "bucket_mib": BUCKET_MIB,
        "latency_us": latency * 1e6,
        "bandwidth_gb_s": 1 / max(slope, 1e-11) / 1e9,
        "contention": link.contention,
    }
    return {"profile": asdict(profile), "step": asdict(steps.typical()), "at": at}


def record() -> dict[str, Any]:
    """Return a step of rank 0 on this machine, as plain data."""
    facts: dict[str, Any] = launch(run, RANKS)[0]
    return facts


def timeline(facts: dict[str, Any], title: str, **link: float) -> DdpTimeline:
    """Return the timeline of a recorded step, predicted above and recorded below.

    It opens on `link`, where that is given, else on what the step was recorded with.
    """
    step = dict(facts["step"])
    for name in ("communication", "blocked"):
        step[name] = tuple(Span(**span) for span in step[name])
    return DdpTimeline.of(
        BackwardProfile(**facts["profile"]),
        RANKS,
        StepTimes(**step),
        title,
        facts["at"] if link else None,
        **{**facts["at"], **link},
    )


if __name__ == "__main__":
    KEPT.write_text(json.dumps(record(), indent=1) + "\n", encoding="utf-8")
    print(KEPT)

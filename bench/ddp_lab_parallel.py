"""Pipelines and tensor layers against their bound: compute, and the bytes by the link as measured.

    python bench/ddp_lab_parallel.py [--rounds 9]

In every round ranks do, in turns: the step itself; its compute alone, with the same modules and no
word to each other; and its messages alone. The bound is made of the medians of the last two, for
a pipeline by `simulate.pipeline`. Ratios of step over bound, not times; the goal is at most 1.15.

Run it on a machine that has a core for each rank and nothing else to do.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import ddp_lab
from ddp_lab.parallel import Pipeline, parallelize, schedule
from ddp_lab.simulate import pipeline

GOAL = 1.15
RANKS = 2
WARM_UP = 2  # rounds not counted
PIPELINES = [  # schedule, stages a rank, width, rows of a micro-batch
    ("gpipe", 1, 512, 128),
    ("1f1b", 1, 512, 128),
    ("1f1b", 1, 1024, 64),
    ("interleaved_1f1b", 2, 512, 128),
    ("zero_bubble", 1, 512, 128),
]
MICROBATCHES = 8
LAYERS = 4  # of a stage
PRODUCTS = [(512, 256), (1024, 256), (1024, 1024)]  # width, rows


def seconds(call: Callable[[], Any], comm: Any) -> float:
    comm.barrier()
    began_at = time.perf_counter()
    call()
    return time.perf_counter() - began_at


def stage_of(width: int, layers: int) -> nn.Module:
    return nn.Sequential(*[m for _ in range(layers) for m in (nn.Linear(width, width), nn.Tanh())])


# Pipelines


def forward_and_back(stage: nn.Module, x: Tensor, grad: Tensor) -> tuple[float, float]:
    """Return the seconds of a stage's forward and backward, a micro-batch each."""
    x = x.detach().requires_grad_()
    began_at = time.perf_counter()
    y = stage(x)
    between = time.perf_counter()
    torch.autograd.backward(y, grad)
    return between - began_at, time.perf_counter() - between


def there_and_back(comm: Any, x: Tensor) -> None:
    """Send an activation to the other rank and back, as often as there are micro-batches."""
    for _ in range(MICROBATCHES):
        if comm.rank == 0:
            comm.send(x, 1)
            comm.recv(1)
        else:
            comm.send(comm.recv(0), 0)


def pipelines(comm: Any, rounds: int) -> list[dict[str, Any]]:
    torch.set_num_threads(1)
    rows = []
    for name, chunks, width, n in PIPELINES:
        stages = [stage_of(width, LAYERS // chunks) for _ in range(chunks)]
        pipe = Pipeline(
            comm,
            stages,
            schedule=name,
            microbatches=MICROBATCHES,
            loss_fn=nn.functional.mse_loss,
        )
        x, one = torch.randn(n * MICROBATCHES, width), torch.randn(n, width)
        found: dict[str, list[float]] = {key: [] for key in ("step", "forward", "backward", "trip")}
        for _ in range(rounds + WARM_UP):
            found["step"].append(seconds(lambda pipe=pipe, x=x: pipe.step(x, x), comm))
            comm.barrier()
            times = [forward_and_back(stages[0], one, one) for _ in range(MICROBATCHES)]
            found["forward"].append(statistics.median(f for f, _ in times))
            found["backward"].append(statistics.median(b for _, b in times))
            trips = seconds(lambda one=one: there_and_back(comm, one), comm)
            found["trip"].append(trips / (2 * MICROBATCHES))
        mine = {key: statistics.median(values[WARM_UP:]) for key, values in found.items()}
        rows.append({"what": f"{name}, {chunks} x {width}", "schedule": (name, chunks), **mine})
    return rows


def pipeline_bound(row: dict[str, Any]) -> float:
    """Return the seconds of a step by the simulator, the messages shared out over the actions."""
    name, chunks = row["schedule"]
    table = schedule(name, RANKS, MICROBATCHES, chunks)
    messages = 2 * (RANKS * chunks - 1) * MICROBATCHES
    send_s = row["trip"] * messages / sum(map(len, table))
    return pipeline(
        table, RANKS, MICROBATCHES, row["forward"], row["backward"], send_s, chunks=chunks
    ).makespan


# Tensor layers


class Mlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(torch.relu(self.fc1(x)))


def products(comm: Any, rounds: int) -> list[dict[str, Any]]:
    rows = []
    for width, n in PRODUCTS:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        shared = parallelize(Mlp(width), comm, {"fc1": "column", "fc2": "row"})
        alone = Mlp(width)
        alone.fc1 = nn.Linear(width, 4 * width // comm.size)
        alone.fc2 = nn.Linear(4 * width // comm.size, width)
        x = torch.randn(n, width, requires_grad=True)
        grad = torch.randn(n, width)

        def step(mlp: nn.Module, x: Tensor = x, grad: Tensor = grad) -> None:
            mlp.zero_grad()
            mlp(x).backward(grad)

        def sums(grad: Tensor = grad) -> None:
            comm.all_reduce(grad)
            comm.all_reduce(grad)

        found: dict[str, list[float]] = {key: [] for key in ("step", "compute", "sums")}
        for _ in range(rounds + WARM_UP):
            found["step"].append(seconds(lambda mlp=shared, step=step: step(mlp), comm))
            found["compute"].append(seconds(lambda mlp=alone, step=step: step(mlp), comm))
            found["sums"].append(seconds(sums, comm))
        mine = {key: statistics.median(values[WARM_UP:]) for key, values in found.items()}
        rows.append({"what": f"MLP {width}, {n} rows", **mine})
    return rows


def slowest(everyone: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return each row with the larger of the ranks' numbers."""
    return [
        {
            key: max(row[key] for row in ranks) if isinstance(value, float) else value
            for key, value in ranks[0].items()
        }
        for ranks in zip(*everyone, strict=True)
    ]


def show(title: str, rows: list[dict[str, Any]], bound: Callable[[dict[str, Any]], float]) -> None:
    print(f"\n{title}: step over bound, at most {GOAL}")
    for row in rows:
        print(f"  {row['what']:<28} {row['step'] / bound(row):5.2f}   ({1e3 * row['step']:.1f} ms)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    rows = slowest(list(ddp_lab.launch(pipelines, RANKS, rounds)))
    show(f"Pipelines, {MICROBATCHES} micro-batches on {RANKS} ranks", rows, pipeline_bound)
    rows = slowest(list(ddp_lab.launch(products, RANKS, rounds)))
    show("Column and row layer", rows, lambda row: row["compute"] + row["sums"])


if __name__ == "__main__":
    main()
